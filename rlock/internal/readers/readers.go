// Package readers lets readers of one process share a holder at the server: one of them asks for it,
// those who come meanwhile wait for what becomes of that, and those who come soon after have it too.
// The last to leave gives it up. So many short reads cost the server little.
//
// For how long a new reader may share a holder is bounded by a turn, which begins with the grant. After
// it, the next reader asks the server, which knows whether somebody waits for the whole lock. So readers
// who come all the time keep nobody waiting, and no message must tell them to stop.
//
// It asks no server, has no timer, and does not know what a lock or a token is, how long a reader waits,
// or when the lease of one is over.
package readers

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Kind is what readers who share a holder have in common.
type Kind struct {
	Key   string
	Owner string // what the holder says about itself
	TTL   time.Duration
}

// Readers has the Holders that readers may share.
type Readers struct {
	turn   time.Duration
	seed   maphash.Seed
	shards [16]shard
}

// shard has some of the Holders, and its mutex guards them. While it is held, nothing outside of the
// room is called, so callers may hold a mutex of their own.
type shard struct {
	mu     sync.Mutex
	latest map[Kind]*Holder // that new readers share or wait for
	limit  int              // size at which sweep looks for Holders that nobody can share any more
}

// sweep forgets Holders that no new reader may share, and whose readers may never leave. It does nothing
// until there are twice as many as after the last time. The caller holds mu.
func (s *shard) sweep(now clock.Instant) {
	if len(s.latest) < s.limit {
		return
	}
	for _, h := range s.latest {
		if h.state == open && !h.fits(now) {
			h.become(closed)
		}
	}
	s.limit = max(2*len(s.latest), 64)
}

// Init makes Readers ready. New readers share a Holder for a turn.
func (r *Readers) Init(turn time.Duration) { r.turn, r.seed = turn, maphash.MakeSeed() }

// Holder is a holder at the server that readers share, or want to share.
type Holder struct {
	shard *shard
	kind  Kind
	turn  time.Duration
	score int64 // see Score

	// Guarded by the shard.
	state   state
	waiting int // readers, for what becomes of the one who asks
	sharing int // readers
	grant   Grant
	until   clock.Instant // when the turn is over
	granted chan struct{} // closed with the grant; nil: nobody has waited
	vacancy chan struct{} // receives when nobody asks; of capacity 1
	silence *clock.Silence
}

// state is the state of a Holder. Only become changes it.
//
//	asking ─▶ open ─▶ closed ─▶ over
//	 │  ▲      └─▶ over
//	 ▼  │
//	vacant ─▶ over
type state uint8

const (
	asking state = iota // a reader asks the server
	vacant              // the one who has asked has given up, and others wait
	open                // new readers may share it
	closed              // those who share it have it, and nobody else gets it
	over                // nobody shares it: the last has left, or one has it alone
)

// transitions has, for each state, the set of states that may follow it.
var transitions = [...]uint8{
	asking: 1<<vacant | 1<<open | 1<<over,
	vacant: 1<<asking | 1<<over,
	open:   1<<closed | 1<<over,
	closed: 1 << over,
	over:   0,
}

// become changes the state. It reports false, and changes nothing, if the new state may not follow the
// present one. The caller holds the mutex.
func (h *Holder) become(to state) bool {
	if transitions[h.state]&(1<<to) == 0 {
		return false
	}
	h.state = to
	if to >= closed && h.shard.latest[h.kind] == h {
		delete(h.shard.latest, h.kind)
	}
	return true
}

// Grant is what the server has granted to the reader who has asked.
type Grant struct {
	Lease    any // that readers join; the caller knows what it is
	Fence    uint64
	Deadline clock.Instant // of the lease
}

// Role is what a reader has to do about a Holder.
type Role uint8

const (
	Shares Role = iota // it shares the Holder, and must leave it by Leave or Own
	Asks               // it asks the server, and must call Granted or Failed
	Waits              // it waits until Ready says something else, or calls Quit
	Quits              // it does not wait any more, and has no part in the Holder
)

// Enter says what a reader has to do. One that does not want to wait while another asks the server asks
// for a Holder that nobody else shares. now is a recent reading of the clock.
func (r *Readers) Enter(k Kind, wait bool, now clock.Instant) (*Holder, Role) {
	s := &r.shards[maphash.String(r.seed, k.Key)%uint64(len(r.shards))]
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.latest[k]
	if h != nil && h.state == open && !h.fits(now) {
		h.become(closed)
		h = nil
	}
	switch {
	case h == nil:
		h = &Holder{shard: s, kind: k, turn: r.turn}
		if s.latest == nil {
			s.latest = map[Kind]*Holder{}
		}
		s.sweep(now)
		s.latest[k] = h
		return h, Asks
	case h.state == open:
		h.sharing++
		return h, Shares
	case !wait:
		return &Holder{shard: s, kind: k, turn: r.turn}, Asks
	}
	if h.granted == nil {
		h.granted, h.vacancy = make(chan struct{}), make(chan struct{}, 1)
	}
	h.waiting++
	return h, Waits
}

