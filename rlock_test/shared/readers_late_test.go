package shared

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// kept requires that the key is held after everything that a Locker had to free in the background.
func kept(t *testing.T, l *rlock.Locker, client rueidis.Client) {
	t.Helper()
	l.Close()
	held, err := env.Do(t, client, "EXISTS", "k").AsBool()
	require.NoError(t, err)
	require.True(t, held, "another reader has it still")
}

// A reader whose extension is answered after its lease has ended frees nothing: others share the holder,
// and their leases last.
func TestReaderExpiresDuringItsExtension(t *testing.T) {
	t.Parallel()
	f, l, client := env.NewFaulty(t, env.Engines(t)[0])
	locks := crowd(t, l, "k", 2, rlock.WithTTL(time.Hour))
	gate := env.NewGate(t)
	f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		answer := run()
		if env.Calls(words, gen.ExtendSHA1) {
			gate.Pass()
		}
		return answer
	})
	extended := make(chan error, 1)
	go func() { extended <- locks[0].Extend(context.Background(), 20*time.Millisecond) }()
	env.AwaitEnd(t, locks[0], rlock.ErrExpired)
	gate.Open()
	require.ErrorIs(t, env.Receive(t, extended), rlock.ErrExpired)
	require.NoError(t, locks[1].Err())
	kept(t, l, client)
}

// A reader that panics while it waits, and learns only then that the lease it was to share is over, frees
// nothing: another reader has extended the lease.
func TestReaderIsLateAndPanics(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	l, other := env.OpenOn(t, server), env.OpenOn(t, server)
	writer := env.MustLock(t)(other.Acquire(t.Context(), "k"))
	const lease = 3 * time.Second
	reads, gate, panicked := make(chan *rlock.Lock, 1), env.NewGate(t), make(chan any, 1)
	go func() { lock, _ := l.AcquireShared(t.Context(), "k", rlock.WithTTL(lease)); reads <- lock }()
	queued(t, client, "k", 1)
	late := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
		if e.Kind == rlock.EventContended {
			gate.Pass()
			panic("late")
		}
	})
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = l.AcquireShared(t.Context(), "k", rlock.WithTTL(lease), rlock.WithObserver(late))
	}()
	env.AwaitWaiting(t, l, 2)
	require.NoError(t, writer.Release(t.Context()))
	reader := env.Receive(t, reads)
	require.NoError(t, reader.Extend(t.Context(), time.Hour))
	time.Sleep(lease)
	gate.Open()
	require.Equal(t, "late", env.Receive(t, panicked))
	require.NoError(t, reader.Err())
	kept(t, l, client)
}

// The loss ends all readers before the observer of one is told, so that a slow one, or one that ends the
// goroutine, does not leave the others to believe that they have the lock.
func TestObserverOfALossKeepsNoReaderIn(t *testing.T) {
	t.Parallel()
	for name, observe := range map[string]func(done <-chan struct{}){
		"slow":   func(done <-chan struct{}) { <-done },
		"goexit": func(<-chan struct{}) { runtime.Goexit() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, l, client := env.NewFaulty(t, env.Engines(t)[0])
			observer := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
				if e.Kind == rlock.EventLost {
					observe(t.Context().Done())
				}
			})
			locks := crowd(t, l, "k", 8, rlock.WithObserver(observer), rlock.WithTTL(time.Hour))
			require.NoError(t, env.Admin(env.NewLocker(t, client)).ForceRelease(t.Context(), "k", locks[0].Token()))
			go func() { _ = locks[0].Verify(context.Background()) }()
			env.Soon(t, func() bool { return len(l.Locks()) == 0 }, "the holder is lost for all")
		})
	}
}

// Readers who wait for one that asks the server do not wait for its observer, also if the server has left a
// call of it without an answer.
func TestReadersWaitForNoObserver(t *testing.T) {
	t.Parallel()
	f, l, client := env.NewFaulty(t, env.Engines(t)[0])
	writer := env.MustLock(t)(env.NewLocker(t, client).Acquire(t.Context(), "k"))
	var calls atomic.Int32
	f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		answer := run()
		if env.Calls(words, gen.WaitSHA1) && calls.Add(1) == 2 { // the join, after a try
			return env.NoReply()
		}
		return answer
	})
	told := env.NewGate(t)
	slow := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
		if e.Kind == rlock.EventAcquired {
			told.Pass()
		}
	})
	var readers sync.WaitGroup
	readers.Go(func() {
		if lock, err := l.AcquireShared(t.Context(), "k", rlock.WithObserver(slow)); assert.NoError(t, err) {
			assert.NoError(t, lock.Release(t.Context()))
		}
	})
	env.AwaitWaiting(t, l, 1)
	second := make(chan *rlock.Lock, 1)
	go func() {
		lock, err := l.AcquireShared(t.Context(), "k")
		assert.NoError(t, err)
		second <- lock
	}()
	env.AwaitWaiting(t, l, 2)
	require.NoError(t, writer.Release(t.Context()))
	told.Await(t)
	require.NoError(t, env.Receive(t, second).Release(t.Context()), "it waits for no observer")
	told.Open()
	readers.Wait()
}

// A reader that asks the server, and whose observer panics for each event, leaves others to ask.
func TestReaderThatAsksPanicsTwice(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	l, other := env.OpenOn(t, server), env.OpenOn(t, server)
	writer := env.MustLock(t)(other.Acquire(t.Context(), "k"))
	panicked := make(chan any, 1)
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = l.AcquireShared(t.Context(), "k",
			rlock.WithObserver(rlock.ObserverFunc(func(context.Context, rlock.Event) { panic("observer") })))
	}()
	require.Equal(t, "observer", env.Receive(t, panicked))
	require.NoError(t, writer.Release(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	require.NoError(t, env.MustLock(t)(l.AcquireShared(ctx, "k")).Release(t.Context()))
	idle(t, server.Client(t))
}

// The last reader has the holder alone, with the long lease that another has asked for. When its own is
// over, nothing is left.
func TestLastReaderExpiresWithALongLease(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	l := env.OpenOn(t, server)
	const lease = 3 * time.Second
	locks := crowd(t, l, "k", 2, rlock.WithTTL(lease))
	require.NoError(t, locks[0].Extend(t.Context(), time.Hour))
	require.NoError(t, locks[0].Release(t.Context()))
	require.NoError(t, locks[1].Extend(t.Context(), lease))
	idle(t, server.Client(t))
	require.ErrorIs(t, locks[1].Release(t.Context()), rlock.ErrExpired)
}

// A reader who only tries does not wait with another reader of its process for a writer.
func TestTryBehindAReaderWhoWaits(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	l := env.OpenOn(t, server)
	writer := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k"))
	got := make(chan *rlock.Lock, 1)
	go func() { got <- env.MustLock(t)(l.AcquireShared(t.Context(), "k")) }()
	env.AwaitWaiting(t, l, 1)
	tried := make(chan error, 1)
	go func() { tried <- env.ErrorOf(l.TryAcquireShared(t.Context(), "k")) }()
	require.ErrorIs(t, env.Receive(t, tried), rlock.ErrHeld)
	require.NoError(t, writer.Release(t.Context()))
	reader := env.Taken(t, got)
	also := env.MustLock(t)(l.TryAcquireShared(t.Context(), "k"))
	require.NoError(t, also.Release(t.Context()))
	require.NoError(t, reader.Release(t.Context()))
}
