// Package renew extends many leases before they end, and notices when one is over.
//
// It decides when to extend a lease, which leases to extend together, and how long to wait for the answers.
// It does not know what a lock is. Each Item on its Schedule carries an Entry.
package renew

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/events"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// round is a number of leases. While a round has fewer, coalesce adds leases that are due a little later.
const round = 5 * wire.Batch

// shortestRetry is the shortest pause before an extension without an answer is sent again.
const shortestRetry = 5 * time.Millisecond

// Item has a lease. The Schedule calls Entry while it holds its mutex. So Entry must take no mutex, and
// must always return the same Entry. The Schedule holds no mutex while it calls the other methods.
type Item interface {
	Entry() *Entry
	// Begin begins an extension, and returns what to ask the server for. It reports false if the Item has
	// ended.
	Begin() (sent terms.Extension, ask wire.Extension, ok bool)
	// Settle takes the answer to an extension, and plans the next one by Set or Advance.
	Settle(sent terms.Extension, answer wire.Extended)
	// Expire ends the Item. If the Item was extended meanwhile, Expire adds it again.
	Expire()
}

// Entry is the place of an Item on a Schedule. The zero Entry is on no Schedule.
type Entry struct {
	renew clock.Instant // when to extend the lease; 0: no extension was ever planned
	end   clock.Instant // when the lease is over
	index int           // in the heap, from 1; 0: the Item is not on the Schedule
}

// due returns when the Schedule must do something about the lease.
func (e *Entry) due() clock.Instant { return min(e.renew, e.end) }

// retryAt plans the next attempt for a lease that is being extended: halfway to its end. So there is a next
// attempt even if the answer never comes. If an answer comes, it may change that plan.
func (e *Entry) retryAt(now clock.Instant) {
	e.renew = now.After(max(time.Duration(e.end-now)/2, shortestRetry))
}

// Schedule has one timer and no goroutine of its own. An Item costs one entry of a heap. While the Schedule
// holds its mutex, it calls only Entry, so its caller may hold a mutex of its own.
type Schedule[T Item] struct {
	background context.Context
	server     Server
	settled    func([]T)

	mu     sync.Mutex
	queue  queue[T]
	timer  *time.Timer
	armed  clock.Instant // when timer fires; Never: it does not
	closed bool
}

// New returns a Schedule. Its calls to the server end with background. Begin, Settle and Expire may end
// Items. After the Schedule has called these methods, it calls settled with the same Items. It extends the
// leases of other Items without waiting until settled returns.
func New[T Item](background context.Context, server Server, settled func([]T)) *Schedule[T] {
	return &Schedule[T]{background: background, server: server, settled: settled}
}

// Add puts an Item on the Schedule. The Schedule extends the lease at renew. If the Entry of the Item still
// has an earlier plan, also from before a Remove, the earlier instant counts. The lease is over at end. Add
// reports false if the Schedule is closed.
func (s *Schedule[T]) Add(item T, renew, end clock.Instant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	e := item.Entry()
	if e.renew != 0 {
		renew = min(renew, e.renew)
	}
	if e.renew, e.end = renew, end; e.index == 0 {
		heap.Push(&s.queue, item)
	} else {
		heap.Fix(&s.queue, e.index-1)
	}
	s.arm()
	return true
}

// Set changes the plan for an Item. An Item that has left the Schedule stays off it.
func (s *Schedule[T]) Set(item T, renew, end clock.Instant) { s.set(item, renew, end, false) }

// Advance is Set, but keeps an extension that is planned for earlier than renew.
func (s *Schedule[T]) Advance(item T, renew, end clock.Instant) { s.set(item, renew, end, true) }

func (s *Schedule[T]) set(item T, renew, end clock.Instant, earlier bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := item.Entry()
	if earlier {
		renew = min(renew, e.renew)
	}
	e.renew, e.end = renew, end
	if e.index != 0 {
		heap.Fix(&s.queue, e.index-1)
		s.arm()
	}
}

// Remove takes an Item off the Schedule, if it is there.
func (s *Schedule[T]) Remove(item T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := item.Entry(); e.index != 0 {
		heap.Remove(&s.queue, e.index-1)
	}
}

