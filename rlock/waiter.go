package rlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// waiter waits for a key that stands in the way to become free. Reading the key
// through the client-side cache is what makes the server track it. Where no push can
// be expected, it pauses.
type waiter struct {
	locker  *Locker
	patient bool         // no attempts are counted: it may wait for as long as it takes
	backoff *pushBackoff // nil: it looks before it tries
	watch   *watch
}

func newWaiter(l *Lock, retry Retry) *waiter {
	w := &waiter{locker: l.locker, patient: retry.unlimited()}
	if w.patient {
		w.backoff = &pushBackoff{lock: l}
	}
	return w
}

// await waits until key may be free: for a push of the server, or the end of the
// holder's lease, whichever comes first, but no longer than until end. A push is a
// hint, as every extension causes one.
//
// As long as the server has told this Locker nothing, it may never do so: the waiter
// then tries now and then.
//
// The waiter keeps its place among those who wait for the key until it asks for
// another one, or leaves.
func (w *waiter) await(ctx context.Context, key string, pause time.Duration, end clock.Instant) error {
	l := w.locker
	if l.hook == nil || l.uncached.Load() {
		return clock.Sleep(ctx, min(pause, end.Until()), l.closed)
	}
	if w.watch != nil && w.watch.key != key {
		w.leave()
	}
	if w.watch == nil {
		w.watch = l.hook.watch(l, key)
	}
	switch {
	case !w.patient:
		end = min(end, clock.Now().After(pause))
	case !l.heard.Load():
		end = min(end, clock.Now().After(max(pause, unheardPause)))
	}
	for pushed := false; ; pushed = true {
		select {
		case <-w.watch.changed: // before the look
		default:
		}
		answer, err := l.look(ctx, key)
		left := answer.Remaining + time.Millisecond + rand.N(2*time.Millisecond)
		switch {
		case err != nil || answer.Remaining < 0:
			return clock.Sleep(ctx, min(pause, end.Until()), l.closed)
		case answer.Value.Valid:
		case answer.Hit && !pushed:
			// The cache has not heard of the holder that was just met. It will soon, or
			// it hears nothing at all: then this is polling.
			left = pause
		default:
			return nil
		}
		if !w.watch.isFirst() {
			left += time.Second // the first sees to it; this is for when it cannot
		}
		left = min(left, end.Until())
		if left <= 0 {
			return nil
		}
		over, err := clock.Receive(ctx, w.watch.changed, left, l.closed)
		if over || err != nil {
			return err
		}
		if w.backoff != nil {
			delay, look := w.backoff.delay()
			if err := clock.Sleep(ctx, delay, l.closed); err != nil || !look {
				return err
			}
		}
	}
}

// unheardPause is what the default retry policy comes to.
const unheardPause = 250 * time.Millisecond

const lookTimeout = 2 * time.Second

// look reads a key through the cache. There rueidis asks a server that is gone for as
// long as it may.
func (l *Locker) look(ctx context.Context, key string) (gen.Cached[gen.Null[string]], error) {
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	defer context.AfterFunc(l.background, cancel)()
	return l.scripts.HolderCached(ctx, l.client, gen.HolderParams{Lock: key}, l.defaults.cacheTTL)
}

// leave gives up the place among those who wait.
func (w *waiter) leave() {
	if w != nil && w.watch != nil {
		w.watch.leave()
		w.watch = nil
	}
}
