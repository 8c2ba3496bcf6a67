package wire

import (
	"context"
	"math"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// Server calls the scripts for callers who have keys and tokens. Its errors show no token. What
// it cannot free at once, a reaper frees later.
type Server struct {
	calls   calls
	cluster bool
	reapers reapers
	queues  Queues

	closed       atomic.Bool   // the client is, as far as can be told; see Outage
	uncached     atomic.Bool   // the client has no cache
	roundTrip    trip          // of the last command about a contended key
	acquisitions atomic.Uint64 // commands sent
}

// calls runs scripts for keys of one slot, or several scripts in one pipeline.
type calls struct {
	client    rueidis.Client
	scripts   *gen.Scripts
	queue     *queueing
	combiners *combiners
}

// NewServer returns the server that the client is connected to. process is the name of this process
// in the queues; it has no colon.
func NewServer(client rueidis.Client, scripts *gen.Scripts, process string) *Server {
	cluster := client.Mode() == rueidis.ClientModeCluster
	s := &Server{calls: calls{client, scripts, &queueing{process: process, slots: cluster}, nil}, cluster: cluster}
	s.calls.combiners = newCombiners(cluster, s.calls.tryMany, s.calls.releaseMany)
	s.reapers = reapers{release: s.calls.releaseAll, of: map[uint16]*reaper{}}
	s.queues = Queues{s.calls, s}
	return s
}

// Close makes a last try to free what is left to free, within limit.
func (s *Server) Close(limit time.Duration) { s.reapers.close(limit) }

// reap has the reaper make a call; see reaper.add.
func (s *Server) reap(call releaseCall, ttl time.Duration) {
	var of uint16
	if s.cluster {
		of = slot.Of(call.keys[0])
	}
	s.reapers.add(of, call, ttl)
}

// Acquisitions is how many attempts to acquire were sent.
func (s *Server) Acquisitions() uint64 { return s.acquisitions.Load() }

// RoundTrip is about how long a command for a contended key takes.
func (s *Server) RoundTrip() time.Duration { return time.Duration(s.roundTrip.ns.Load()) }

// trip is how long a command has taken.
type trip struct{ ns atomic.Int64 }

func (t *trip) note(sent clock.Instant) { t.ns.Store(int64(clock.Now() - sent)) }

// Attached is what Attach has found.
type Attached struct {
	Lost      bool          // a key has none of the tokens
	Key       string        // that one, or one of those that an error is about
	End       clock.Instant // of the lease, at the earliest
	Remaining time.Duration // of the longest lease; clock.NoExpiry: one of them never ends
}

// Attach gives the keys a token in place of those of a Handoff, while ctx lasts, and within Patience
// for each slot. A share gets a new lease of ttl; keys keep theirs. It asks the slots one after the
// other, so that of two callers with the same former tokens only one gets past the first slot. If a key
// is lost, the keys of its slot have not changed. The reaper frees those of the slots before, unless the
// caller chose the token. After an error the keys may have the new token. After an answer nobody has the
// former ones, and the reaper takes back what late calls take for them.
func (s *Server) Attach(ctx context.Context, c *Claim, token string, h *Handoff, ttl time.Duration) (Attached, error) {
	a, err := attachEach(ctx, s, c, token, h.Tokens(), ttl)
	if err == nil && h.Late {
		former := s.All(c.Keys(), true)
		former.Unsettle(h.Tokens()[0])
		s.Abandon(&former, h.Tokens(), clock.NoExpiry)
	}
	return a, err
}

func attachEach(ctx context.Context, s *Server, c *Claim, token string, former []string, ttl time.Duration) (Attached, error) {
	whole := Attached{End: clock.Never}
	for done, keys := range c.BySlot() {
		lost, sent, left, err := s.calls.attach(ctx, keys, token, former, ttl)
		switch {
		case err != nil:
			return Attached{Key: keys[0]}, err
		case lost != "":
			if done > 0 {
				s.Abandon(c, []string{token}, clock.NoExpiry)
			}
			return Attached{Lost: true, Key: lost}, nil
		}
		whole.End = min(whole.End, clock.LeaseEnd(sent, left))
		whole.Remaining = max(whole.Remaining, left)
	}
	return whole, nil
}

// attach is Attach for keys of one slot.
func (s calls) attach(
	ctx context.Context, keys []string, token string, former []string, ttl time.Duration,
) (lost string, sent clock.Instant, left time.Duration, err error) {
	p := gen.AttachParams{Keys: keysOf(keys, token), Token: token, Keep: true, Former: former}
	if isShare(token) {
		p.Keep, p.TTL = false, ttlParam(ttl)
	}
	err = RetryFor(ctx, Patience, func(ctx context.Context) error {
		sent = clock.Now()
		r, err := s.scripts.Attach(ctx, s.client, p)
		if err == nil && r.Position != 0 {
			lost = slot.KeyAt(keys, r.Position)
		}
		left = remaining(r.Remaining)
		return err
	})
	return lost, sent, left, Redact(Redact(err, token), former...)
}

// milliseconds reads a number of them that may also mean something else, as the bindings read those that
// they know as such: what is too long for Go is the longest duration of the same sign.
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

// remaining reads what PTTL answers: -1 stands for a key that never expires.
func remaining(left time.Duration) time.Duration {
	if left == -time.Millisecond {
		return clock.NoExpiry
	}
	return max(left, 0)
}
