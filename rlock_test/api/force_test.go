package api

import (
	"bytes"
	"context"
	"errors"
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

// queued returns how many wait in queues.
func queued(t *testing.T, client rueidis.Client) (n int) {
	t.Helper()
	queues, err := env.Do(t, client, "KEYS", "rlock:queue:*").AsStrSlice()
	require.NoError(t, err)
	for _, queue := range queues {
		members, err := env.Do(t, client, "ZCARD", queue).ToInt64()
		require.NoError(t, err)
		n += int(members)
	}
	return n
}

// A token that ForceRelease frees on its way to a caller who has left is lost for the next one too, who has come
// after that.
func TestForceReleaseOfALockThatGoesFurther(t *testing.T) {
	t.Parallel()
	client := env.Start(t).Client(t)
	l := env.NewLocker(t, client,
		rlock.WithTurn(time.Hour), rlock.WithTTL(time.Hour), rlock.WithAutoExtend(true), rlock.WithFence(false))
	first := env.MustLock(t)(l.Acquire(t.Context(), "job"))
	gate := env.NewGate(t)
	ctx, leave := context.WithCancel(t.Context())
	gated, inLine := gate.InLine(ctx)
	left := make(chan error, 1)
	go func() {
		_, err := l.Acquire(gated, "job", inLine, rlock.WithUniqueToken(true))
		left <- err
	}()
	gate.Await(t)
	require.NoError(t, first.Release(t.Context()))
	require.NoError(t, l.ForceRelease(t.Context(), "job", env.Get(t, client, "job")))
	got := env.NextInLine(t, l, "job")
	leave()
	gate.Open()
	require.ErrorIs(t, env.Receive(t, left), rlock.ErrGaveUp)
	next := env.Taken(t, got)
	require.Equal(t, next.Valid(), env.Get(t, client, "job") != "")
	_ = next.Release(t.Context())
}

// A lock that force has freed on its way to its caller ends, also if the server says so only after the
// context of that caller has ended.
func TestContextEndsBeforeForceIsSeen(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	proxy := env.NewProxy(t, server.Addr())
	locker := env.OpenLocker(t, rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, DisableCache: true}, // nobody tells it of lost keys
		rlock.WithTurn(time.Hour), rlock.WithTTL(time.Hour), rlock.WithAutoExtend(true), rlock.WithFence(false))
	lock := env.MustLock(t)(locker.Acquire(t.Context(), "job"))
	gate := env.NewGate(t)
	ctx, exceed := env.Deadline(t.Context())
	gated, inLine := gate.InLine(ctx)
	next := make(chan *rlock.Lock, 1)
	go func() {
		lock, err := locker.Acquire(gated, "job", inLine)
		assert.NoError(t, err)
		next <- lock
	}()
	gate.Await(t)
	require.NoError(t, lock.Release(t.Context()))
	token := env.Get(t, server.Client(t), "job")
	require.NoError(t, locker.ForceRelease(t.Context(), "job", token))
	release := proxy.Hold(func(request []byte) bool { return bytes.Contains(request, []byte(gen.InspectSHA1)) })
	gate.Open()
	env.Soon(t, func() bool { return proxy.Held() > 0 }, "it asks")
	exceed()
	lock = <-next
	require.NoError(t, lock.Err(), "it is not told yet")
	release()
	env.Soon(t, func() bool { return errors.Is(lock.Err(), rlock.ErrLost) }, "it is told")
}

// It ends as well if the context of the caller lasts, and the server says nothing for longer than the call
// asks.
func TestForceIsSeenAfterASilence(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	proxy := env.NewProxy(t, server.Addr())
	locker := env.OpenLocker(t, rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, DisableCache: true}, // nobody tells it of lost keys
		rlock.WithTurn(time.Hour), rlock.WithTTL(time.Hour), rlock.WithAutoExtend(true), rlock.WithFence(false))
	lock := env.MustLock(t)(locker.Acquire(t.Context(), "job"))
	gate := env.NewGate(t)
	ctx, inLine := gate.InLine(t.Context())
	next := make(chan *rlock.Lock, 1)
	go func() {
		lock, err := locker.Acquire(ctx, "job", inLine)
		assert.NoError(t, err)
		next <- lock
	}()
	gate.Await(t)
	require.NoError(t, lock.Release(t.Context()))
	token := env.Get(t, server.Client(t), "job")
	require.NoError(t, locker.ForceRelease(t.Context(), "job", token))
	release := proxy.Hold(func(request []byte) bool { return bytes.Contains(request, []byte(gen.InspectSHA1)) })
	gate.Open()
	env.Soon(t, func() bool { return proxy.Held() > 0 }, "it asks")
	lock = <-next
	require.NoError(t, lock.Err(), "it is not told yet")
	time.Sleep(3 * time.Second) // for longer than it asks once more
	release()
	env.Soon(t, func() bool { return errors.Is(lock.Err(), rlock.ErrLost) }, "it is told")
}

// Force that is used on other keys costs an acquisition nothing: least of all the time until a silent server
// answers.
func TestForceOfOtherKeysAsksNothing(t *testing.T) {
	t.Parallel()
	f, locker, client := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTurn(time.Hour), rlock.WithTTL(time.Hour))
	var asked atomic.Int32
	f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		if env.Calls(words, gen.InspectSHA1) {
			asked.Add(1)
		}
		return run()
	})
	for _, key := range env.Keys(20) {
		lock := env.MustLock(t)(locker.Acquire(t.Context(), "job"))
		next := make(chan *rlock.Lock, 1)
		go func() { next <- env.MustLock(t)(locker.Acquire(t.Context(), "job")) }()
		env.AwaitWaiting(t, locker, 1)
		require.NoError(t, env.Do(t, client, "SET", key, "stranger").Error())
		require.NoError(t, locker.ForceRelease(t.Context(), key, "stranger"))
		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, (<-next).Release(t.Context()))
	}
	require.Less(t, asked.Load(), int32(5), "keys are counted together by their hashes: one in 64")
}
