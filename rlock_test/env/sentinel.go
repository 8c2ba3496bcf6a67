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

// Sentinel is a primary with a replica, and three sentinels that watch them.
type Sentinel struct {
	Primary   *Server // at the start; after Failover it is dead
	Replica   *Server // at the start; after Failover it is the primary
	Sentinels []*Server

	engine Engine
}

// StartSentinel starts a primary, a replica and their sentinels. It returns
// them once the replica is in sync and every sentinel knows all the others. The
// processes are like those of Engine.Start, and the cleanup of tb kills them.
// What does not work within a minute ends the test with a failure.
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

// Option returns the options of a client that asks the sentinels for the
// primary.
func (s *Sentinel) Option() rueidis.ClientOption {
	option := rueidis.ClientOption{Sentinel: rueidis.SentinelOption{MasterSet: sentinelSet}}
	for _, sentinel := range s.Sentinels {
		option.InitAddress = append(option.InitAddress, sentinel.Addr())
	}
	return option
}

// Client returns a new client with Option changed by opts in their order. The
// cleanup of tb closes the client.
func (s *Sentinel) Client(tb testing.TB, opts ...func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return newClient(tb, s.Option(), opts)
}

// Failover kills the primary and returns once the replica has taken its place
// and all sentinels say so. To call it again, Replace the dead one first.
func (s *Sentinel) Failover(tb testing.TB) {
	tb.Helper()
	// Before and after nobody is in a hurry, lest a busy machine look like a dead primary.
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

// Switch has a sentinel promote the replica although the primary works, as an operator does before it is
// replaced. It returns once they have changed places.
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

// hurry sets after how long without a reply a server counts as dead.
func (s *Sentinel) hurry(tb testing.TB, after time.Duration) {
	tb.Helper()
	for _, sentinel := range s.Sentinels {
		sentinel.Do(tb, "SENTINEL", "SET", sentinelSet, "down-after-milliseconds",
			strconv.FormatInt(after.Milliseconds(), 10))
	}
}

// Replace follows Failover: what was the replica is Primary from now on, and has a
// new Replica, which is in sync and known to all sentinels when it returns.
func (s *Sentinel) Replace(tb testing.TB) {
	tb.Helper()
	s.Primary, s.Replica = s.Replica, s.engine.Start(tb, "--repl-diskless-sync-delay", "0")
	s.Replica.Follow(tb, s.Primary)
	for _, sentinel := range s.Sentinels {
		// They ask a primary for its replicas every ten seconds.
		sentinel.Do(tb, "SENTINEL", "DEBUG", "INFO-PERIOD", "500")
		sentinel.poll(tb, "the sentinel does not know the new replica",
			[]string{"SENTINEL", "REPLICAS", sentinelSet},
			func(reply rueidis.RedisMessage) bool { return lists(reply, s.Replica.Addr()) })
	}
}

// lists reports whether a healthy replica is among a sentinel's.
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
	// After it has stood still for two seconds it does nothing for another thirty.
	sentinel.Do(tb, "SENTINEL", "DEBUG", "TILT-PERIOD", "1000")
	// A vote without a winner is repeated after twice that.
	sentinel.Do(tb, "SENTINEL", "SET", sentinelSet, "failover-timeout", "2000")
	return sentinel
}

func knowsAll(reply rueidis.RedisMessage) bool {
	fields, err := reply.AsStrMap()
	return err == nil && fields["flags"] == "master" && fields["num-slaves"] == "1" &&
		fields["num-other-sentinels"] == strconv.Itoa(sentinelCount-1)
}
