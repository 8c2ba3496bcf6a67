package notify

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Wait waits until a key may be free, for one key or for several one after the other. It reads
// the key through the client-side cache, so that the server tracks the key. Where no push can
// be expected, it pauses instead.
//
// Its fields are set before the first Await. One goroutine at a time may use it.
type Wait struct {
	Listener *Listener // nil: nothing is pushed
	Look     Look
	Patient  bool                         // no attempts are counted: it may wait for as long as it takes
	Delay    func() (time.Duration, bool) // how long to pause after a push, and whether to look then; nil: not at all, and look
	Stop     <-chan struct{}              // ends an Await with clock.ErrStopped

	watch *Watch
}

// Look reads a key through the cache. It fails where there is none.
type Look func(ctx context.Context, key string) (Seen, error)

// Seen is what a Look has found.
type Seen struct {
	Held   bool
	Left   time.Duration // of the holder's lease, or of what the cache knows
	Cached bool          // the server was not asked
}

// UnheardPause is how long a patient Wait waits at most, unless its pause is longer, while the
// server has told its Listener nothing: the server may never do so. The longest pause of the
// default retry policy is as long.
const UnheardPause = 250 * time.Millisecond

// Await waits until key may be free: until the server pushes a change or the holder's lease
// ends, whichever comes first, but no longer than until end. A push is only a hint, because
// every extension causes one. Where nothing is pushed, Await waits for pause. A Wait that is
// not Patient never waits longer than pause.
//
// The Wait keeps its place among those who wait for key until Await is called for another
// key, or until Leave.
func (w *Wait) Await(ctx context.Context, key string, pause time.Duration, end clock.Instant) error {
	if w.Listener == nil {
		return clock.Sleep(ctx, min(pause, end.Until()), w.Stop)
	}
	if w.watch != nil && w.watch.key != key {
		w.Leave()
	}
	if w.watch == nil {
		w.watch = w.Listener.Watch(key)
	}
	switch {
	case !w.Patient:
		end = min(end, clock.Now().After(pause))
	case !w.Listener.Heard():
		end = min(end, clock.Now().After(max(pause, UnheardPause)))
	}
	for pushed := false; ; pushed = true {
		select {
		case <-w.watch.changed: // before the look
		default:
		}
		seen, err := w.Look(ctx, key)
		left := seen.Left + time.Millisecond + rand.N(2*time.Millisecond)
		switch {
		case err != nil:
			return clock.Sleep(ctx, min(pause, end.Until()), w.Stop)
		case seen.Held:
		case seen.Cached && !pushed:
			// The cache does not know yet of the holder that the attempt has just found. It
			// will soon hear of it. If it hears nothing at all, this is polling.
			left = pause
		default:
			return nil
		}
		if !w.watch.isFirst() {
			left += time.Second // the first waiter tries; this is for when it cannot
		}
		left = min(left, end.Until())
		if left <= 0 {
			return nil
		}
		over, err := clock.Receive(ctx, w.watch.changed, left, w.Stop)
		if over || err != nil {
			return err
		}
		if w.Delay != nil {
			delay, look := w.Delay()
			if err := clock.Sleep(ctx, delay, w.Stop); err != nil || !look {
				return err
			}
		}
	}
}

// Leave gives up the place among those who wait. A nil Wait has none.
func (w *Wait) Leave() {
	if w != nil && w.watch != nil {
		w.watch.Leave()
		w.watch = nil
	}
}
