package queue

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A waiter whose policy panics leaves nothing in the queue, and the lock goes on.
func TestPanicWhileWaiting(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k"))
		b := env.OpenOn(t, server)
		var n atomic.Int64
		done := make(chan any, 1)
		go func() {
			defer func() { done <- recover() }()
			_, _ = b.Acquire(t.Context(), "k",
				rlock.WithRetry(rlock.RetryFunc(func(rlock.Attempt) (time.Duration, bool) {
					if n.Add(1) == 3 {
						panic("policy")
					}
					return 20 * time.Millisecond, true
				})))
		}()
		require.NotNil(t, env.Receive(t, done))
		env.Soon(t, func() bool { return len(queued(t, client, "k")) == 0 }, "it has left the queue")
		got := waits(t, client, b, "k")
		passesOn(t, client, "k", held, got)
	})
}

// Close ends a wait, and whoever stands behind it gets the lock when it is released. The place of
// the closed one may still be in the queue then, because Close does not wait for callers.
func TestCloseWhileQueued(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k"))
		b, c := env.OpenOn(t, server), env.OpenOn(t, server)
		failed := make(chan error, 1)
		go func() { failed <- env.ErrorOf(b.Acquire(t.Context(), "k")) }()
		env.Soon(t, func() bool { return len(queued(t, client, "k")) == 1 }, "it stands in the queue")
		got := waits(t, client, c, "k")
		b.Close()
		require.ErrorIs(t, env.Receive(t, failed), rlock.ErrClosed)
		passesOn(t, client, "k", held, got)
	})
}

// A wait ends when its policy says so, although the client has no connection left on which to hear
// of a grant.
func TestPolicyEndsTheWaitForASubscription(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	require.NoError(t, env.Do(t, server.Client(t), "SET", "k", "stranger").Error())
	l := deaf(t, server)
	began := time.Now()
	_, err := l.Acquire(t.Context(), "k", rlock.WithRetry(rlock.DefaultRetry().MaxTime(200*time.Millisecond)))
	require.ErrorIs(t, err, rlock.ErrGaveUp)
	require.Less(t, time.Since(began), 5*time.Second)
}

// A waiter for which the client has no connection takes a place in the queue all the same, so that those
// who come later do not get the lock before it.
func TestPlaceBeforeTheSubscription(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k"))
	l := deaf(t, server)
	first := waits(t, client, l, "k")
	second := waits(t, client, env.OpenOn(t, server), "k")
	require.NoError(t, held.Release(t.Context()))
	passesOn(t, client, "k", env.Taken(t, first), second)
}

// A waiter for which the client has no connection gets a lock that is freed meanwhile.
func TestReleaseBeforeTheSubscription(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k"))
	l := deaf(t, server)
	got := make(chan *rlock.Lock, 1)
	go func() { got <- env.MustLock(t)(l.Acquire(t.Context(), "k")) }()
	env.AwaitWaiting(t, l, 1)
	began := time.Now()
	passesOn(t, client, "k", held, got)
	require.Less(t, time.Since(began), 5*time.Second)
}

// The place that a process has at the end of its turn is for the next of its callers. If the policy of that
// one ends the call, it goes to the one after, and nobody who came to the queue meanwhile is before it.
func TestPlaceOfACallerWhosePolicyPanics(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		a, b, c := env.OpenOn(t, server, rlock.WithTurn(0)), env.OpenOn(t, server), env.OpenOn(t, server)
		first := env.MustLock(t)(a.Acquire(t.Context(), "k"))
		gate := env.NewGate(t)
		panicked := make(chan any, 1)
		go func() {
			defer func() { panicked <- recover() }()
			policy := rlock.RetryFunc(func(at rlock.Attempt) (time.Duration, bool) {
				if at.Number == 1 { // it waits behind first
					return time.Hour, true
				}
				gate.Pass()
				panic("policy")
			})
			_, _ = a.Acquire(t.Context(), "k", rlock.WithRetry(policy))
		}()
		env.AwaitWaiting(t, a, 1)
		next := env.NextInLine(t, a, "k")
		other := waits(t, client, b, "k")
		require.NoError(t, first.Release(t.Context()))
		held := env.Taken(t, other)
		env.Soon(t, func() bool { return len(queued(t, client, "k")) == 1 }, "a has a place")
		last := waits(t, client, c, "k")
		gate.Open()
		require.Equal(t, "policy", env.Receive(t, panicked))
		time.Sleep(100 * time.Millisecond)
		env.Soon(t, func() bool { return len(queued(t, client, "k")) == 2 }, "a goes on")
		require.NoError(t, held.Release(t.Context()))
		select {
		case <-time.After(time.Minute):
			require.FailNow(t, "nobody has the lock")
		case lock := <-next:
			require.NoError(t, lock.Release(t.Context()))
			require.NoError(t, env.Taken(t, last).Release(t.Context()))
		case <-last:
			t.Fatal("who came later was first")
		}
		idle(t, client, "k")
	})
}

