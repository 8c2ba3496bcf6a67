package queue

import (
	"context"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Ticket is the place of one acquisition in the queue for a key. The zero Ticket is in no
// queue, and its methods do nothing. The mutex of its shard guards it.
//
//	absent ─Join─▶ front ─Leave─▶ gone
//	absent ─Join─▶ waiting ─the front leaves─▶ front
//	               waiting ─Offer─▶ offered ─Grant─▶ granted ─Granted─▶ front
//	                                offered ─Withdraw─▶ waiting
//	               waiting or offered ─Leave─▶ gone
type Ticket[R, G any, H Holder] struct {
	shard  *shard[R, G, H] // nil: it is in no queue
	key    string
	place  *place[R, G, H] // nil: it was the front at once, nobody is behind it, and no turn is counted
	holder H               // of the key, while the front is one
	state  state

	silence clock.Silence
}

// Silence is since when the server has not answered the acquisition that has the ticket, if that is the
// front. The next front goes on with it, and one that leaves from behind knows of it then.
func (t *Ticket[R, G, H]) Silence() *clock.Silence { return &t.silence }

// state tells where in its queue a ticket is.
type state uint8

const (
	absent  state = iota // it is in no queue
	waiting              // behind the front
	offered              // the holder is handing the lock to it
	front                // it asks the server, or holds the lock
	granted              // it is the front, and has not taken what was handed to it
	gone
)

// place is what a ticket needs only if other tickets are before or behind it.
type place[R, G any, H Holder] struct {
	request    R
	next, prev *Ticket[R, G, H]
	signal     *clock.Signal  // sent when a ticket that waited is the front; nil: it never waited
	watches    bool           // see Watch
	grant      G              // what was handed to it, or is left of a hand-over that failed
	line       *line[R, G, H] // that it is in, or that it has as the front
}

// needLine returns the line of a ticket that is the front, which it makes if there is none. The caller holds mu.
func (t *Ticket[R, G, H]) needLine() *line[R, G, H] {
	if t.place == nil {
		t.place = &place[R, G, H]{}
	}
	if t.place.line == nil {
		t.place.line = &line[R, G, H]{front: t}
		t.shard.keys[strings.Clone(t.key)] = entry[R, G, H]{line: t.place.line} // the line may outlive what the caller's key is a part of
	}
	return t.place.line
}

// line returns the line that the ticket is in, or that it has as the front. It returns nil for a ticket that is gone,
// and for a front that never had one behind it and whose turn is not counted. The caller holds mu.
func (t *Ticket[R, G, H]) line() *line[R, G, H] {
	if t.place == nil {
		return nil
	}
	return t.place.line
}

// leave ends the ticket of a front. The caller holds mu.
func (t *Ticket[R, G, H]) leave() {
	var none H
	t.state, t.holder = gone, none
	t.leavePlace()
}

// leavePlace gives the place of a ticket that is gone to the next that waits. The caller holds mu.
func (t *Ticket[R, G, H]) leavePlace() {
	p := t.place
	t.place = nil
	if p == nil || p.signal == nil {
		return
	}
	if p.watches {
		p.signal.Stop() // the timer may be set for an hour
	}
	*p = place[R, G, H]{signal: p.signal}
	t.shard.queue.places.Put(p)
}

// holds reports whether the front has the lock. The caller holds mu.
func (t *Ticket[R, G, H]) holds() bool {
	var none H
	return t.holder != none
}

// ended reports whether the front is a holder that has ended. The caller holds mu.
func (t *Ticket[R, G, H]) ended(now clock.Instant) bool { return t.holds() && t.holder.Over(now) }

// Readiness is how far a ticket that waited has come.
type Readiness int

const (
	Behind     Readiness = iota // others are before it
	Front                       // it is the front, which asks the server
	HandedOver                  // it is the front, and a holder has handed it the lock
)

// Await waits until Ready returns something else than Behind, and returns that, or Behind at that
// instant. It returns why ctx ended if that comes first, and clock.ErrStopped if stop is closed:
// whoever closes it calls Wake. now is a recent reading of the clock. The goroutine that leaves the
// queue with the ticket calls Await, and not again after the ticket has come to the front.
func (t *Ticket[R, G, H]) Await(ctx context.Context, now, until clock.Instant, stop <-chan struct{}) (g G, r Readiness, err error) {
	signal := t.place.signal
	for {
		select {
		case <-stop:
			return g, Behind, clock.ErrStopped
		default:
		}
		if err := signal.Wait(ctx, now, until); err != nil {
			return g, Behind, err
		}
		if g, r = t.Ready(); r != Behind {
			return g, r, nil
		}
		if now = clock.Now(); now >= until {
			return g, Behind, nil
		}
	}
}

// Ready returns how far a ticket that waited has come, and what the holder has handed to it. If it
// is Front, g is what a Withdraw has left for it. What was returned once is not returned again.
func (t *Ticket[R, G, H]) Ready() (g G, r Readiness) {
	s := t.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	switch t.state {
	case granted:
		t.state, r = front, HandedOver
	case front:
		r = Front
	default:
		return g, Behind
	}
	return t.takeGrant(), r
}

// WatchAfter is how long a ticket waits before its caller has the holder watched, with Watch. A holder
// that others wait for for less need not be watched, which costs more than to hand a lock over.
const WatchAfter = 20 * time.Millisecond

// Watch notes that a ticket waits for long: from now on, Hold says that a holder before it is to be
// watched. Watch returns the present holder, or the zero value if there is none.
func (t *Ticket[R, G, H]) Watch() (h H) {
	s := t.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.state != waiting && t.state != offered || t.place.watches {
		return h
	}
	t.place.watches = true
	line := t.line()
	if t.state == waiting {
		line.count(t, 1)
	}
	return line.front.holder
}

// takeGrant removes the grant of the ticket, and returns it. The caller holds mu.
func (t *Ticket[R, G, H]) takeGrant() (g G) {
	if t.place != nil {
		g, t.place.grant = t.place.grant, g
	}
	return g
}

// Hold notes that the front has the lock, and reports whether a waiter depends on the end of this lock being
// noticed: a ticket that has called Watch, or any one if the lease ends so soon that none calls it before. If the server has given this process the lock, its turn begins. now is a
// recent reading of the clock.
func (t *Ticket[R, G, H]) Hold(h H, now clock.Instant) (watch bool) {
	if t.shard == nil {
		return false
	}
	s := t.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.state != front {
		return false
	}
	t.holder = h
	line := t.line()
	if line == nil {
		if s.wanted == t.key {
			s.wanted = ""
		}
		return false
	}
	line.score = 0
	line.turn.begin(now)
	return line.watching > 0 || line.head != nil && h.Deadline() < now.After(WatchAfter)
}

// Behind returns the holder that a ticket is directly behind. It returns the zero value if
// another ticket is between them, or if the front does not hold the lock.
func (t *Ticket[R, G, H]) Behind() (h H) {
	s := t.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.state != waiting || t.place.prev != nil {
		return h
	}
	return t.line().front.holder
}

// Remaining returns what is left of the lease that the queue of a ticket waits for, whether its holder is
// in this process or in another; 0 if that is not known, or the ticket has not waited. now is a recent reading of the clock.
func (t *Ticket[R, G, H]) Remaining(now clock.Instant) time.Duration {
	s := t.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if line := t.line(); line != nil {
		return line.front.remaining(now)
	}
	return 0
}

// remaining returns what is left of the lease of the front or, if it holds none, of that for which
// it waits. The caller holds mu.
func (t *Ticket[R, G, H]) remaining(now clock.Instant) time.Duration {
	if t.holds() {
		return max(t.holder.Deadline().From(now), time.Millisecond)
	}
	if line := t.line(); line != nil && line.remote != 0 {
		return max(line.remote.From(now), 0)
	}
	return 0
}

// Leave gives the place up. If the ticket is the front, the next one becomes the front. If a
// holder has handed the lock to the ticket, and Granted has not taken it, the ticket stays as
// the front and Leave returns what was handed over: it is as if the caller had given up a
// moment later. Otherwise Leave reports false, and g is what a Withdraw has left. If a
// hand-over to the ticket is under way, the holder learns from Grant or Withdraw that the
// ticket has left, and the holder has g.
func (t *Ticket[R, G, H]) Leave() (g G, handed bool) {
	if t.shard == nil {
		return g, false
	}
	s := t.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	switch t.state {
	case granted:
		t.state = front
		return t.takeGrant(), true
	case front:
		g = t.takeGrant()
		s.next(t)
	case waiting:
		g = t.takeGrant()
		t.silence.Inherit(&t.line().front.silence)
		t.line().remove(t)
		t.state = gone
		t.leavePlace()
	case offered:
		t.state = gone
		t.leavePlace()
	}
	return g, false
}

// Quit is Leave, but a ticket that has come to the front stays there, because what a Withdraw has left
// for it may have a score for LeaveScore. Leave must follow.
func (t *Ticket[R, G, H]) Quit() (g G, handed bool) {
	if t.shard != nil {
		if g, r := t.Ready(); r != Behind {
			return g, r == HandedOver
		}
	}
	return t.Leave()
}

// Offer is a hand-over that is under way: from the front, which has given its lock up but
// not freed it, to the next. Grant or Withdraw must follow.
type Offer[R, G any, H Holder] struct {
	from, to *Ticket[R, G, H]
	Request  R      // of the next
	Fence    uint64 // for the next, if one is reserved; else 0
	Reserve  int    // how many fences to take from the server if Fence is not used
	Ask      bool   // the server must be asked whether another process waits: by the hand-over, or by AskMeanwhile
	Itself   bool   // the hand-over must ask, because AskMeanwhile does not get an answer
	Over     bool   // the turn is over: another process is to have the lock, and then the next ticket
	Met      bool   // a front has found another process holding the key
}

// Offer begins to hand the front's lock to the next ticket. It reports false if nobody waits: the
// key must then be freed. blind says that the server cannot tell whether another process waits: a
// turn is then over when its time is. now is a recent reading of the clock.
func (t *Ticket[R, G, H]) Offer(blind bool, now clock.Instant) (o Offer[R, G, H], ok bool) {
	if t.shard == nil {
		return o, false
	}
	s := t.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	line := t.line()
	if t.state != front || line == nil || line.head == nil {
		return o, false
	}
	to := line.head
	line.remove(to)
	to.state = offered
	o = Offer[R, G, H]{from: t, to: to, Request: to.place.request}
	o.Over, o.Met = line.turn.over(now, s.queue.limit), line.met
	if blind {
		line.turn.begin(now)
		o.Over = time.Duration(now-line.turn.began) >= s.queue.limit
	}
	if !o.Over {
		if !blind {
			o.Ask, o.Itself = line.turn.mustAsk(now, s.queue.limit)
		}
		o.Fence, o.Reserve = line.turn.nextFence()
	}
	return o, true
}

// Answered notes what the server has said to the hand-over: it has reserved n fences, from first on,
// of which the first goes with this hand-over, and another process has waited for so long; 0:
// none waits.
func (o *Offer[R, G, H]) Answered(first uint64, n int, waits time.Duration) {
	s := o.from.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	turn := &o.from.line().turn
	turn.reserve(first, n)
	turn.told(waits)
}

// Question is what the server is asked while this process hands the lock over without a command. Its
// answer has no effect if the turn has ended, or a hand-over has asked since. Answered or Unanswered
// must follow.
type Question[R, G any, H Holder] struct {
	shard   *shard[R, G, H]
	line    *line[R, G, H]
	asking  *asking
	Reserve int // how many fences to take from the server
}

// AskMeanwhile begins a Question. If it has no answer after patience, and after a turn's time, the next
// hand-over asks. now is a recent reading of the clock.
func (o *Offer[R, G, H]) AskMeanwhile(now clock.Instant, patience time.Duration) Question[R, G, H] {
	s := o.from.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	line := o.from.line()
	line.turn.asking = &asking{now.After(max(patience, s.queue.limit))}
	return Question[R, G, H]{s, line, line.turn.asking, max(o.Reserve-line.turn.spare, 1)}
}

// Answered notes what the server has said: it has reserved n fences, from first on, and another process
// has waited for so long; 0: none waits.
func (q Question[R, G, H]) Answered(first uint64, n int, waits time.Duration) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if turn := &q.line.turn; turn.asking == q.asking {
		turn.add(first, n)
		turn.told(waits)
	}
}

