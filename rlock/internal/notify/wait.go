package notify

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Wait waits until a key may be free. It may wait for several keys one after the other. It reads the key
// through the client-side cache, so that the server tracks the key. Where it can expect no push, it pauses
// instead.
//
// Set the fields before the first Await. Only one goroutine at a time may use a Wait.
type Wait struct {
	Listener *Listener // nil: the server pushes nothing
	Look     Look
	Stop     <-chan struct{} // ends an Await with clock.ErrStopped
	Wake     <-chan struct{} // ends an Await or a Sleep; may be nil
	Token    string          // an Await also ends when the key has this token; "": none

	// Foreign reports whether a holder passes the key on to no other process. An Await also ends when that
	// holder's key changes: the process of the holder may take the key again before a look finds the key
	// free. With nil, the Wait looks at each change.
	Foreign func(token string) bool

	watch *Watch
	polls int // pauses so far whose length no caller gave
}

// Look reads a key through the cache. It fails where there is no cache. It fails with
// context.DeadlineExceeded if the server does not answer in time.
type Look func(ctx context.Context, key string) (Seen, error)

// Seen is what a Look has found.
type Seen struct {
	Held   bool
	Token  string        // of the holder
	Left   time.Duration // of the holder's lease, or of the cache entry
	Cached bool          // the cache answered, not the server
}

// A Wait without a pause polls where the server pushes nothing. Its pauses grow from firstPoll to
// LongestPoll. It also waits for LongestPoll at most while the server has told its Listener nothing,
// because the server may never do so.
const (
	firstPoll   = 5 * time.Millisecond
	LongestPoll = 250 * time.Millisecond
)

// Await waits until key may be free, or has the Token of the Wait. It ends at the first of these: the
// server pushes a change of the key, the lease of the holder ends, pause is over, or end comes. A push is
// only a hint, because every extension causes one. Where the server pushes nothing, Await waits for pause.
// If pause is clock.NoExpiry then, Await waits as Sleep does. left is the rest of the holder's lease as far
// as the caller knows.
//
// The Wait keeps its place among the waiters for key until the caller calls Await for another key, or
// Leave.
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
			// The cache does not yet know of the holder that the attempt has just found. It soon hears of
			// that holder. If it hears nothing at all, this is polling.
			over = w.poll(pause, left)
		default:
			return nil
		}
		if !w.watch.isFirst() {
			over += time.Second // the first waiter tries; this is for a first waiter that cannot
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

// look calls Look until Wake receives, and then ends with errWoken. If the server does not answer in time,
// look looks again, unless the caller polls anyway. Without an answer, the server perhaps does not track
// the key, and the pause may be long.
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

// errWoken is the error of a look that Wake has ended. errLookEnded is the error of a look whose goroutine
// a hook of the client has ended.
var (
	errWoken     = errors.New("there is something to take")
	errLookEnded = errors.New("a hook of the client has called runtime.Goexit")
)

// lookOnce calls Look once, and does not wait for the answer when Wake receives. A grant to this process
// changes the key, so the push of the change comes together with the message of the grant. A waiter that
// looked first would have the lock a round trip later. The look goes on without its caller, because other
// waiters may share the answer of the cache.
func (w *Wait) lookOnce(ctx context.Context, key string) (Seen, error) {
	if w.Wake == nil {
		return w.Look(ctx, key)
	}
	runtime.Gosched() // another goroutine may be about to read the message of the grant
	select {
	case <-w.Wake:
		return Seen{}, errWoken
	default:
	}
	type look struct {
		seen  Seen
		err   error
		cause any // the value of a panic of the client; nil: none
	}
	done := make(chan look, 1) // buffered, because the caller may not receive
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

// Sleep waits for pause, but not beyond end. If pause is clock.NoExpiry, it waits as long as between two
// polls, or until a lease ends. left is the rest of that lease.
func (w *Wait) Sleep(ctx context.Context, pause, left time.Duration, end clock.Instant) error {
	pause = min(w.poll(pause, left), end.Until())
	if pause <= 0 {
		return nil
	}
	_, err := clock.Receive(ctx, w.Wake, pause, w.Stop)
	return err
}

// poll returns pause. Without a pause it returns how long to wait before the next poll. That time is
// random, from the upper half of the allowed range, so that waiters do not poll in step.
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

// Leave gives up the place among the waiters. A nil Wait has no place.
func (w *Wait) Leave() {
	if w != nil && w.watch != nil {
		w.watch.Leave()
		w.watch = nil
	}
}
