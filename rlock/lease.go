package rlock

import "time"

// overlap keeps the local deadline on the safe side of the server's while
// extensions are under way. The server may run overlapping ones in any order, so
// until all of them are answered the lease may be as short as the shortest.
type overlap struct {
	pending int
	end     instant // earliest end that one of the overlapping extensions may set
}

// beginExtension notes an extension by ttl that is sent now. A shorter lease
// counts at once, because the server may have it before the answer is here; a
// longer one counts when it is confirmed. It returns the deadline before.
func (l *Lock) beginExtension(ttl time.Duration) (before instant) {
	end := leaseEnd(now(), ttl)
	if l.lease.pending == 0 {
		l.lease.end = end
	}
	l.lease.pending++
	l.lease.end = min(l.lease.end, end)
	before = instant(l.deadline.Load())
	l.deadline.Store(int64(min(before, end)))
	return before
}

// endExtension notes the answer of an extension.
func (l *Lock) endExtension(before instant, answer answer) {
	l.lease.pending--
	switch {
	case answer == confirmed:
		l.deadline.Store(int64(l.lease.end))
	case answer == refused && l.lease.pending == 0 && instant(l.deadline.Load()) < before:
		l.deadline.Store(int64(before)) // the server has not touched the lease
	}
}

// answer is what is known of a command's outcome.
type answer int

const (
	confirmed answer = iota // the server ran it
	refused                 // the server did not run it
	unknown                 // the reply was lost: it may have run, or may still run
)