// Close takes all Items off the Schedule, and returns them. The caller ends them with ExpireAll. After
// Close the Schedule plans nothing.
func (s *Schedule[T]) Close() []T {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	items := s.queue
	s.queue = nil
	if s.timer != nil {
		s.timer.Stop()
	}
	for _, item := range items {
		item.Entry().index = 0
	}
	return items
}

// ExpireAll ends Items. If user code panics for one Item, ExpireAll ends the others too.
func ExpireAll[T Item](items []T) { events.Each(items, T.Expire) }

// arm sets the timer for the first Item. The caller holds mu.
func (s *Schedule[T]) arm() {
	next := clock.Never
	if len(s.queue) > 0 {
		next = s.queue[0].Entry().due()
	}
	if next == clock.Never || s.timer != nil && s.armed <= next {
		return // a timer that fires early finds nothing due, and run sets it anew
	}
	s.armed = next
	if s.timer == nil {
		s.timer = time.AfterFunc(next.Until(), s.run)
	} else {
		s.timer.Reset(next.Until())
	}
}

// run ends the leases that are over, and extends the leases that are due.
func (s *Schedule[T]) run() {
	over, due, last := s.next()
	if len(due) > 0 {
		go s.extend(due, last)
	}
	if len(over) > 0 {
		defer s.settled(over)
		ExpireAll(over)
	}
}

// next takes off the Items whose lease is over, and plans the next attempt for the due ones. last is when
// the last of the due leases ends.
func (s *Schedule[T]) next() (over, due []T, last clock.Instant) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.armed = clock.Never
	for now := clock.Now(); len(s.queue) > 0 && s.queue[0].Entry().due() <= now; {
		item := s.queue[0]
		if e := item.Entry(); e.end <= now {
			over = append(over, item)
			heap.Remove(&s.queue, 0)
		} else {
			due = append(due, item)
			e.retryAt(now)
			heap.Fix(&s.queue, 0)
		}
	}
	due = s.coalesce(due)
	for i, item := range due {
		if end := item.Entry().end; i == 0 || end > last {
			last = end
		}
	}
	s.arm()
	return over, due, last
}

// coalesce adds Items that are due a little later. A script costs about the same for one lease as for many.
//
// To fill the last script, coalesce adds leases that are due within half an interval. To fill further scripts
// in the same round, it adds only leases that are due within a tenth of an interval. It adds them because one
// more round costs the processor more than one more script. Leases that were extended together are due
// together from then on, so
// most scripts are full.
//
// coalesce counts as if all leases could share scripts. Leases of different TTLs, or of different slots on
// a cluster, cannot, so their scripts are smaller. The caller holds mu.
func (s *Schedule[T]) coalesce(due []T) []T {
	if len(due) == 0 {
		return nil
	}
	for now := clock.Now(); len(s.queue) > 0 && (len(due) < round || len(due)%wire.Batch > 0); {
		item := s.queue[0]
		e := item.Entry()
		ahead := (e.end - e.renew) / 2 // there are two intervals between an extension and the end of the lease
		if len(due)%wire.Batch == 0 {
			ahead /= 10
		} else {
			ahead /= 2
		}
		if e.renew > e.end || e.renew-now > ahead {
			break
		}
		due = append(due, item)
		e.retryAt(now)
		heap.Fix(&s.queue, 0)
	}
	return due
}

// queue is a heap of Items. The next due Item is the first.
type queue[T Item] []T

func (q queue[T]) Len() int           { return len(q) }
func (q queue[T]) Less(i, j int) bool { return q[i].Entry().due() < q[j].Entry().due() }

func (q queue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].Entry().index, q[j].Entry().index = i+1, j+1
}

func (q *queue[T]) Push(x any) {
	item := x.(T)
	*q = append(*q, item)
	item.Entry().index = len(*q)
}

func (q *queue[T]) Pop() any {
	last := len(*q) - 1
	item := (*q)[last]
	var none T
	(*q)[last] = none
	*q = (*q)[:last]
	item.Entry().index = 0
	return item
}
