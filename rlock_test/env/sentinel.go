package env

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

const (
	sentinelCount  = 3
	sentinelQuorum = 2
	sentinelSet    = "env" // name of the primary among the sentinels
)

// Sentinel is a primary with a replica, and three sentinels that watch both.
type Sentinel struct {
	Primary   *Server // at the start; after Failover it is dead
	Replica   *Server // at the start; after Failover it is the primary
	Sentinels []*Server

	engine Engine
}

// StartSentinel starts a primary, a replica and their sentinels. It returns them when the replica is in sync
// and every sentinel knows all others. The processes are as Engine.Start makes them. The cleanup of tb kills
// them. What does not work within a minute ends the test with a failure.
func (e Engine) StartSentinel(tb testing.TB) *Sentinel {
	tb.Helper()
	pair := e.StartPair(tb)
	s := &Sentinel{Primary: pair.Primary, Replica: pair.Replica, engine: e}
	for range sentinelCount {
		s.Sentinels = append(s.Sentinels, e.startSentinel(tb, s.Primary))
	}
	for _, sentinel := range s.Sentinels {
		sentinel.poll(tb, "the sentinel does not know all others", []string{"SENTINEL", "MASTER", sentinelSet},
			knowsAll)
	}
	return s
}

// Option returns the options of a client that asks the sentinels for the primary.
func (s *Sentinel) Option() rueidis.ClientOption {
	option := rueidis.ClientOption{Sentinel: rueidis.SentinelOption{MasterSet: sentinelSet}}
	for _, sentinel := range s.Sentinels {
		option.InitAddress = append(option.InitAddress, sentinel.Addr())
	}
	return option
}

// Client returns a new client with the options of Option. The opts change them, in their order. The cleanup
// of tb closes the client.
func (s *Sentinel) Client(tb testing.TB, opts ...func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return newClient(tb, s.Option(), opts)
}

// Failover kills the primary. It returns when the replica has taken over and all sentinels say so. Before
// another Failover, call Replace.
func (s *Sentinel) Failover(tb testing.TB) {
	tb.Helper()
	// Before and after, the timeout is long, so that a primary on a busy machine does not look dead.
	s.hurry(tb, 500*time.Millisecond)
	defer s.hurry(tb, pollTimeout)
	s.Primary.Kill()
	s.Replica.poll(tb, "the replica is not promoted", []string{"ROLE"}, func(reply rueidis.RedisMessage) bool {
		return startsWith(reply, "master")
	})
	host, port := split(tb, s.Replica.Addr())
	for _, sentinel := range s.Sentinels {
		sentinel.poll(tb, "the sentinel names another primary",
			[]string{"SENTINEL", "GET-MASTER-ADDR-BY-NAME", sentinelSet},
			func(reply rueidis.RedisMessage) bool { return startsWith(reply, host, port) })
	}
}

// Switch makes a sentinel promote the replica although the primary works. An operator does the same before a
// replacement of the primary. Switch returns when the two have changed places.
func (s *Sentinel) Switch(tb testing.TB) {
	tb.Helper()
	s.Sentinels[0].Do(tb, "SENTINEL", "FAILOVER", sentinelSet)
	s.Replica.poll(tb, "the replica is not promoted", []string{"ROLE"}, func(reply rueidis.RedisMessage) bool {
		return startsWith(reply, "master")
	})
	s.Primary.poll(tb, "the former primary is not demoted", []string{"ROLE"},
		func(reply rueidis.RedisMessage) bool {
			return startsWith(reply, "slave")
		})
	s.Primary, s.Replica = s.Replica, s.Primary
}

// hurry sets how long a server may give no reply before it counts as dead.
func (s *Sentinel) hurry(tb testing.TB, after time.Duration) {
	tb.Helper()
	for _, sentinel := range s.Sentinels {
		sentinel.Do(tb, "SENTINEL", "SET", sentinelSet, "down-after-milliseconds",
			strconv.FormatInt(after.Milliseconds(), 10))
	}
}

// Replace follows Failover. The old replica becomes Primary and gets a new Replica. Replace returns when the
// new Replica is in sync and all sentinels know it.
func (s *Sentinel) Replace(tb testing.TB) {
	tb.Helper()
	s.Primary, s.Replica = s.Replica, s.engine.Start(tb, "--repl-diskless-sync-delay", "0")
	s.Replica.Follow(tb, s.Primary)
	for _, sentinel := range s.Sentinels {
		// By default a sentinel asks a primary for its replicas every ten seconds.
		sentinel.Do(tb, "SENTINEL", "DEBUG", "INFO-PERIOD", "500")
		sentinel.poll(tb, "the sentinel does not know the new replica",
			[]string{"SENTINEL", "REPLICAS", sentinelSet},
			func(reply rueidis.RedisMessage) bool { return lists(reply, s.Replica.Addr()) })
	}
}

// lists reports whether the replicas that a sentinel lists include a healthy one at addr.
func lists(reply rueidis.RedisMessage, addr string) bool {
	replicas, err := reply.ToArray()
	return err == nil && slices.ContainsFunc(replicas, func(replica rueidis.RedisMessage) bool {
		fields, err := replica.AsStrMap()
		return err == nil && fields["name"] == addr && fields["flags"] == "slave" &&
			fields["master-link-status"] == "ok"
	})
}

// A sentinel does not start without a file that it can keep its state in.
func (e Engine) startSentinel(tb testing.TB, primary *Server) *Server {
	tb.Helper()
	e.config = filepath.Join(tb.TempDir(), "sentinel.conf")
	if err := os.WriteFile(e.config, nil, 0o600); err != nil {
		tb.Fatal(err)
	}
	sentinel := e.start(tb, freePort, []string{"--sentinel"})
	host, port := split(tb, primary.Addr())
	sentinel.Do(tb, "SENTINEL", "MONITOR", sentinelSet, host, port, strconv.Itoa(sentinelQuorum))
	// After a sentinel has stood still for two seconds, it does nothing for another thirty by default.
	sentinel.Do(tb, "SENTINEL", "DEBUG", "TILT-PERIOD", "1000")
	// The sentinels repeat a vote without a winner after twice the timeout.
	sentinel.Do(tb, "SENTINEL", "SET", sentinelSet, "failover-timeout", "2000")
	return sentinel
}

func knowsAll(reply rueidis.RedisMessage) bool {
	fields, err := reply.AsStrMap()
	return err == nil && fields["flags"] == "master" && fields["num-slaves"] == "1" &&
		fields["num-other-sentinels"] == strconv.Itoa(sentinelCount-1)
}