// mostMissing is what may be missing of a new reader's lease, at most, beside a hundredth of it.
const mostMissing = 100 * time.Millisecond

// fits reports whether a new reader may share the Holder: its turn is not over, and nearly all of the
// lease is left. The caller holds the mutex.
func (h *Holder) fits(now clock.Instant) bool {
	missing := min(h.kind.TTL/100, mostMissing)
	return now < h.until && h.grant.Deadline.After(missing) >= clock.LeaseEnd(now, h.kind.TTL)
}

// Granted notes what the reader who asks has got. It and all who wait share the Holder from now on,
// and those who come before the turn is over.
func (h *Holder) Granted(g Grant, now clock.Instant) {
	h.shard.mu.Lock()
	defer h.shard.mu.Unlock()
	if !h.become(open) {
		return
	}
	h.grant, h.until = g, now.After(h.turn)
	h.sharing, h.waiting = 1+h.waiting, 0
	if h.granted != nil {
		close(h.granted)
	}
}

// Failed notes that the reader who asks has not got what the others want. The next of them asks.
func (h *Holder) Failed() {
	h.shard.mu.Lock()
	defer h.shard.mu.Unlock()
	if h.waiting == 0 {
		h.become(over)
	} else if h.become(vacant) {
		h.vacancy <- struct{}{}
	}
}

// Wake returns what a reader who waits waits for, before it calls Ready.
func (h *Holder) Wake() (granted, vacancy <-chan struct{}) { return h.granted, h.vacancy }

// Ready returns what a reader who waits has to do now.
func (h *Holder) Ready() Role {
	h.shard.mu.Lock()
	defer h.shard.mu.Unlock()
	switch h.state {
	case asking:
		return Waits
	case vacant:
		h.waiting--
		h.become(asking)
		select {
		case <-h.vacancy:
		default:
		}
		return Asks
	}
	return Shares
}

// AskedBy notes that the reader who asks shows others by silence since when it has no answer. It goes on with
// the silence of the one who has asked before.
func (h *Holder) AskedBy(silence *clock.Silence) {
	h.shard.mu.Lock()
	defer h.shard.mu.Unlock()
	if h.silence != nil {
		silence.Inherit(h.silence)
	}
	h.silence = silence
}

// Silence returns since when the reader who asks has had no answer; nil: nobody has asked.
func (h *Holder) Silence() *clock.Silence {
	h.shard.mu.Lock()
	defer h.shard.mu.Unlock()
	return h.silence
}

// Quit ends the wait of a reader, and returns Quits. If the Holder was granted meanwhile, it returns
// Shares: the reader shares it, as if it had quit a moment later.
func (h *Holder) Quit() Role {
	h.shard.mu.Lock()
	defer h.shard.mu.Unlock()
	if h.state != asking && h.state != vacant {
		return Shares
	}
	h.waiting--
	if h.waiting == 0 && h.state == vacant {
		h.become(over)
	}
	return Quits
}

// Grant returns what was granted. The caller shares the Holder.
func (h *Holder) Grant() Grant { return h.grant }

// Leave ends the part of a reader. last reports that nobody shares the Holder any more, so that the
// caller must give it up.
func (h *Holder) Leave() (last bool) {
	h.shard.mu.Lock()
	defer h.shard.mu.Unlock()
	h.sharing--
	if h.sharing > 0 {
		return false
	}
	h.become(over)
	return true
}

// Own ends the part of a reader that shares the Holder with nobody else: it has what was granted alone
// from now on. Own reports false, and changes nothing, if there are others.
func (h *Holder) Own() bool {
	h.shard.mu.Lock()
	defer h.shard.mu.Unlock()
	if h.sharing > 1 || !h.become(over) {
		return false
	}
	h.sharing = 0
	return true
}

// Close has no new reader share the Holder.
func (h *Holder) Close() {
	h.shard.mu.Lock()
	defer h.shard.mu.Unlock()
	h.become(closed)
}

// The one who asks the server has these for its place in the queue there. What it does not need to
// know does nothing.

// Score returns the score of the place of an earlier reader who has asked; 0: none.
func (h *Holder) Score() int64 { return h.score }

// LeaveScore leaves the score to the next who asks.
func (h *Holder) LeaveScore(score int64) { h.score = score }

// Wanted reports that others may want what is asked for.
func (h *Holder) Wanted() bool { return true }

// Followed reports whether other readers wait for what is asked for.
func (h *Holder) Followed() bool {
	h.shard.mu.Lock()
	defer h.shard.mu.Unlock()
	return h.waiting > 0
}

// Contended does nothing: each reader notes for itself what it waits for.
func (h *Holder) Contended(time.Duration) {}

// Crowded does nothing: readers of a process do not wait for each other's turns.
func (h *Holder) Crowded() {}
