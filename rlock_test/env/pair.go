package env

import (
	"testing"

	"github.com/redis/rueidis"
)

// Pair is a primary and its replica.
type Pair struct {
	Primary, Replica *Server
}

// StartPair starts a primary and a replica, and returns them when the replica is in sync. They are servers as
// Engine.Start makes them, with args. What does not work within a minute ends the test with a failure.
func (e Engine) StartPair(tb testing.TB, args ...string) *Pair {
	tb.Helper()
	// By default a primary waits five seconds for more replicas.
	args = append([]string{"--repl-diskless-sync-delay", "0"}, args...)
	p := &Pair{Primary: e.Start(tb, args...), Replica: e.Start(tb, args...)}
	p.Replica.Follow(tb, p.Primary)
	return p
}

// Promote makes the replica a primary. The old primary does not know this, and still serves its clients.
func (p *Pair) Promote(tb testing.TB) {
	tb.Helper()
	p.Replica.Do(tb, "REPLICAOF", "NO", "ONE")
}

// Follow makes the server a replica of primary, and returns when the replica is in sync.
func (s *Server) Follow(tb testing.TB, primary *Server) {
	tb.Helper()
	host, port := split(tb, primary.Addr())
	s.Do(tb, "REPLICAOF", host, port)
	s.poll(tb, "the replica is not in sync", []string{"ROLE"}, func(reply rueidis.RedisMessage) bool {
		return startsWith(reply, "slave", host, port, "connected")
	})
}
