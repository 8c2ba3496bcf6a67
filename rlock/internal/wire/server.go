package wire

import (
	"math"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// Server calls the scripts for callers who have keys and tokens. Its errors show no token. If it cannot
// free something at once, a reaper frees it later.
type Server struct {
	calls   calls
	cluster bool
	backed  bool // a backend is in place of the server: see NewBacked
	reapers reapers
	queues  Queues

	closed       atomic.Bool   // the client is closed, as far as this process can tell: see Outage
	uncached     atomic.Bool   // the client has no cache
	roundTrip    trip          // of the last command about a contended key
	acquisitions atomic.Uint64 // commands sent
}

// calls runs scripts for keys of one slot, or several scripts in one pipeline.
type calls struct {
	client    rueidis.Client
	scripts   *gen.Scripts // nil: there are only locks
	locks     Locks        // the same scripts, or a backend
	queue     *queueing
	combiners *combiners
}

// NewServer returns the server of the client. process is the name of this process in the queues. It must
// have no colon.
func NewServer(client rueidis.Client, scripts *gen.Scripts, process string) *Server {
	cluster := client.Mode() == rueidis.ClientModeCluster
	return newServer(calls{client: client, scripts: scripts, locks: scripts}, cluster, process)
}

// NewBacked returns a Server whose keys are in a backend. It has no queues, no shares and no cache, and no
// token replaces another. It takes no keys together: each key of a set counts as a slot of its own.
func NewBacked(locks Locks) *Server {
	s := newServer(calls{locks: locks}, false, "")
	s.backed = true
	s.uncached.Store(true)
	s.queues.Choose(Polling)
	return s
}

// Backed reports whether a backend is in place of the server.
func (s *Server) Backed() bool { return s.backed }

func newServer(c calls, cluster bool, process string) *Server {
	c.queue = &queueing{process: process, slots: cluster}
	s := &Server{calls: c, cluster: cluster}
	s.calls.combiners = newCombiners(cluster, s.calls.tryMany, s.calls.releaseMany)
	s.reapers = reapers{release: s.calls.releaseAll, of: map[uint16]*reaper{}}
	s.queues = Queues{s.calls, s}
	return s
}

// Close makes a last try to free what is left, within limit. It returns the keys that may not be free.
func (s *Server) Close(limit time.Duration) (left []string) { return s.reapers.close(limit) }

func (s *Server) reap(call releaseCall, ttl time.Duration) {
	var of uint16
	if s.cluster {
		of = slot.Of(call.keys[0])
	}
	s.reapers.add(of, call, ttl)
}

// Acquisitions returns how many attempts to acquire were sent.
func (s *Server) Acquisitions() uint64 { return s.acquisitions.Load() }

// RoundTrip returns about how long a command for a contended key takes.
func (s *Server) RoundTrip() time.Duration { return time.Duration(s.roundTrip.ns.Load()) }

type trip struct{ ns atomic.Int64 }

func (t *trip) note(sent clock.Instant) { t.ns.Store(int64(clock.Now() - sent)) }

// milliseconds converts a number of milliseconds as the bindings convert it. If the number is too large for
// a time.Duration, the result is the longest duration of the same sign.
func milliseconds(n int64) time.Duration {
	const longest = math.MaxInt64 / int64(time.Millisecond)
	switch {
	case n > longest:
		return math.MaxInt64
	case n < -longest:
		return math.MinInt64
	}
	return time.Duration(n) * time.Millisecond
}

// remaining converts an answer of PTTL. -1 stands for a key that never expires.
func remaining(left time.Duration) time.Duration {
	if left == -time.Millisecond {
		return clock.NoExpiry
	}
	return max(left, 0)
}
