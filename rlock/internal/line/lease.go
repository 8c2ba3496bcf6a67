package line

import (
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Handle tells the line of a lease what happens to it. Its user has the lease or asks for it. The methods
// do nothing for a lease that is in no line. Their caller may hold a mutex of its own, but not a shard's.
type Handle struct{ Lease Leased }

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

// lock locks the shard of the lease, and the caller unlocks it. If the lease is in no line, s is nil.
func (h Handle) lock() (at *Lease, s *shard) {
	at = h.Lease.Part()
	if s = at.shard; s != nil {
		s.mu.Lock()
	}
	return at, s
}

// Granted notes that the caller who asked for the lease holds it. With sealed, no other caller may use it.
// open reports that other readers may use the lease. watch reports that a waiter relies on the holder to
// notice the end of the lease.
func (h Handle) Granted(sealed bool, now clock.Instant) (open, watch bool) {
	o := h.step(&Event{What: Granted, Sealed: sealed, Now: now})
	return o.Open, o.Watch
}

// Failed notes that the caller does not ask for the lease any more.
func (h Handle) Failed() { h.step(&Event{What: Failed}) }

// Done notes that a user of the lease is done with it. e says how. back reports that the lease has no user:
// the caller must give it back, and then call Ended. The caller sends next once it holds no mutex.
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

// HandedOver notes that the server has given the key of from to this lease. The command was sent at now. It
// has reserved n fences: fence is for this lease, and the next ones are for the callers that go on with it.
// With n = 0 the caller wants no fence. waits says for how long another process has waited.
func (h Handle) HandedOver(from Handle, fence uint64, n int, waits time.Duration, now clock.Instant) {
	h.step(&Event{What: HandedOver, From: from.Lease, Fence: fence, Fences: n, Waits: waits, Now: now})
}

// PassedOn notes that the caller has given up from, and asks the server for this lease. Another caller of
// this process had given from to it.
func (h Handle) PassedOn(from Handle, now clock.Instant) {
	h.step(&Event{What: PassedOn, From: from.Lease, Now: now})
}

// Ended notes that the lease is over, or that a caller has given it back.
func (h Handle) Ended() { h.step(&Event{What: Ended}) }

// Seal stops other callers from using the lease.
func (h Handle) Seal() { h.step(&Event{What: Sealed}) }

// SealIfAlone seals the lease if it has one user, and reports whether it has.
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

// Told notes that the server makes the caller wait. left is the rest of the lease in the way.
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

// Crowded notes that the server gives the lock to the caller while other processes wait for it.
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

// Wanted reports whether others seem to want what the caller asks for. For readers and permits it is always
// true. For a whole lock it is true if another process had the key when this process last asked for the
// key. Each shard remembers only the last key that another process had, and forgets it once this process
// gets that key at once.
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

// LeaveScore leaves the score of a place in the queue to the next caller who asks the server.
func (h Handle) LeaveScore(score int64) { h.step(&Event{What: LeftPlace, Score: score}) }

// Score takes the score that a caller has left with LeaveScore. 0 means none.
func (h Handle) Score() int64 { return h.step(&Event{What: TakesPlace}).Score }

// Silence says since when the server has not answered the caller who asks for the lease. The next caller
// who asks goes on with this silence. A caller who leaves the line inherits it too.
func (h Handle) Silence() *clock.Silence { return &h.Lease.Part().silence }

// Question returns the question with the number of a Grant.
func (h Handle) Question(number uint32) Question {
	at := h.Lease.Part()
	return Question{at.shard, at.line, number}
}

// Question asks the server whether another process waits, while a lease goes on without a command.
type Question struct {
	shard  *shard
	line   *Line
	number uint32
}

// Heard notes the answer to a question that was sent at now. waits says for how long another process has
// waited. 0 means that none waits. The answer has n fences, from first on, for the callers that go on with
// the lease.
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
