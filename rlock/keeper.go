package rlock

import (
	"container/heap"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
)

// keeper looks after the locks that need something to happen at a time: those
// that are extended, and those whose Context must end with the lease. It has one
// timer and no goroutine of its own; a lock costs it one entry of a heap.
//
// Its mutex is taken while a Lock's is held, never the other way round.
type keeper struct {
	extend func([]*Lock) // starts extending; reschedules each lock when it is done

	mu     sync.Mutex
	queue  dueQueue
	timer  *time.Timer
	armed  clock.Instant // when timer fires; never: it does not
	closed bool
}

// watch starts looking after a lock. It reports false when the keeper is closed.
// The caller holds the lock's mu.
func (k *keeper) watch(l *Lock) bool {
	renew := l.nextExtension(clock.Now())
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	if l.index == 0 {
		l.renew = renew
		l.due = min(l.renew, l.lease.Deadline())
		heap.Push(&k.queue, l)
		k.arm()
	}
	return true
}

// forget stops looking after a lock.
func (k *keeper) forget(l *Lock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index != 0 {
		heap.Remove(&k.queue, l.index-1)
	}
}

// reschedule follows a confirmed extension. The caller holds the lock's mu.
func (k *keeper) reschedule(l *Lock, e lease.Extension) { k.set(l, l.nextExtension(e.Sent), false) }

// follow follows a deadline that came nearer. The caller holds the lock's mu.
func (k *keeper) follow(l *Lock, renew clock.Instant) {
	if !l.extends {
		renew = clock.Never
	}
	k.set(l, renew, true)
}

// hurry extends a lock at renew, or earlier if that is planned.
func (k *keeper) hurry(l *Lock, renew clock.Instant) { k.set(l, renew, true) }

// set queues a lock that has not ended at what comes first: its extension or its
// deadline. With sooner, an extension that is planned for earlier stays.
func (k *keeper) set(l *Lock, renew clock.Instant, sooner bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.lifetime == nil || l.index == 0 {
		return
	}
	if sooner {
		renew = min(renew, l.renew)
	}
	l.renew = renew
	l.due = min(renew, l.lease.Deadline())
	heap.Fix(&k.queue, l.index-1)
	k.arm()
}

// arm sets the timer for the first lock of the queue. The caller holds mu.
func (k *keeper) arm() {
	next := clock.Never
	if len(k.queue) > 0 {
		next = k.queue[0].due
	}
	if next == clock.Never || k.timer != nil && k.armed <= next {
		return // a timer that fires early finds nothing due and is set anew
	}
	k.armed = next
	if k.timer == nil {
		k.timer = time.AfterFunc(next.Until(), k.run)
	} else {
		k.timer.Reset(next.Until())
	}
}

// run ends the locks whose lease is over and extends those that are due.
func (k *keeper) run() {
	k.mu.Lock()
	k.armed = clock.Never
	var over, due []*Lock
	for at := clock.Now(); len(k.queue) > 0 && k.queue[0].due <= at; {
		l := k.queue[0]
		end := l.lease.Deadline()
		if end <= at {
			over = append(over, l)
			heap.Remove(&k.queue, 0)
			continue
		}
		if l.renew <= at {
			due = append(due, l)
			l.postpone(at, end)
		}
		l.due = min(l.renew, end)
		heap.Fix(&k.queue, 0)
	}
	due = k.fill(due)
	k.arm()
	k.mu.Unlock()

	for _, l := range over {
		l.mu.Lock()
		l.expire()
		if l.cause() == nil { // it was extended in between
			l.watch()
		}
		l.mu.Unlock()
	}
	if len(due) > 0 {
		k.extend(due)
	}
	deliverAll(over)
}

// postpone sets the next attempt for a lock that is being extended. Unless an
// answer changes it, that is halfway to the end: it does not wait for one that
// hangs.
func (l *Lock) postpone(at, end clock.Instant) {
	l.renew = at.After(max(time.Duration(end-at)/2, 5*time.Millisecond))
}

// fill adds locks to those that are due until they fill their last script, as a
// script costs the same for one lock and for many. It goes up to half an interval
// ahead for that, and a tenth for more scripts in the same round, since waking up
// for each costs the processor more than the scripts do. Locks that were extended
// together are due together from then on, so that few scripts are ever sent that are
// not full. The caller holds mu.
func (k *keeper) fill(due []*Lock) []*Lock {
	if len(due) == 0 {
		return nil
	}
	for at := clock.Now(); len(k.queue) > 0 && (len(due) < renewRound || len(due)%renewBatch > 0); {
		l := k.queue[0]
		end := l.lease.Deadline()
		ahead := (end - l.renew) / 2 // From an extension to the end of the lease are two intervals.
		if len(due)%renewBatch == 0 {
			ahead /= 10
		} else {
			ahead /= 2
		}
		if l.renew > end || l.renew-at > ahead {
			break
		}
		due = append(due, l)
		l.postpone(at, end)
		l.due = min(l.renew, end)
		heap.Fix(&k.queue, 0)
	}
	return due
}

// close ends every lock and returns them.
func (k *keeper) close() []*Lock {
	k.mu.Lock()
	k.closed = true
	held := k.queue
	k.queue = nil
	if k.timer != nil {
		k.timer.Stop()
	}
	for _, l := range held {
		l.index = 0
	}
	k.mu.Unlock()
	for _, l := range held {
		l.mu.Lock()
		l.finish(stateClosed)
		l.mu.Unlock()
	}
	return held
}

// dueQueue is a heap of locks, the next one due first.
type dueQueue []*Lock

func (q dueQueue) Len() int           { return len(q) }
func (q dueQueue) Less(i, j int) bool { return q[i].due < q[j].due }

func (q dueQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i+1, j+1
}

func (q *dueQueue) Push(x any) {
	l := x.(*Lock)
	*q = append(*q, l)
	l.index = len(*q)
}

func (q *dueQueue) Pop() any {
	last := len(*q) - 1
	l := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	l.index = 0
	return l
}
