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
	serves func(connections int64) bool // see NewHealth
	pipes  int64                        // connections that calls use
	most   int64                        // half of the commands that fit in a ring
	calls  atomic.Int64
	unsure atomic.Int64 // calls of this period and the last without an answer, which may be in a ring
	// length of a period, after which such a call has its answer, or its connection is given up
	answered time.Duration

	mu        sync.Mutex
	began     clock.Instant // this period
	now, last int64         // calls without an answer in this period, and in the one before
}

// NewHealth returns the Health of a client that is built with the option. serves reports whether an address
// has at least that many connections, and the client does not dial. Then no call has to dial. noticed is
// how long the client takes to know that a connection is dead.
func NewHealth(
	option *rueidis.ClientOption, serves func(connections int64) bool, noticed time.Duration,
) *Health {
	// Other clients begin to pipeline when two calls go at the same time. Until then they ignore a
	// cancelled context.
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

// pipes returns from how many connections a client of one server chooses at random
// (rueidis.singleClientMultiplex). The client dials each when it first chooses it.
func pipes(option *rueidis.ClientOption) int64 {
	switch multiplex := option.PipelineMultiplex; {
	case multiplex < 0:
		return 1
	case multiplex > 0:
		return 1 << multiplex
	}
	return 1 << min(bits.Len(uint(runtime.GOMAXPROCS(0)))-1, 2)
}

// enter reports whether a call may go without a goroutine. Then the call must leave when it has returned.
func (h *Health) enter() bool {
	if h == nil {
		return false
	}
	calls := h.calls.Add(1) // before it looks: see Waited
	if !h.serves(h.pipes) || calls+h.unsure.Load() > h.most && calls+h.miss(0) > h.most {
		h.leave()
		return false
	}
	return true
}

func (h *Health) leave() { h.calls.Add(-1) }

// miss notes that n calls had no answer, and returns how many may be in a ring. Behind a few of them, other
// calls still fit.
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

// Waited reports whether a dial that has just begun may delay calls that ignore their context. These are
// calls that have begun before the dial.
func (h *Health) Waited() bool { return h != nil && h.calls.Load() > 0 }

func (h *Health) see(result rueidis.RedisResult) {
	if unanswered(result) {
		h.miss(1)
	}
}

func unanswered(result rueidis.RedisResult) bool { return result.NonRedisError() != nil }

// hits has the calls of a user's client that the cache should answer, as it answered the last ones. They go
// without a goroutine, which would take several times as long as the call. If the connection is lost at
// that moment, up to mostHits calls may have to wait for the next one.
type hits struct {
	calls atomic.Int64
	last  atomic.Int64 // when the cache last answered a call
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
