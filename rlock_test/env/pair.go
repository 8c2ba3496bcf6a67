package env

import (
	"testing"

	"github.com/redis/rueidis"
)

// Pair is a primary and its replica.
type Pair struct {
	Primary, Replica *Server
}

// StartPair starts a primary and a replica, and returns them once the replica
// is in sync. They are servers like those of Engine.Start, with args. What does not work
// within a minute ends the test with a failure.
func (e Engine) StartPair(tb testing.TB, args ...string) *Pair {
	tb.Helper()
	// By default a primary waits for five seconds for more replicas to come.
	args = append([]string{"--repl-diskless-sync-delay", "0"}, args...)
	p := &Pair{Primary: e.Start(tb, args...), Replica: e.Start(tb, args...)}
	p.Replica.Follow(tb, p.Primary)
	return p
}

// Promote makes the replica a primary of its own. The old one knows nothing
// of that and goes on serving its clients.
func (p *Pair) Promote(tb testing.TB) {
	tb.Helper()
	p.Replica.Do(tb, "REPLICAOF", "NO", "ONE")
}

// Follow makes the server a replica of primary, and returns once it is in sync.
func (s *Server) Follow(tb testing.TB, primary *Server) {
	tb.Helper()
	host, port := split(tb, primary.Addr())
	s.Do(tb, "REPLICAOF", host, port)
	s.poll(tb, "the replica is not in sync", []string{"ROLE"}, func(reply rueidis.RedisMessage) bool {
		return startsWith(reply, "slave", host, port, "connected")
	})
}