// An observer of the next caller in line takes long. The process that waits at the server does not wait for
// it.
func TestNextInLineTakesLong(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	a, b := env.OpenOn(t, server, rlock.WithTurn(time.Hour)), env.OpenOn(t, server)
	first := env.MustLock(t)(a.Acquire(t.Context(), "k"))
	gate := env.NewGate(t)
	slow := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
		if e.Kind == rlock.EventContended {
			gate.Pass()
		}
	})
	next := make(chan *rlock.Lock, 1)
	go func() { next <- env.MustLock(t)(a.Acquire(t.Context(), "k", rlock.WithObserver(slow))) }()
	gate.Await(t)
	other := waits(t, client, b, "k")
	require.NoError(t, first.Release(t.Context()))
	require.NoError(t, env.Taken(t, other).Release(t.Context()))
	gate.Open()
	require.NoError(t, env.Taken(t, next).Release(t.Context()))
	idle(t, client, "k")
}

// Nor does one whose policy takes long after it has asked the server about the lock that it waits behind.
func TestPolicyOfTheNextTakesLong(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	// nothing tells a of losses
	a, b := env.NewLocker(t, client, rlock.WithTurn(time.Hour)), env.OpenOn(t, server)
	first := env.MustLock(t)(a.Acquire(t.Context(), "k", rlock.WithTTL(time.Hour)))
	gate := env.NewGate(t)
	var asked atomic.Int32
	policy := rlock.RetryFunc(func(rlock.Attempt) (time.Duration, bool) {
		if asked.Add(1) == 2 {
			gate.Pass()
		}
		return 50 * time.Millisecond, true
	})
	next := make(chan *rlock.Lock, 1)
	go func() {
		next <- env.MustLock(t)(a.Acquire(t.Context(), "k", rlock.WithTTL(time.Hour), rlock.WithRetry(policy)))
	}()
	gate.Await(t)
	other := waits(t, client, b, "k")
	require.NoError(t, first.Release(t.Context()))
	require.NoError(t, env.Taken(t, other).Release(t.Context()))
	gate.Open()
	require.NoError(t, env.Taken(t, next).Release(t.Context()))
	idle(t, client, "k")
}

// Nor does a reader who waited with another: it has a part in what the other got only once it waits again.
func TestReaderInLineTakesLong(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	a, b := env.OpenOn(t, server, rlock.WithTTL(time.Hour), rlock.WithTurn(time.Hour)), env.OpenOn(t, server)
	for name, stays := range map[string]bool{"the other has left": false, "the other stays": true} {
		writer := env.MustLock(t)(b.Acquire(t.Context(), "k"))
		first := make(chan *rlock.Lock, 1)
		go func() { first <- env.MustLock(t)(a.AcquireShared(t.Context(), "k")) }()
		env.AwaitWaiting(t, a, 1)
		gate := env.NewGate(t)
		slow := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
			if e.Kind == rlock.EventContended {
				gate.Pass()
			}
		})
		next := make(chan *rlock.Lock, 1)
		go func() { next <- env.MustLock(t)(a.AcquireShared(t.Context(), "k", rlock.WithObserver(slow))) }()
		gate.Await(t)
		require.NoError(t, writer.Release(t.Context()))
		reader := env.Taken(t, first)
		if stays {
			gate.Open()
			second := env.Taken(t, next)
			require.Equal(t, reader.Fence(), second.Fence(), name)
			require.NoError(t, second.Release(t.Context()))
			require.NoError(t, reader.Release(t.Context()))
			continue
		}
		require.NoError(t, reader.Release(t.Context()))
		other := make(chan *rlock.Lock, 1)
		go func() { other <- env.MustLock(t)(b.Acquire(t.Context(), "k")) }()
		require.NoError(t, env.Taken(t, other).Release(t.Context()), name)
		gate.Open()
		require.NoError(t, env.Taken(t, next).Release(t.Context()))
	}
	idle(t, client, "k")
}

// A set finds with its heartbeat that it has all keys, and fails before the server has confirmed that its
// place has ended. It leaves none of the keys locked.
func TestSetFailsBeforeItsPlaceHasEnded(t *testing.T) {
	t.Parallel()
	for name, fails := range map[string]func(f *env.Faulty, cancel func()) rueidis.RedisResult{
		"its context ends": func(_ *env.Faulty, cancel func()) rueidis.RedisResult {
			cancel()
			return rueidis.NewErrorResult(context.Canceled)
		},
		"refused": func(f *env.Faulty, _ func()) rueidis.RedisResult { return f.Refuse("ERR broken") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, l, client := env.NewFaulty(t, env.Engines(t)[0])
			ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
			defer cancel()
			failed := make(chan error, 1)
			held := collectsInOrder(t, client, func() {
				failed <- env.ErrorOf(l.AcquireAll(ctx, []string{"i", "j"}, rlock.WithTTL(time.Hour)))
			})
			var taken atomic.Bool
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				switch {
				case env.Calls(words, gen.AcquireAllSHA1) && !taken.Swap(true):
					_ = held.Release(context.Background()) // the server grants the set its last key
				case env.Calls(words, gen.WaitSHA1) && taken.Load():
					f.When(nil)
					return fails(f, cancel)
				}
				return run()
			})
			require.Error(t, env.Receive(t, failed))
			require.True(t, taken.Load())
			idle(t, client, "i")
			idle(t, client, "j")
		})
	}
}