// Unanswered notes that the server has not answered, or that the key is no longer the holder's. The next
// hand-over asks then. After Answered it has no effect.
func (q Question[R, G, H]) Unanswered() {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	if turn := &q.line.turn; turn.asking == q.asking {
		turn.asking, turn.failed = nil, true
	}
}

// Passed notes that the server has given the lock to the next ticket at the end of a turn, because
// no other process waits any more. Another turn begins. The fences that were reserved are smaller
// than that of the next ticket, so they are not used any more.
func (o *Offer[R, G, H]) Passed() {
	s := o.from.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	turn := &o.from.line().turn
	turn.end()
	turn.begin(clock.Now())
}

// Grant hands g to the next ticket, and makes it the front. It reports false if the next
// ticket has left meanwhile: the caller then has g, and is still the front.
func (o *Offer[R, G, H]) Grant(g G) bool {
	signal := o.grant(g)
	if signal == nil {
		return false
	}
	signal.Send() // with no mutex held that the next one needs first
	return true
}

// grant is Grant, and returns what is to be sent; nil: the next ticket has left.
func (o *Offer[R, G, H]) grant(g G) *clock.Signal {
	s := o.from.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.to.state == gone {
		return nil
	}
	p := o.to.place
	o.to.state, p.grant = granted, g
	o.from.leave()
	p.line.front = o.to
	return p.signal
}

