package line

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Step changes the line as an event demands.
func (l *Line) Step(e *Event) (o Outcome) {
	s := step{l, e, &o}
	switch g := e.Lease; e.What {
	case Enter:
		s.enter(g)
		return o
	case Wait:
		s.append(e.Caller)
		if s.holder() != nil {
			s.turn.begin(e.Now) // a lease that was alone has no turn yet
		}
		return o
	case Attends:
		s.attends(e.Caller)
	case Leave:
		s.leave(e.Caller)
		o.Role = e.Caller.role
	case Granted:
		s.granted(g)
		o.Open, o.Watch = g.Part().open, s.needsWatch(g)
	case Told:
		s.told(g)
	case Crowded:
		s.turn.learn(e.Now, 1)
	case Failed:
		s.failed(g)
	case Done:
		o.Back = s.done(g)
	case HandedOver, PassedOn:
		s.moved(g)
	case Ended:
		s.ended(g)
	case Sealed:
		s.seal(g)
	case Watched:
		o.Lease = s.watched(e.Caller)
	case Heard:
		s.heard()
	case LeftPlace:
		if g.Part().state == asked && e.Score != 0 {
			s.score = e.Score
		}
	case TakesPlace:
		if g.Part().state == asked {
			o.Score, s.score = s.score, 0
		}
	}
	s.stand()
	return o
}

type step struct {
	*Line
	e   *Event
	out *Outcome
}

// wake gives a caller a new Role. If a step wakes several callers, wake sends the signals of all but the last
// one at once. The caller of Step sends the signal of the last one after the step (Outcome.Signal).
func (s *step) wake(c *Caller, r Role) {
	c.role = r
	s.out.Signal.Send()
	s.out.Signal = c.signal
}

func (s *step) enter(own Leased) {
	s.places = s.e.Places
	if g := s.lease; g != nil && s.Mode == Whole && g.Part().state == live && g.Deadline() <= s.e.Now {
		s.ended(g) // no caller has noticed it yet
		s.stand()
	}
	switch {
	case s.isOpen():
		s.out.Role, s.out.Grant = Given, s.give(s.lease)
	case s.head == nil && s.room(s.places):
		s.out.Role = Asks
		s.asks(own)
	default:
		s.out.Role = Waits
	}
}

// room reports whether one more caller of this process should ask the server. n is the number of callers that
// should stand in the server's queue.
func (l *Line) room(n int) bool {
	switch {
	case l.Mode != Permits:
		return l.lease == nil
	case l.standing == 0:
		return l.asking < l.most()
	}
	return l.standing < n
}

// isOpen reports whether one more reader may use the lease. If the reader may not use an open lease, isOpen
// seals the lease, so that no later reader may use it.
func (s *step) isOpen() bool {
	if s.lease == nil || !s.lease.Part().open {
		return false
	}
	if !s.joins(s.lease.Part()) {
		s.seal(s.lease)
		return false
	}
	return true
}

// attends notes whether a caller notices a new role at once. Only a reader that notices it at once may join
// the lease of other readers. A reader that runs user code notices it later, and would keep the lease until
// then.
func (s *step) attends(c *Caller) {
	if c.role != Waits {
		return
	}
	if c.awaits = s.e.Awaits || !c.want.Slow; c.awaits && s.isOpen() {
		s.remove(c)
		c.grant = s.give(s.lease)
		s.wake(c, Given)
	}
}

// joins reports whether a new reader may use the lease of others: the turn of the lease is not over, and
// nearly the whole TTL is left.
func (s *step) joins(at *Lease) bool {
	return s.e.Now < at.until && lasts(s.lease.Deadline(), s.e.Now, s.TTL, false)
}

// If no caller extends a lease, another caller may take it over, and does not ask the server. longestUnasked
// is the greatest age of the server's last answer about this lease. If the lease was lost after that answer,
// the caller gets a lost lock.
const longestUnasked = 100 * time.Millisecond

// lasts reports whether enough of a lease is left for another caller. A caller that extends the lease
// anyway needs half of the TTL. Another caller needs nearly all of it.
func lasts(deadline, now clock.Instant, ttl time.Duration, extends bool) bool {
	missing := ttl / 2
	if !extends {
		missing = min(ttl/100, longestUnasked)
	}
	return deadline.After(missing) >= clock.LeaseEnd(now, ttl)
}

