package env

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
)

// Soon waits until condition is true, for ten seconds at most. That is longer than a busy machine can take.
// what says what did not happen. Soon calls condition in the goroutine of its caller.
func Soon(t testing.TB, condition func() bool, what string) {
	t.Helper()
	for p := newPatience(10 * time.Second); !condition(); {
		if p.over() {
			require.FailNow(t, "this does not happen: "+what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// longestPause limits how much of a pause between two looks counts. If a pause takes longer, the machine
// stands still or is overloaded. This extra time is not the fault of the code under test.
const longestPause = 100 * time.Millisecond

// patience is how long a test still waits.
type patience struct {
	left time.Duration
	last time.Time
}

func newPatience(limit time.Duration) *patience { return &patience{limit, time.Now()} }

// over counts the time since the last look, and reports whether the time is over. The caller looks once more
// after the time has ended and before over returns true.
func (p *patience) over() bool {
	if p.left <= 0 {
		return true
	}
	now := time.Now()
	p.left -= min(now.Sub(p.last), longestPause)
	p.last = now
	return false
}

// arrives returns what comes on a channel, or false if nothing comes within limit.
func arrives[T any](from <-chan T, limit time.Duration) (v T, ok bool) {
	look := time.NewTicker(longestPause / 2)
	defer look.Stop()
	for p := newPatience(limit); ; {
		select {
		case v = <-from:
			return v, true
		case <-look.C:
			if p.over() {
				return v, false
			}
		}
	}
}

// Deadline returns a context whose deadline passes when the test calls exceed, at exactly the moment that the
// test is about. On a busy machine, a deadline by the clock may pass before this moment.
func Deadline(parent context.Context) (ctx context.Context, exceed func()) {
	d := &deadline{Context: parent, done: make(chan struct{})}
	return d, sync.OnceFunc(func() { close(d.done) })
}

type deadline struct {
	context.Context
	done chan struct{}
}

// Done is Done of context.Context.
func (d *deadline) Done() <-chan struct{} { return d.done }

// Err is Err of context.Context.
func (d *deadline) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Together runs f(0) to f(n-1) at the same time, and returns their errors joined.
func Together(n int, f func(i int) error) error {
	failed := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { failed[i] = f(i) })
	}
	group.Wait()
	return errors.Join(failed...)
}

// AwaitWaiting waits until n acquisitions of the Locker wait for locks.
func AwaitWaiting(t testing.TB, locker *rlock.Locker, n int64) {
	t.Helper()
	Soon(t, func() bool { return locker.Stats().Waiting == n }, "they stand in line")
}

// WithoutTimes returns s without the counts that depend on how long something took.
func WithoutTimes(s rlock.Stats) rlock.Stats {
	s.Waited, s.OldestWait, s.Waits, s.Holds = 0, 0, rlock.Histogram{}, rlock.Histogram{}
	return s
}

// AwaitEnd waits for the end of a lock, for ten seconds at most. The next extension of the lock must be
// further away, so that the end shows without it. The cause of the lock's Context must match why.
func AwaitEnd(t testing.TB, lock *rlock.Lock, why error) {
	t.Helper()
	if _, ended := arrives(lock.Context().Done(), 10*time.Second); !ended {
		t.Fatalf("%q has not ended", lock.Keys())
	}
	require.ErrorIs(t, context.Cause(lock.Context()), why)
	require.Error(t, lock.Err())
}

// Expire makes the lease of a lock end soon, and waits for the end. The answer to the extension may come
// after the end.
func Expire(t testing.TB, lock *rlock.Lock) {
	t.Helper()
	if err := lock.Extend(t.Context(), 50*time.Millisecond); err != nil {
		require.ErrorIs(t, err, rlock.ErrExpired)
	}
	require.Less(t, time.Until(lock.Deadline()), 60*time.Millisecond)
	AwaitEnd(t, lock, rlock.ErrExpired)
}

// AwaitCached waits until Check answers from the client's cache that the key has a holder.
func AwaitCached(t testing.TB, locker *rlock.Locker, key string) {
	t.Helper()
	Soon(t, func() bool {
		state, err := locker.Check(t.Context(), key)
		require.NoError(t, err)
		return state.Held && state.Cached
	}, "the cache knows the holder")
}

// Surfaces checks that call ends at once with an error of the server, and that the error contains text. call
// may wait for a lock until its context ends.
func Surfaces(t testing.TB, text string, call func(ctx context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	err := call(ctx)
	require.ErrorContains(t, err, text)
	require.NotErrorIs(t, err, rlock.ErrGaveUp)
	require.NotErrorIs(t, err, rlock.ErrHeld)
	require.NoError(t, ctx.Err(), "the error is not waited out")
	var server *rueidis.RedisError
	require.ErrorAs(t, err, &server)
}

// Receive returns what arrives on a channel, or the zero value if the channel is closed. If nothing arrives
// within a minute, it ends the test with a failure. Call Receive in the goroutine of the test.
func Receive[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	return ReceiveWithin(t, time.Minute, from)
}

// ReceiveWithin is Receive with another limit, for a test in which the same thing also comes later by other
// means.
func ReceiveWithin[T any](t testing.TB, limit time.Duration, from <-chan T) (v T) {
	t.Helper()
	v, ok := arrives(from, limit)
	if !ok {
		require.FailNow(t, "nothing arrives on this channel")
	}
	return v
}

// Gate stops another goroutine where the test wants it, such as a Fault before or after its command runs.
type Gate struct {
	reached, opened chan struct{}
	reach, open     func()
}

// NewGate returns a closed Gate. The cleanup of t opens the Gate, so that a failed test leaves no goroutine
// behind the Gate.
func NewGate(t testing.TB) *Gate {
	g := &Gate{reached: make(chan struct{}), opened: make(chan struct{})}
	g.reach, g.open = sync.OnceFunc(func() { close(g.reached) }), sync.OnceFunc(func() { close(g.opened) })
	t.Cleanup(g.Open)
	return g
}

// Pass returns when the Gate is open.
func (g *Gate) Pass() {
	g.reach()
	<-g.opened
}

// Await returns when a goroutine stands before the Gate, or has passed it. If no goroutine comes within a
// minute, the test ends with a failure.
func (g *Gate) Await(t testing.TB) {
	t.Helper()
	Receive(t, g.reached)
}

// Reached closes when a goroutine stands before the Gate, or has passed it.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Open lets all goroutines pass. The test may repeat Open.
func (g *Gate) Open() { g.open() }