// Withdraw ends a hand-over that has failed. It leaves g for the next ticket, which goes on
// waiting in its place. It reports false if the next ticket has left meanwhile: the caller
// must then clean up what g stands for.
func (o *Offer[R, G, H]) Withdraw(g G) bool {
	s := o.from.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if o.to.state == gone {
		return false
	}
	o.to.state, o.to.place.grant = waiting, g
	o.from.line().prepend(o.to)
	return true
}

// Contended notes that the front has found another process holding the key. left is what is
// left of that process's lease.
func (t *Ticket[R, G, H]) Contended(left time.Duration) {
	if t.shard == nil {
		return
	}
	s := t.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.state != front {
		return
	}
	line := t.needLine()
	line.turn.end()
	line.met = true
	line.remote = clock.Now().After(left)
	s.wanted = t.key
}

// Wanted reports whether other processes seem to want the key: when this process asked for it last,
// somebody else had it. It forgets that if a later key of the same shard was found held.
func (t *Ticket[R, G, H]) Wanted() bool {
	if t.shard == nil {
		return false
	}
	s := t.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.wanted == t.key
}

// Followed reports whether others of this process wait behind the front.
func (t *Ticket[R, G, H]) Followed() bool {
	if t.shard == nil {
		return false
	}
	s := t.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	line := t.line()
	return line != nil && line.head != nil
}

// Crowded notes that the server has given the front the lock while other processes wait for it.
func (t *Ticket[R, G, H]) Crowded() {
	if t.shard == nil {
		return
	}
	s := t.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if t.state == front {
		t.needLine().turn.told(1)
	}
}

// LeaveScore leaves the score of a place in the queue of the server to the next front.
func (t *Ticket[R, G, H]) LeaveScore(score int64) {
	if t.shard == nil {
		return
	}
	s := t.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if line := t.line(); line != nil && t.state == front {
		line.score = score
	}
}

// Score returns the score of the place that the last front has left; 0: none.
func (t *Ticket[R, G, H]) Score() int64 {
	if t.shard == nil {
		return 0
	}
	s := t.shard
	s.mu.Lock()
	defer s.mu.Unlock()
	if line := t.line(); line != nil {
		return line.score
	}
	return 0
}
