package line

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Handle is a lease as those who have it, or ask for it, tell its line what happens to it. The methods do
// nothing for a lease that is in no line. Their callers may hold a mutex of their own, but none of a shard.
type Handle struct{ Lease Leased }

// step takes a step of the line that the lease is in.
func (h Handle) step(e *Event) (o Outcome) {
	at, s := h.lock()
	if s == nil {
		return Outcome{}
	}
	e.Lease = h.Lease
	o = s.step(at, e)
	s.mu.Unlock()
	o.Signal.Send()
	return o
}

// lock locks the shard of the lease, which the caller unlocks, unless the lease is in no line.
func (h Handle) lock() (at *Lease, s *shard) {
	at = h.Lease.Part()
	if s = at.shard; s != nil {
		s.mu.Lock()
	}
	return at, s
}

// Granted notes that the lease is held by who has asked for it. With sealed, nobody else has a part in it.
// open reports that other readers may have it too; watch, that a waiter depends on its end being noticed.
func (h Handle) Granted(sealed bool, now clock.Instant) (open, watch bool) {
	o := h.step(&Event{What: Granted, Sealed: sealed, Now: now})
	return o.Open, o.Watch
}

// Failed notes that nobody asks for the lease any more.
func (h Handle) Failed() { h.step(&Event{What: Failed}) }

// Done notes what e says: a user of the lease is done with it. back reports that nobody has it any more: the
// caller must give it back, and call Ended then. next is to be sent once the caller holds no mutex.
func (h Handle) Done(e Event) (back bool, next *clock.Signal) {
	at, s := h.lock()
	if s == nil {
		return true, nil
	}
	defer s.mu.Unlock()
	e.What, e.Lease = Done, h.Lease
	o := s.step(at, &e)
	return o.Back, o.Signal
}

// HandedOver notes that the server has given the key of from to this lease, by a command that was sent at
// now. waits is for how long another process has waited. It has given n fences: fence to this lease, and
// those that follow to whoever goes on with it; 0: the caller wants none.
func (h Handle) HandedOver(from Handle, fence uint64, n int, waits time.Duration, now clock.Instant) {
	h.step(&Event{What: HandedOver, From: from.Lease, Fence: fence, Fences: n, Waits: waits, Now: now})
}

// PassedOn notes that its caller has given up from, which another caller of this process has given to it,
// and asks the server for this lease.
func (h Handle) PassedOn(from Handle, now clock.Instant) {
	h.step(&Event{What: PassedOn, From: from.Lease, Now: now})
}

// Ended notes that the lease is over, or was given back.
func (h Handle) Ended() { h.step(&Event{What: Ended}) }

// Seal lets nobody else have the lease.
func (h Handle) Seal() { h.step(&Event{What: Sealed}) }

// SealIfAlone lets nobody else have the lease if it has one user, and reports whether that is so.
func (h Handle) SealIfAlone() bool {
	at, s := h.lock()
	if s == nil {
		return true
	}
	defer s.mu.Unlock()
	if at.users > 1 {
		return false
	}
	s.step(at, &Event{What: Sealed, Lease: h.Lease}).Signal.Send()
	return true
}

// Told notes that the server makes the caller wait. left is what is left of the lease in the way.
func (h Handle) Told(left time.Duration, now clock.Instant) {
	at, s := h.lock()
	if s == nil {
		return
	}
	defer s.mu.Unlock()
	if at.state != asked {
		return
	}
	l := s.needLine(h.Lease)
	if l.Mode == Whole {
		s.lastContended = h.Lease.Key()
	}
	l.take(&Event{What: Told, Lease: h.Lease, Left: left, Now: now})
}

// Crowded notes that the server has given the caller the lock while other processes wait for it.
func (h Handle) Crowded(now clock.Instant) {
	at, s := h.lock()
	if s == nil {
		return
	}
	defer s.mu.Unlock()
	if at.state == asked {
		s.needLine(h.Lease).take(&Event{What: Crowded, Lease: h.Lease, Now: now})
	}
}

// Wanted reports whether others seem to want what the caller asks for. Of a whole lock that is so if
// somebody else had the key when this process last asked for it, which it forgets once a later key of the
// shard was found held.
func (h Handle) Wanted() bool {
	at, s := h.lock()
	if s == nil {
		return false
	}
	defer s.mu.Unlock()
	return at.line != nil && at.line.Mode != Whole || s.lastContended == h.Lease.Key()
}

// Followed reports whether others of this process wait behind the caller.
func (h Handle) Followed() bool {
	at, s := h.lock()
	if s == nil {
		return false
	}
	defer s.mu.Unlock()
	return at.line != nil && at.line.head != nil
}

// LeaveScore leaves the score of a place in the queue of the server to the next who asks.
func (h Handle) LeaveScore(score int64) { h.step(&Event{What: LeftPlace, Score: score}) }

// Score takes the score of the place that a caller has left; 0: none.
func (h Handle) Score() int64 { return h.step(&Event{What: TakesPlace}).Score }

// Silence is since when the server has not answered the caller who asks for the lease. The next who asks
// goes on with it, and one that leaves from behind knows of it then.
func (h Handle) Silence() *clock.Silence { return &h.Lease.Part().silence }

// Question returns the one with the number of a Grant.
func (h Handle) Question(number uint32) Question {
	at := h.Lease.Part()
	return Question{at.shard, at.line, number}
}

// Question is what the server is asked while a lease goes on without a command: whether another process
// waits.
type Question struct {
	shard  *shard
	line   *Line
	number uint32
}

// Heard notes what the server has said to a question that was sent at now: for how long another process has
// waited, 0: none waits; and n fences, from first on, that are for those who go on.
func (q Question) Heard(first uint64, n int, waits time.Duration, now clock.Instant) {
	q.step(&Event{What: Heard, Number: q.number, Fence: first, Fences: n, Waits: waits, Now: now})
}

// Unheard notes that the server has not answered, or that the key has another token. After Heard it does
// nothing.
func (q Question) Unheard() { q.step(&Event{What: Heard, Number: q.number, Unheard: true}) }

func (q Question) step(e *Event) {
	q.shard.mu.Lock()
	defer q.shard.mu.Unlock()
	q.line.take(e)
}
