package interrupt

import (
	"math/bits"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Health tells whether a client of Open keeps no call for longer than its context lasts. A nil Health never
// says so.
type Health struct {
	serves   func(connections int64) bool // see NewHealth
	pipes    int64                        // connections that calls use
	most     int64                        // commands in a ring: half of it
	calls    atomic.Int64
	unsure   atomic.Int64  // calls that had no answer, and may be in a ring: those of this period and the last
	answered time.Duration // a period, after which they have had one, or their connection is given up

	mu        sync.Mutex
	began     clock.Instant // this period
	now, last int64         // calls without an answer in this period, and in the one before
}

// NewHealth returns the Health of a client that is to be built with the option. serves reports whether an
// address has so many connections, and the client does not dial, so that no call has to. noticed is the time
// in which it knows that a connection is dead.
func NewHealth(
	option *rueidis.ClientOption, serves func(connections int64) bool, noticed time.Duration,
) *Health {
	// Others pipeline once calls go at the same time, and until then heed no context that is cancelled.
	told := option.OnInvalidations != nil && !option.DisableCache && !option.AlwaysRESP2
	if !told && !option.AlwaysPipelining || option.DisableAutoPipelining || option.Standalone.EnableRedirect {
		return nil
	}
	scale := option.RingScaleEachConn
	if scale <= 0 {
		scale = rueidis.DefaultRingScale
	}
	return &Health{
		serves: serves, pipes: pipes(option), most: 1 << scale / 2, answered: min(noticed, time.Minute),
	}
}

// pipes is how many connections a client of one server chooses from at random
// (rueidis.singleClientMultiplex). It dials each when it has chosen it first.
func pipes(option *rueidis.ClientOption) int64 {
	switch multiplex := option.PipelineMultiplex; {
	case multiplex < 0:
		return 1
	case multiplex > 0:
		return 1 << multiplex
	}
	return 1 << min(bits.Len(uint(runtime.GOMAXPROCS(0)))-1, 2)
}

// enter reports whether a call may do without a goroutine. It calls leave when it has returned.
func (h *Health) enter() bool {
	if h == nil {
		return false
	}
	calls := h.calls.Add(1) // before it looks, see Waited
	if !h.serves(h.pipes) || calls+h.unsure.Load() > h.most && calls+h.miss(0) > h.most {
		h.leave()
		return false
	}
	return true
}

func (h *Health) leave() { h.calls.Add(-1) }

// miss notes that so many calls had no answer, and returns how many may be in a ring. Others fit behind a
// few.
func (h *Health) miss(n int64) int64 {
	if h == nil {
		return 0
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	switch now := clock.Now(); {
	case now > h.began.After(2*h.answered):
		h.began, h.last, h.now = now, 0, 0
	case now > h.began.After(h.answered):
		h.began, h.last, h.now = h.began.After(h.answered), h.now, 0
	}
	h.now += n
	h.unsure.Store(h.now + h.last)
	return h.now + h.last
}

// Waited reports whether a dial that has just begun may keep calls waiting that heed no context: those that
// have begun before it.
func (h *Health) Waited() bool { return h != nil && h.calls.Load() > 0 }

// see notes a result.
func (h *Health) see(result rueidis.RedisResult) {
	if unanswered(result) {
		h.miss(1)
	}
}

func unanswered(result rueidis.RedisResult) bool { return result.NonRedisError() != nil }

// hits has the calls of a client of the user's that should be answered from its cache, as the last ones were.
// They do without a goroutine, which would take several times as long as they do. If the connection is lost
// in that moment, mostHits of them may have to wait for the next.
type hits struct {
	calls atomic.Int64
	last  atomic.Int64 // when one was answered
}

const (
	mostHits   = 16
	hitsRecent = 10 * time.Millisecond
)

func (h *hits) enter() bool {
	if last := h.last.Load(); last == 0 || clock.Now() > clock.Instant(last).After(hitsRecent) {
		return false
	}
	if h.calls.Add(1) > mostHits {
		h.calls.Add(-1)
		return false
	}
	return true
}

func (h *hits) leave() { h.calls.Add(-1) }

func (h *hits) see(result rueidis.RedisResult) {
	if result.IsCacheHit() {
		h.last.Store(int64(clock.Now()))
	}
}
