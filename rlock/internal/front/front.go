// Package front waits until an acquisition is the front of the queue of this process for its key, or
// its holder has handed it the lock. Meanwhile it sees to it that somebody notices the end of the
// lock that is in the way: those who wait rely on that, and send nothing.
//
// It does not know how long the caller wants to wait, what is handed over, or what a lock is.
package front

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/queue"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// Holder is a lock of this process. A nil one is none: its last three methods do nothing then.
type Holder interface {
	comparable
	Deadline() clock.Instant
	Over(now clock.Instant) bool
	// Renewed reports whether the lease is extended automatically, which notices the loss of the lock.
	Renewed() bool
	// Look asks the server who has the key, and ends the lock if it has lost the key.
	Look(ctx context.Context) (remote.Holder, error)
	// Watch has the end of the lease noticed, and the loss of the lock if the server tells.
	Watch()
}

// Hears says whether the server tells that the key of a lock is gone.
type Hears interface{ Heard() bool }

// Waiting is an acquisition that waits behind others.
type Waiting[R, G any, H Holder] struct {
	Ticket *queue.Ticket[R, G, H]
	Stop   <-chan struct{}
	Hears  Hears // nil: it does not
}

// lookPause is how often a waiter asks the server about the holder before it, where the server
// does not tell that the key is gone. It asks whatever its policy is, because those who wait
// behind it rely on it.
const lookPause = time.Second

// Await waits until the ticket is ready, or until end, and returns what Ticket.Await does. left is
// what is left of the lease of the lock in the way, as far as is known. If Await waits for long, it
// has the holder watched. now is a recent reading of the clock.
func (w Waiting[R, G, H]) Await(ctx context.Context, now, end clock.Instant, left time.Duration) (g G, ready queue.Readiness, err error) {
	look := now.After(lookPause)
	watch := now.After(queue.WatchAfter)
	if left > 0 {
		watch = min(watch, now.After(left))
	}
	for {
		looks := w.Hears == nil || !w.Hears.Heard()
		until := min(end, watch)
		if looks {
			until = min(until, look)
		}
		g, ready, err := w.Ticket.Await(ctx, now, until, w.Stop)
		if err != nil || ready != queue.Behind {
			return g, ready, err
		}
		now = clock.Now()
		if now >= watch {
			watch = clock.Never
			w.Ticket.Watch().Watch()
		}
		if looks && now >= min(look, end) {
			look = now.After(lookPause)
			w.look(ctx, now, end)
			if g, ready := w.Ticket.Ready(); ready != queue.Behind {
				return g, ready, nil
			}
			now = clock.Now()
		}
		if now >= end {
			return g, queue.Behind, nil
		}
	}
}

// lookTimeout is how long a waiter waits for an answer about the holder, and checkPause how often it sees
// meanwhile whether it is of use still.
const (
	lookTimeout = remote.Patience
	checkPause  = 10 * time.Millisecond
)

// look asks the server about the holder before the ticket. A server that does not answer keeps the waiter
// no longer than until end, or until the ticket is ready or Stop is closed.
func (w Waiting[R, G, H]) look(ctx context.Context, now, end clock.Instant) {
	h := w.Ticket.Behind()
	limit := lookTimeout
	if now < end {
		limit = min(limit, end.From(now))
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	go func() {
		defer cancel()
		for clock.Sleep(ctx, checkPause, w.Stop) == nil && w.Ticket.Behind() == h {
		}
	}()
	verify(ctx, h)
}

// verify asks the server about a holder that somebody waits behind, which ends the holder if its key
// is gone. Nobody else would notice where the server does not tell and the lease is not extended.
func verify[H Holder](ctx context.Context, h H) {
	var none H
	if h != none && !h.Renewed() {
		_, _ = h.Look(ctx)
	}
}