func (s *step) asks(g Leased) {
	at := g.Part()
	at.state, at.madeToWait, s.asker = asked, false, g
	s.asking++
	s.leases++
	if s.Mode != Permits {
		s.lease = g
	}
}

// asksNoMore notes that a caller stops asking for a lease. It reports whether a caller asked.
func (s *step) asksNoMore(at *Lease) bool {
	if at.state != asked {
		return false
	}
	s.asking--
	if at.stands {
		at.stands = false
		s.standing--
	}
	return true
}

// granted begins the use of a lease for which a caller asked.
func (s *step) granted(g Leased) {
	at := g.Part()
	if !s.asksNoMore(at) {
		return
	}
	at.state, at.users, at.until = live, 1, s.e.Now.After(s.turns)
	switch s.Mode {
	case Whole:
		s.score = 0
		s.turn.begin(s.e.Now)
	case Readers:
		s.score = 0
		at.open = !s.e.Sealed
		if !at.open {
			s.lease = nil
		}
		for c := s.head; at.open && c != nil; {
			next := c.next
			if c.awaits {
				s.remove(c)
				c.grant = s.give(g)
				s.wake(c, Given)
			}
			c = next
		}
	case Permits:
		if !at.madeToWait { // more permits may be free
			s.call(min(s.standing+2, s.most()))
		}
	}
}

func (s *step) told(g Leased) {
	at := g.Part()
	if at.state != asked {
		return
	}
	at.madeToWait = true
	switch s.Mode {
	case Whole:
		s.met, s.other = true, s.e.Now.After(s.e.Left)
	case Permits:
		if !at.stands {
			at.stands = true
			s.standing++
		}
	}
}

// failed takes a lease out of the line. A caller has asked the server for this lease, and did not get it.
func (s *step) failed(g Leased) {
	if s.asksNoMore(g.Part()) {
		s.forget(g)
	}
}

func (s *step) forget(g Leased) {
	at := g.Part()
	at.state, at.open = out, false
	s.leases--
	if s.lease == g {
		s.lease, s.turn = nil, turn{}
	}
}

// ended takes out of the line a lease that is over or given back.
func (s *step) ended(g Leased) {
	if state := g.Part().state; state == live || state == back {
		s.forget(g)
	}
}

func (s *step) seal(g Leased) {
	if at := g.Part(); at.open {
		at.open = false
		if s.lease == g {
			s.lease = nil
		}
	}
}

// done ends one use of a lease. It reports whether the caller must give the lease back.
func (s *step) done(g Leased) (gives bool) {
	at := g.Part()
	if at.users--; at.users > 0 {
		return false
	}
	if at.state == moving {
		at.state = live
	}
	if at.state != live { // the lease has ended, and its last user gives back what the server may have of it
		return true
	}
	if s.serve(g) {
		return false
	}
	s.seal(g)
	at.state = back
	return true
}

// serve gives a lease without a user to the first waiting caller. It reports false if that caller cannot
// have the lease, or if that caller runs user code. User code may take long, and would keep the key from
// other processes.
func (s *step) serve(g Leased) bool {
	c, at, do := s.head, g.Part(), GoOn
	if c == nil || s.e.Plain || s.Mode == Readers || !c.awaits {
		return false
	}
	fits, ask, itself := s.fits(g, c), false, false
	if s.Mode == Whole && !s.e.Blind {
		ask, itself = s.turn.mustAsk(s.e.Now, s.turns)
	}
	switch {
	case s.Mode == Permits:
		if !fits || s.e.Now >= at.until {
			return false
		}
	case s.turn.over(s.e.Now, s.turns, s.e.Blind):
		do, at.state = PassOn, moving
	case !fits || itself || c.want.Fenced && s.turn.spare == 0:
		do, at.state = HandOver, moving
	}
	s.remove(c)
	c.grant = s.give(g)
	c.grant.Do, c.grant.Met, c.grant.Reserve, c.grant.Watch = do, s.met, 1, s.needsWatch(g)
	if do == GoOn && ask {
		s.number++
		c.grant.Ask, s.turn.late = s.number, s.e.Now.After(max(s.turns, min(2*s.e.RoundTrip, longestUnasked)))
	}
	if s.Mode == Whole && c.want.Fenced {
		if do == GoOn {
			c.grant.Fence = s.turn.next()
		}
		if !c.want.Own {
			c.grant.Reserve = max(fences-s.turn.spare, 1)
		}
	}
	s.wake(c, Given)
	return true
}

