// Package permits decides which callers of one process ask the server for permits of a key, and which
// wait for one that another caller of the process gives up. Such a caller gets it as a value, without a
// command.
//
// For how long permits go from caller to caller is bounded by a turn, which begins when the server has
// granted them. After it they go back to the server, which gives them to whoever is first in its queue. So
// callers who come all the time keep no other process waiting, and no message must tell them to stop.
//
// While some callers wait here, at least one asks the server, and stands in its queue for this process. It
// gets nothing from another caller, because the server may grant it permits at the same time. Others
// overtake it meanwhile, but only until it is its turn at the server.
//
// It asks no server, has no timer, and does not know what a lock or a token is, how long a caller waits,
// or when its lease is over.
package permits

import (
	"hash/maphash"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Kind is what callers have in common who may have the same permits, one after the other.
type Kind struct {
	Key     string
	Limit   int    // how many permits there are
	Permits int    // how many each caller wants
	Owner   string // what the holder says about itself
	TTL     time.Duration
	Extends bool // the lease is extended anyway
}

// most is how many callers can have permits at a time.
func (k Kind) most() int { return max(k.Limit/k.Permits, 1) }

// Permits has the lines of those who wait.
type Permits struct {
	turn   time.Duration
	seed   maphash.Seed
	shards [16]shard
}

// shard has some of the lines, and its mutex guards them. While it is held, nothing outside of the room
// is called, so callers may hold a mutex of their own.
type shard struct {
	mu    sync.Mutex
	lines map[Kind]*line
}

// line is one of callers of a Kind. It lasts while one of them asks the server or waits.
type line struct {
	asking     int // callers who ask the server
	standing   int // of those, how many stand in its queue as far as is known, or ask because others wait behind them
	want       int // how many should stand there while others wait here
	head, tail *Ticket
	silence    *clock.Silence // of the last caller who has begun to ask; nil: none has
}

// Init makes Permits ready. Callers give permits to each other for a turn.
func (p *Permits) Init(turn time.Duration) { p.turn, p.seed = turn, maphash.MakeSeed() }

// Turn returns for how long callers give permits to each other.
func (p *Permits) Turn() time.Duration { return p.turn }

func (p *Permits) shard(key string) *shard {
	return &p.shards[maphash.String(p.seed, key)%uint64(len(p.shards))]
}

// Ticket is the place of one caller.
type Ticket struct {
	shard *shard
	kind  Kind
	wake  chan struct{} // receives when the Role changes; of capacity 1; nil: the caller has never waited

	// Guarded by the shard.
	role       Role
	counted    bool  // of those who ask: among the standing
	told       bool  // the server has said that the caller must wait
	score      int64 // see Score
	grant      Grant
	next, prev *Ticket
}

// Grant is what one caller gives to the next.
type Grant struct {
	Lease    any // that the next goes on with; the caller knows what it is
	Fence    uint64
	Deadline clock.Instant // of the lease
	Turn     clock.Instant // when the turn is over
}

// Role is what a caller has to do.
type Role uint8

const (
	Asks  Role = iota // it asks the server, and must call Done
	Waits             // it waits until Ready says something else, or calls Quit
	Has               // it has what another caller has given up
	Quits             // it has no place any more
)

// Enter says what a caller has to do. roundTrip is how long the server takes to answer: the longer that
// is, the more callers stand in its queue.
func (p *Permits) Enter(k Kind, roundTrip time.Duration) *Ticket {
	s := p.shard(k.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[k]
	if l == nil {
		l = &line{}
		if s.lines == nil {
			s.lines = map[Kind]*line{}
		}
		s.lines[k] = l
	}
	l.want = p.standing(k, roundTrip)
	t := &Ticket{shard: s, kind: k}
	if l.head == nil && (l.standing == 0 && l.asking < k.most() || l.standing > 0 && l.standing < l.want) {
		l.asking++
		return t
	}
	t.role, t.wake = Waits, make(chan struct{}, 1)
	t.prev = l.tail
	if l.tail == nil {
		l.head = t
	} else {
		l.tail.next = t
	}
	l.tail = t
	return t
}

// standing is how many callers should stand in the queue of the server while others wait: so many that they
// can take what goes back to the server at the end of each turn. From one grant to the next, a
// caller and the one who asks after it need two round trips.
func (p *Permits) standing(k Kind, roundTrip time.Duration) int {
	n := float64(k.most()) * 2 * float64(roundTrip) / float64(p.turn)
	return max(1, int(min(n, float64(k.most()))))
}

// remove takes a ticket that waits out of the line. The caller holds the mutex.
func (l *line) remove(t *Ticket) {
	if t.prev == nil {
		l.head = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.tail = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.next, t.prev = nil, nil
}

// call gives the first who waits another role. The caller holds the mutex.
func (l *line) call(r Role) *Ticket {
	t := l.head
	l.remove(t)
	t.role = r
	t.wake <- struct{}{}
	return t
}

// tidy forgets a line that nobody needs. The caller holds the mutex.
func (s *shard) tidy(k Kind, l *line) {
	if l.asking == 0 && l.head == nil {
		delete(s.lines, k)
	}
}

// Wake returns what a caller who waits waits for, before it calls Ready.
func (t *Ticket) Wake() <-chan struct{} { return t.wake }

// Ready returns what the caller has to do now.
func (t *Ticket) Ready() Role {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	return t.role
}

// AskedBy notes that the caller, who asks, shows others by silence since when it has no answer. It goes on
// with the silence of the one who has begun to ask before.
func (t *Ticket) AskedBy(silence *clock.Silence) {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	l := t.shard.lines[t.kind]
	if t.role != Asks || l == nil {
		return
	}
	if l.silence != nil {
		silence.Inherit(l.silence)
	}
	l.silence = silence
}

// Silence returns since when the last caller who has begun to ask has had no answer; nil: there is none.
func (t *Ticket) Silence() *clock.Silence {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	if l := t.shard.lines[t.kind]; l != nil {
		return l.silence
	}
	return nil
}

// Told notes that the server has told the caller to wait. Those who come from now on wait behind it.
func (t *Ticket) Told() {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	if t.role != Asks {
		return
	}
	t.told = true
	if !t.counted {
		t.counted = true
		t.shard.lines[t.kind].standing++
	}
}

// Done notes that the caller does not ask the server any more. If it has got the permits at once, more may
// be free, so that two who wait ask in its place. If it has given up, the next has its place in the queue of
// the server. Done has no effect on one that does not ask, nor on a nil Ticket.
func (t *Ticket) Done(granted bool) {
	if t == nil {
		return
	}
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	if t.role != Asks {
		return
	}
	t.role = Quits
	l := t.shard.lines[t.kind]
	l.asking--
	if t.counted {
		l.standing--
	}
	n := l.want
	if granted && !t.told {
		n = max(n, min(l.standing+2, t.kind.most()))
	}
	for l.head != nil && l.standing < n {
		next := l.call(Asks)
		next.counted = true
		if !granted {
			next.score, t.score = t.score, 0
		}
		l.asking++
		l.standing++
	}
	t.shard.tidy(t.kind, l)
}

// Quit ends the wait of a caller, and returns Quits. If another one has given it permits meanwhile, it
// returns Has: the caller has them, as if it had quit a moment later. One who has been called to ask
// has not asked yet, and asks no more.
func (t *Ticket) Quit() Role {
	t.Done(false)
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	if t.role == Waits {
		l := t.shard.lines[t.kind]
		l.remove(t)
		t.role = Quits
		t.shard.tidy(t.kind, l)
	}
	return t.role
}

// Grant returns what the caller has been given.
func (t *Ticket) Grant() Grant { return t.grant }

// Give gives permits to the first who waits, unless their turn is over. It reports false if nobody has
// them then.
func (p *Permits) Give(k Kind, g Grant, now clock.Instant) bool {
	if now >= g.Turn {
		return false
	}
	s := p.shard(k.Key)
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lines[k]
	if l == nil || l.head == nil {
		return false
	}
	l.head.grant = g
	l.call(Has)
	return true
}

// A caller who asks the server has these for its place in the queue there. What it does not need to know
// does nothing.

// Score returns the score of the place of an earlier caller who has given up; 0: none. Without it those
// behind callers who never wait for long enough would begin at the end of the queue each time.
func (t *Ticket) Score() int64 {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	return t.score
}

// LeaveScore notes the score of a place that the caller has left; 0: the server has not said one.
func (t *Ticket) LeaveScore(score int64) {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	if score != 0 {
		t.score = score
	}
}

// Wanted reports that others may want what is asked for.
func (t *Ticket) Wanted() bool { return true }

// Followed reports whether other callers wait behind those who ask.
func (t *Ticket) Followed() bool {
	t.shard.mu.Lock()
	defer t.shard.mu.Unlock()
	l := t.shard.lines[t.kind]
	return l != nil && l.head != nil
}

// Contended does nothing: each caller notes for itself what it waits for.
func (t *Ticket) Contended(time.Duration) {}

// Crowded does nothing: a turn ends whether others wait or not.
func (t *Ticket) Crowded() {}
