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

// Holder is a lock of this process. A nil one is none: Watch does nothing then.
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
	Hears  Hears         // nil: it does not
	End    clock.Instant // of the wait, of which Await may be one pause; clock.Never: none
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
		if looks && now >= min(look, end) && now < w.End { // whose owner asks once more at its end
			look = now.After(lookPause)
			if g, ready, err = w.look(ctx, now, end); err != nil || ready != queue.Behind {
				return g, ready, err
			}
			now = clock.Now()
		}
		if now >= end {
			return g, queue.Behind, nil
		}
	}
}

// lookTimeout is how long a waiter waits for an answer about the holder.
const lookTimeout = remote.Patience

// look asks the server about the holder before the ticket, in the background, and does what Await does until
// there is an answer: the ticket may be ready before, and the server may be silent. At the end of a pause it has
// lookTimeout, or until the end of the wait.
func (w Waiting[R, G, H]) look(ctx context.Context, now, end clock.Instant) (g G, ready queue.Readiness, err error) {
	limit := min(now.After(lookTimeout), w.End)
	if now < end {
		limit = min(limit, end)
	}
	h := w.Ticket.Behind()
	if !asked(h) {
		return g, queue.Behind, nil
	}
	asks, cancel := context.WithTimeout(ctx, limit.From(now))
	defer cancel()
	var cause any // of a panic of the client or of an observer, if not nil
	waits, answered := context.WithCancel(ctx)
	go func() {
		defer answered()
		// The waiter panics, as if it had asked itself. One that has gone on does not: what it has got or given up
		// is done, and a program does not end because of what a call asked that has returned.
		defer func() { cause = recover() }()
		_, _ = h.Look(asks)
	}()
	g, ready, err = w.Ticket.Await(waits, now, limit, w.Stop)
	if err == nil || waits.Err() == nil || ctx.Err() != nil {
		return g, ready, err
	}
	if cause != nil {
		panic(cause)
	}
	return g, queue.Behind, nil
}

// asked reports whether the server is to be asked about a holder that somebody waits behind, which ends the
// holder if its key is gone. Nobody else would notice where the server does not tell and the lease is not extended.
func asked[H Holder](h H) bool {
	var none H
	return h != none && !h.Renewed()
}
