package api

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

// A token that ForceRelease frees on its way to a caller who has left is lost for the next one too, who has
// come after that.
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

// A lock that force has freed on its way to its caller is lost when the call returns, and the server is not
// asked: on its way from another caller of the process, from the server, or from another process by Attach.
func TestForceReleaseBeforeTheCallReturns(t *testing.T) {
	t.Parallel()
	for _, from := range []string{"another caller", "the server", "another process"} {
		t.Run(from, func(t *testing.T) {
			t.Parallel()
			f, l, client := env.NewFaulty(t, env.Engines(t)[0], // nobody tells it of lost keys
				rlock.WithTurn(time.Hour), rlock.WithTTL(time.Hour), rlock.WithAutoExtend(true), rlock.WithFence(false))
			gate := env.NewGate(t)
			next := make(chan *rlock.Lock, 1)
			answered := func(sha1 string) {
				f.When(env.Once(sha1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
					defer gate.Pass()
					return run()
				}))
			}
			switch from {
			case "another caller":
				first := env.MustLock(t)(l.Acquire(t.Context(), "job"))
				ctx, inLine := gate.InLine(t.Context())
				go func() { next <- env.MustLock(t)(l.Acquire(ctx, "job", inLine)) }()
				gate.Await(t)
				require.NoError(t, first.Release(t.Context()))
			case "the server":
				answered(gen.AcquireSHA1)
				go func() { next <- env.MustLock(t)(l.Acquire(t.Context(), "job")) }()
			case "another process":
				handoff := env.Detach(t, env.MustLock(t)(l.Acquire(t.Context(), "job")))
				answered(gen.AttachSHA1)
				go func() { next <- env.MustLock(t)(l.Attach(t.Context(), handoff)) }()
			}
			gate.Await(t)
			require.NoError(t, l.ForceRelease(t.Context(), "job", env.Get(t, client, "job")))
			var asked atomic.Bool
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if env.Calls(words, gen.InspectSHA1) {
					asked.Store(true)
				}
				return run()
			})
			gate.Open()
			lock := env.Taken(t, next)
			require.ErrorIs(t, lock.Err(), rlock.ErrLost)
			require.False(t, asked.Load())
			require.NoError(t, env.MustLock(t)(l.Acquire(t.Context(), "job")).Release(t.Context()))
		})
	}
}

// A command that was repeated takes the key again after force has freed it. It is freed once more.
func TestForceReleaseBesideARepeatedCommand(t *testing.T) {
	t.Parallel()
	f, l, client := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTTL(time.Hour))
	f.When(env.Once(gen.AcquireSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
		run()
		require.NoError(t, l.ForceRelease(t.Context(), "job", env.Get(t, client, "job")))
		return env.NoReply()
	}))
	lock := env.MustLock(t)(l.Acquire(t.Context(), "job"))
	require.ErrorIs(t, lock.Err(), rlock.ErrLost)
	env.Soon(t, func() bool { return env.Get(t, client, "job") == "" }, "it is free")
}

// Who takes a lock with a token of its own after force has freed that token has it.
func TestForceReleaseOfATokenThatComesAgain(t *testing.T) {
	t.Parallel()
	l := env.OpenOn(t, env.Start(t))
	mine := rlock.WithToken("mine")
	first := env.MustLock(t)(l.Acquire(t.Context(), "job", mine))
	require.NoError(t, l.ForceRelease(t.Context(), "job", "mine"))
	require.ErrorIs(t, first.Err(), rlock.ErrLost)
	again := env.MustLock(t)(l.Acquire(t.Context(), "job", mine))
	require.NoError(t, again.Err())
	require.NoError(t, again.Release(t.Context()))
}
