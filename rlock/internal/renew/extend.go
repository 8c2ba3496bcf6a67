package renew

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// Server extends leases, as remote.Server does.
type Server interface {
	ExtendAll(ctx context.Context, list []remote.Extension, answered func(positions []int, answers []remote.Extended))
}

// shortestCall is the shortest time that a call has, even if the lease has nearly ended.
const shortestCall = 50 * time.Millisecond

// extend extends Items, and returns when all have their answers. A call has time until last,
// when the last of their leases ends.
func (s *Schedule[T]) extend(due []T, last clock.Instant) {
	var (
		items, ended []T
		sent         []lease.Extension
		list         []remote.Extension
	)
	for _, item := range due {
		e, ask, ok := item.Begin()
		if !ok {
			ended = append(ended, item)
			continue
		}
		items, sent, list = append(items, item), append(sent, e), append(list, ask)
	}
	if len(ended) > 0 {
		go s.settled(ended) // the others are extended meanwhile
	}
	if len(items) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(s.background, max(last.Until(), shortestCall))
	defer cancel()
	s.server.ExtendAll(ctx, list, func(positions []int, answers []remote.Extended) {
		some := make([]T, len(positions))
		for i, position := range positions {
			some[i] = items[position]
			some[i].Settle(sent[position], answers[i])
		}
		s.settled(some)
	})
}

// RetryPause is how long to wait before an extension by ttl that got an error or no answer is
// made again, because an error does not mean that the lock is lost.
func RetryPause(ttl time.Duration) time.Duration {
	return min(max(ttl/20, 10*time.Millisecond), time.Second)
}
