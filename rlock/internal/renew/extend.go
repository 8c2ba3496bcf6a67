package renew

import (
	"context"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/events"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

type Server interface {
	Extend(
		ctx context.Context, list []wire.Extension, answered func(positions []int, answers []wire.Extended),
	)
}

// shortestCall is the least time for a call, even if the lease has nearly ended.
const shortestCall = 50 * time.Millisecond

// begun is an Item with an extension that has begun. The Schedule calls its Settle, whatever becomes of the
// call.
type begun[T Item] struct {
	item    T
	sent    terms.Extension
	answer  wire.Extended // says that the call was interrupted, until there is an answer
	settled bool
}

// extend extends Items, and returns when all have their answers. A call has time until last, when the last
// of their leases ends. If user code ends a goroutine of the call, each Item without an answer gets the
// answer that the call was interrupted.
func (s *Schedule[T]) extend(due []T, last clock.Instant) {
	var (
		all  []*begun[T]
		list []wire.Extension
	)
	defer func() {
		if open := slices.DeleteFunc(all, func(b *begun[T]) bool { return b.settled }); len(open) > 0 {
			s.settle(open)
		}
	}()
	s.begin(due, func(item T, e terms.Extension, ask wire.Extension) {
		all = append(all, &begun[T]{item: item, sent: e, answer: wire.Extended{Err: wire.ErrInterrupted}})
		list = append(list, ask)
	})
	if len(list) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.background, max(last.Until(), shortestCall))
	defer cancel()
	s.server.Extend(ctx, list, func(positions []int, answers []wire.Extended) {
		some := make([]*begun[T], len(positions))
		for i, position := range positions {
			some[i] = all[position]
			some[i].answer = answers[i]
		}
		s.settle(some)
	})
}

// begin begins the extensions. It tells of the Items that have ended.
func (s *Schedule[T]) begin(due []T, note func(item T, e terms.Extension, ask wire.Extension)) {
	var ended []T
	defer func() {
		if len(ended) > 0 {
			go s.settled(ended) // the other Items are extended meanwhile
		}
	}()
	for _, item := range due {
		ended = append(ended, item) // also if Begin ends the goroutine
		if e, ask, ok := item.Begin(); ok {
			ended = ended[:len(ended)-1]
			note(item, e, ask)
		}
	}
}

// settle lets Items take their answers. User code that one Item runs does not stop another from taking its
// answer.
func (s *Schedule[T]) settle(some []*begun[T]) {
	items := make([]T, len(some))
	for i, b := range some {
		items[i], b.settled = b.item, true
	}
	defer s.settled(items)
	events.Each(some, func(b *begun[T]) { b.item.Settle(b.sent, b.answer) })
}

// RetryPause returns the pause before an extension by ttl is made again after an error or no answer. An
// error does not mean that the lock is lost.
func RetryPause(ttl time.Duration) time.Duration {
	return min(max(ttl/20, 10*time.Millisecond), time.Second)
}
