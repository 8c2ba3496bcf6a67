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

// Soon waits for something that is about to happen, for ten seconds at most: longer than
// a busy machine can take. what says what did not happen. It calls condition in the goroutine of its caller.
func Soon(t testing.TB, condition func() bool, what string) {
	t.Helper()
	for p := newPatience(10 * time.Second); !condition(); {
		if p.over() {
			require.FailNow(t, "this does not happen: "+what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// longestPause is what a pause between two looks counts at most: a machine that takes longer for it stands
// still, or has many times as much to do as it can. Such time is nobody's fault who is waited for.
const longestPause = 100 * time.Millisecond

// patience is how long a test still waits.
type patience struct {
	left time.Duration
	last time.Time
}

func newPatience(limit time.Duration) *patience { return &patience{limit, time.Now()} }

// over notes the time since the last look, and reports whether that was enough. What is waited for is looked
// at once more between the end of the time and this answer.
func (p *patience) over() bool {
	if p.left <= 0 {
		return true
	}
	now := time.Now()
	p.left -= min(now.Sub(p.last), longestPause)
	p.last = now
	return false
}

// arrives returns what comes on a channel, and false if nothing does within limit.
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

// Deadline returns a context whose deadline is exceeded when the test calls exceed, at just the
// moment that the test is about. A deadline by the clock may come before that on a busy machine.
func Deadline(parent context.Context) (ctx context.Context, exceed func()) {
	d := &deadline{Context: parent, done: make(chan struct{})}
	return d, sync.OnceFunc(func() { close(d.done) })
}

type deadline struct {
	context.Context
	done chan struct{}
}

// Done is that of context.Context.
func (d *deadline) Done() <-chan struct{} { return d.done }

// Err is that of context.Context.
func (d *deadline) Err() error {
	select {
	case <-d.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Together runs f(0) to f(n-1) at once and returns their errors joined.
func Together(n int, f func(i int) error) error {
	failed := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { failed[i] = f(i) })
	}
	group.Wait()
	return errors.Join(failed...)
}

// AwaitWaiting waits until n acquisitions of the Locker wait for a lock.
func AwaitWaiting(t testing.TB, locker *rlock.Locker, n int64) {
	t.Helper()
	Soon(t, func() bool { return locker.Stats().Waiting == n }, "they stand in line")
}

// WithoutTimes returns the counts of s, without what depends on how long something took.
func WithoutTimes(s rlock.Stats) rlock.Stats {
	s.Waited, s.OldestWait, s.Waits, s.Holds = 0, 0, rlock.Histogram{}, rlock.Histogram{}
	return s
}

// AwaitEnd waits for the end of a lock, for ten seconds at most: the next extension of
// the lock must be further away, so that the end is noticed without it. why is what the
// cause of the lock's Context must match.
func AwaitEnd(t testing.TB, lock *rlock.Lock, why error) {
	t.Helper()
	if _, ended := arrives(lock.Context().Done(), 10*time.Second); !ended {
		t.Fatalf("%q has not ended", lock.Keys())
	}
	require.ErrorIs(t, context.Cause(lock.Context()), why)
	require.Error(t, lock.Err())
}

// Expire makes the lease of a lock end soon and waits for its end. The answer to the extension may come
// after that.
func Expire(t testing.TB, lock *rlock.Lock) {
	t.Helper()
	if err := lock.Extend(t.Context(), 50*time.Millisecond); err != nil {
		require.ErrorIs(t, err, rlock.ErrExpired)
	}
	require.Less(t, time.Until(lock.Deadline()), 60*time.Millisecond)
	AwaitEnd(t, lock, rlock.ErrExpired)
}

// AwaitCached waits until Check answers from the client's cache that somebody holds the
// key.
func AwaitCached(t testing.TB, locker *rlock.Locker, key string) {
	t.Helper()
	Soon(t, func() bool {
		state, err := locker.Check(t.Context(), key)
		require.NoError(t, err)
		return state.Held && state.Cached
	}, "the cache knows the holder")
}

// Surfaces checks that call, which may wait for a lock for as long as its context lasts,
// ends at once with the server's error of that text.
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

// Receive returns what arrives on a channel, or the zero value if it is closed. What does not arrive within a
// minute ends the test with a failure: a test that waits longer than that waits for what will not happen. It
// is called in the goroutine of the test.
func Receive[T any](t testing.TB, from <-chan T) (v T) {
	t.Helper()
	return ReceiveWithin(t, time.Minute, from)
}

// ReceiveWithin is Receive with another limit, for a test of something that comes later too, by other means.
func ReceiveWithin[T any](t testing.TB, limit time.Duration, from <-chan T) (v T) {
	t.Helper()
	v, ok := arrives(from, limit)
	if !ok {
		require.FailNow(t, "nothing arrives on this channel")
	}
	return v
}

// Gate stops another goroutine where the test wants it, such as a Fault before or after its command has run.
type Gate struct {
	reached, opened chan struct{}
	reach, open     func()
}

// NewGate returns a closed Gate. The cleanup of t opens it, so that a test that fails stops nobody for good.
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

// Await returns when somebody stands before the Gate, or has passed it. If nobody comes within a minute, the
// test ends with a failure.
func (g *Gate) Await(t testing.TB) {
	t.Helper()
	Receive(t, g.reached)
}

// Reached is closed when somebody stands before the Gate, or has passed it.
func (g *Gate) Reached() <-chan struct{} { return g.reached }

// Open lets everybody pass. It may be called again.
func (g *Gate) Open() { g.open() }
