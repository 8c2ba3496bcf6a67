package notify

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
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
	Stop     <-chan struct{} // ends an Await with clock.ErrStopped
	Wake     <-chan struct{} // ends an Await or a Sleep; nil: nothing does
	Token    string          // an Await also ends when the key has it; empty: none

	// Foreign reports whether a holder passes the key on to nobody. An Await also ends when the key of such a
	// holder changes: its process may take the key again before a look could say that it was free. nil: each
	// change is looked at.
	Foreign func(token string) bool

	watch *Watch
	polls int // pauses so far that nobody asked for
}

// Look reads a key through the cache. It fails where there is none, and with
// context.DeadlineExceeded if the server does not answer in time.
type Look func(ctx context.Context, key string) (Seen, error)

// Seen is what a Look has found.
type Seen struct {
	Held   bool
	Token  string        // of the holder
	Left   time.Duration // of the holder's lease, or of what the cache knows
	Cached bool          // the server was not asked
}

// A Wait that is given no pause polls where nothing is pushed. Its pauses grow from firstPoll to
// LongestPoll. It also waits no longer than LongestPoll while the server has told its Listener
// nothing, because the server may never do so.
const (
	firstPoll   = 5 * time.Millisecond
	LongestPoll = 250 * time.Millisecond
)

// Await waits until key may be free, or has the Token of the Wait: until the server pushes a
// change or the holder's lease ends, whichever comes first, but no longer than for pause and
// until end. A push is only a hint, because every extension causes one. Where nothing is pushed,
// Await waits for pause or, if pause is clock.NoExpiry, as Sleep does. left is what is left of
// the holder's lease as far as the caller knows.
//
// The Wait keeps its place among those who wait for key until Await is called for another
// key, or until Leave.
func (w *Wait) Await(ctx context.Context, key string, pause, left time.Duration, end clock.Instant) error {
	if w.Listener == nil {
		return w.Sleep(ctx, pause, left, end)
	}
	if w.watch != nil && w.watch.key != key {
		w.Leave()
	}
	if w.watch == nil {
		w.watch = w.Listener.Watch(key)
	}
	patient := pause == clock.NoExpiry
	switch {
	case !patient:
		end = min(end, clock.Now().After(pause))
	case !w.Listener.Heard():
		end = min(end, clock.Now().After(LongestPoll))
	}
	for pushed := false; ; pushed = true {
		select {
		case <-w.watch.changed: // before the look
		default:
		}
		seen, err := w.look(ctx, key, pause, end)
		over := clock.JustAfter(seen.Left)
		switch {
		case err == errWoken:
			return nil
		case err != nil:
			return w.Sleep(ctx, pause, left, end)
		case seen.Held && w.Token != "" && seen.Token == w.Token:
			return nil
		case seen.Held:
		case seen.Cached && !pushed:
			// The cache does not know yet of the holder that the attempt has just found. It
			// will soon hear of it. If it hears nothing at all, this is polling.
			over = w.poll(pause, left)
		default:
			return nil
		}
		if !w.watch.isFirst() {
			over += time.Second // the first waiter tries; this is for when it cannot
		}
		over = min(over, end.Until())
		if over <= 0 {
			return nil
		}
		got, err := clock.Select(ctx, w.watch.changed, w.Wake, over, w.Stop)
		if got != w.watch.changed || err != nil || seen.Held && w.Foreign != nil && w.Foreign(seen.Token) {
			return err
		}
	}
}

// look is Look, and ends with errWoken when Wake receives. It looks again if the server does not answer
// in time, unless the caller polls anyway: nobody knows then whether the server tracks the key, and a pause
// may be long.
func (w *Wait) look(ctx context.Context, key string, pause time.Duration, end clock.Instant) (Seen, error) {
	for {
		seen, err := w.lookOnce(ctx, key)
		if pause == clock.NoExpiry || !errors.Is(err, context.DeadlineExceeded) {
			return seen, err
		}
		over, stopped := clock.Receive(ctx, w.Wake, min(pause, LongestPoll, end.Until()), w.Stop)
		switch {
		case stopped != nil || clock.Now() >= end:
			return seen, err
		case !over:
			return Seen{}, errWoken
		}
	}
}

// errWoken is the error of a look that Wake has ended. errLookEnded is that of one whose goroutine a hook of
// the client has ended.
var (
	errWoken     = errors.New("there is something to take")
	errLookEnded = errors.New("a hook of the client has called runtime.Goexit")
)

// lookOnce is Look, and does not wait for the answer when Wake receives. A lock that is granted to this
// process changes its key, so the push of the change comes together with the message of the grant: whoever
// looked first would have the lock a round trip later. The look goes on without its caller, because others
// may wait for the same answer of the cache.
func (w *Wait) lookOnce(ctx context.Context, key string) (Seen, error) {
	if w.Wake == nil {
		return w.Look(ctx, key)
	}
	runtime.Gosched() // the goroutine that reads the message has perhaps been woken as well
	select {
	case <-w.Wake:
		return Seen{}, errWoken
	default:
	}
	type look struct {
		seen  Seen
		err   error
		cause any // of a panic of the client, if not nil
	}
	done := make(chan look, 1) // nobody may take it
	go func() {
		l := look{err: errLookEnded}
		defer func() {
			l.cause = recover() // the caller panics, as if it had called the client itself
			done <- l
		}()
		l.seen, l.err = w.Look(ctx, key)
	}()
	select {
	case <-w.Wake:
		return Seen{}, errWoken
	case l := <-done:
		if l.cause != nil {
			panic(l.cause)
		}
		return l.seen, l.err
	}
}

// Sleep waits for pause, but no longer than until end. If pause is clock.NoExpiry, it waits as
// long as between two polls, or until a lease ends of which left is left.
func (w *Wait) Sleep(ctx context.Context, pause, left time.Duration, end clock.Instant) error {
	pause = min(w.poll(pause, left), end.Until())
	if pause <= 0 {
		return nil
	}
	_, err := clock.Receive(ctx, w.Wake, pause, w.Stop)
	return err
}

// poll returns pause, or how long to wait before the next poll if there is none. It is drawn
// from the upper half of what is allowed, so that waiters do not march in step.
func (w *Wait) poll(pause, left time.Duration) time.Duration {
	if pause != clock.NoExpiry {
		return pause
	}
	pause = min(firstPoll<<min(w.polls, 30), LongestPoll)
	w.polls++
	pause = pause/2 + rand.N(pause/2+1)
	if left > 0 {
		pause = min(pause, clock.JustAfter(left))
	}
	return pause
}

// Leave gives up the place among those who wait. A nil Wait has none.
func (w *Wait) Leave() {
	if w != nil && w.watch != nil {
		w.watch.Leave()
		w.watch = nil
	}
}