// fits reports whether a caller can go on with a lease without a command.
func (s *step) fits(g Leased, c *Caller) bool {
	as, want := &s.e.Want, &c.want
	return !s.e.Sealed && !as.Own && !want.Own && !want.Full &&
		as.Owner == want.Owner && as.TTL == want.TTL &&
		want.TTL != clock.NoExpiry && // without a deadline, nothing tells how old the server's last answer is
		lasts(g.Deadline(), s.e.Now, want.TTL, want.Extends)
}

func (s *step) give(g Leased) Grant {
	g.Part().users++
	return Grant{Lease: g}
}

// needsWatch reports whether a waiter relies on the holder to notice the end of the lease. A waiter that
// watches relies on it. If the lease ends sooner than a waiter would begin to watch, every waiter relies on
// it.
func (s *step) needsWatch(g Leased) bool {
	return s.Mode == Whole && (s.watching > 0 || s.head != nil && g.Deadline() < s.e.Now.After(WatchAfter))
}

// WatchAfter is how long a caller waits before it watches the lease in its way. Watching costs more than a
// hand-over, so a caller with a shorter wait does not watch.
const WatchAfter = 20 * time.Millisecond

// moved puts a lease in the place of another, whose key the server has given away.
func (s *step) moved(g Leased) {
	from, at := s.e.From.Part(), g.Part()
	turn := s.turn
	s.forget(s.e.From)
	from.users = 0
	if s.e.What == PassedOn {
		s.asks(g)
		return
	}
	at.state, at.users, s.lease = live, 1, g
	s.leases++
	s.turn = turn
	s.turn.spare = 0 // the reserved fences are smaller than the fence of this lease
	if s.e.Fences > 0 {
		s.turn.reserve(s.e.Fence+1, s.e.Fences-1)
	}
	s.turn.learn(s.e.Now, s.e.Waits)
}

// watched notes that a caller watches. It returns the lease in the way.
func (s *step) watched(c *Caller) Leased {
	if c.role != Waits || c.watches {
		return nil
	}
	c.watches = true
	s.watching++
	return s.holder()
}

// holder returns the lease that a caller of this process has. nil means none.
func (l *Line) holder() Leased {
	if l.lease != nil {
		if state := l.lease.Part().state; state == live || state == moving {
			return l.lease
		}
	}
	return nil
}

// heard takes the answer to a question. It ignores the answer if a hand-over has asked since, or if the
// turn has ended.
func (s *step) heard() {
	switch {
	case s.turn.late == 0 || s.number != s.e.Number:
	case s.e.Unheard:
		s.turn.late, s.turn.failed = 0, true
	default:
		s.turn.reserve(s.e.Fence, s.e.Fences)
		s.turn.learn(s.e.Now, s.e.Waits)
	}
}

// stand makes waiting callers ask the server, until the wanted number (places) stand in its queue.
func (s *step) stand() { s.call(s.places) }

// call makes waiting callers ask the server until n stand in its queue.
func (s *step) call(n int) {
	for s.head != nil && s.room(n) {
		c := s.head
		s.remove(c)
		if s.asker != nil {
			c.own.Part().silence.Inherit(&s.asker.Part().silence)
		}
		s.asks(c.own)
		if s.Mode == Permits {
			c.own.Part().stands = true
			s.standing++
		}
		s.wake(c, Asks)
	}
}

// leave ends the wait of a caller. If the line has told a caller to ask the server, and the caller leaves
// before it asks, its request counts as failed. A caller that was given
// a lease keeps it.
func (s *step) leave(c *Caller) {
	if s.asker != nil {
		c.own.Part().silence.Inherit(&s.asker.Part().silence)
	}
	switch c.role {
	case Waits:
		s.remove(c)
		c.role = Gone
	case Asks:
		s.failed(c.own)
		c.role = Gone
	}
}

// idle reports whether the shard may forget the line.
func (l *Line) idle() bool { return l.head == nil && l.leases == 0 }

func (l *Line) append(c *Caller) {
	c.prev = l.tail
	if l.tail == nil {
		l.head = c
	} else {
		l.tail.next = c
	}
	l.tail = c
}

func (l *Line) remove(c *Caller) {
	if c.watches {
		l.watching--
	}
	if c.prev == nil {
		l.head = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		l.tail = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.next, c.prev = nil, nil
}
