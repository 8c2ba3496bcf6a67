package rlock

import (
	"container/heap"
	"sync"
	"time"
)

// keeper looks after the locks that need something to happen at a time: those
// that are extended, and those whose Context must end with the lease. It has one
// timer and no goroutine of its own; a lock costs it one entry of a heap.
type keeper struct {
	extend func([]*Lock) // starts extending; reschedules each lock when it is done

	mu     sync.Mutex
	queue  dueQueue
	timer  *time.Timer
	armed  instant // when timer fires; never: it does not
	closed bool
}

// renewals is how many times a lease is extended before it ends. Two attempts
// may fail without a loss.
const renewals = 3

// watch starts looking after a lock. It reports false when the keeper is closed.
func (k *keeper) watch(l *Lock) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	if l.index == 0 {
		l.renew = l.nextExtension() // the caller holds the lock's mu
		l.due = min(l.renew, instant(l.deadline.Load()))
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

// reschedule follows a change of a lock's lease.
func (k *keeper) reschedule(l *Lock) {
	l.mu.Lock()
	defer l.mu.Unlock()
	k.set(l, l.nextExtension())
}

// retry extends a lock again after a pause.
func (k *keeper) retry(l *Lock, pause time.Duration) { k.set(l, now().after(pause)) }

// set queues a lock that has not ended at what comes first: its extension or its
// deadline.
func (k *keeper) set(l *Lock, renew instant) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.index == 0 {
		return
	}
	l.renew = renew
	l.due = min(renew, instant(l.deadline.Load()))
	heap.Fix(&k.queue, l.index-1)
	k.arm()
}

// arm sets the timer for the first lock of the queue. The caller holds mu.
func (k *keeper) arm() {
	next := never
	if len(k.queue) > 0 {
		next = k.queue[0].due
	}
	if next == never || k.timer != nil && k.armed <= next {
		return // a timer that fires early finds nothing due and is set anew
	}
	k.armed = next
	if k.timer == nil {
		k.timer = time.AfterFunc(next.until(), k.run)
	} else {
		k.timer.Reset(next.until())
	}
}

// run ends the locks whose lease is over and extends those that are due.
func (k *keeper) run() {
	k.mu.Lock()
	k.armed = never
	var over, due []*Lock
	for at := now(); len(k.queue) > 0 && k.queue[0].due <= at; {
		l := k.queue[0]
		if instant(l.deadline.Load()) <= at {
			over = append(over, l)
			heap.Remove(&k.queue, 0)
			continue
		}
		l.renew, l.due = never, instant(l.deadline.Load())
		if l.extends {
			due = append(due, l)
		}
		heap.Fix(&k.queue, 0)
	}
	k.arm()
	k.mu.Unlock()

	for _, l := range over {
		l.mu.Lock()
		l.finish(expired)
		l.mu.Unlock()
	}
	if len(due) > 0 {
		k.extend(due)
	}
}

// close ends every lock.
func (k *keeper) close() {
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
		l.finish(closed)
		l.mu.Unlock()
	}
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
