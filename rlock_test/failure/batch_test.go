package failure

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// An answer about a lock of the same Locker is out of date when the lock has got a new token
// since: it is not lost then.
func TestTryAsksWhileTheTokenChanges(t *testing.T) {
	t.Parallel()
	for name, try := range map[string]func(locker *rlock.Locker) error{
		"TryAcquire": func(locker *rlock.Locker) error {
			return env.ErrorOf(
				locker.TryAcquire(context.Background(), "job"))
		},
		"TryAcquireEach": func(locker *rlock.Locker) error {
			results, err := locker.TryAcquireEach(context.Background(), []string{"job"})
			if err != nil {
				return err
			}
			return results[0].Err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, locker, _ := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTTL(time.Hour))
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				answer := run()
				if env.Calls(words, gen.InspectSHA1) {
					f.When(nil)
					if err := lock.Extend(context.Background(), time.Minute); err != nil {
						t.Error(err)
					}
				}
				return answer
			})
			require.ErrorIs(t, try(locker), rlock.ErrHeld)
			require.NoError(t, lock.Err())
			require.NoError(t, lock.Release(t.Context()))
		})
	}
}

// Only what got no answer is asked for again.
func TestBatchRepeatsLostReplies(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		var calls atomic.Int32
		lose := func(sha string) {
			calls.Store(0)
			var lost atomic.Bool
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if !env.Calls(words, sha) {
					return run()
				}
				calls.Add(1)
				if slices.Contains(words, "job:2") && lost.CompareAndSwap(false, true) {
					run()
					return env.NoReply()
				}
				return run()
			})
		}
		lose(gen.AcquireManySHA1)
		locks := env.TakeEach(t, locker, env.Keys(5)) // and then one by one
		require.Equal(t, int32(1), calls.Load())
		lose(gen.ExtendSHA1)
		for _, err := range locker.ExtendEach(t.Context(), locks, time.Minute) {
			require.NoError(t, err)
		}
		require.Equal(t, int32(2), calls.Load())
		lose(gen.ReleaseManySHA1)
		for _, err := range locker.ReleaseEach(t.Context(), locks) {
			require.NoError(t, err, "an earlier try did it")
		}
		require.GreaterOrEqual(t, calls.Load(), int32(2)) // and the acquisition's lost try is cleaned up after
		for _, key := range env.Keys(5) {
			require.Empty(t, env.Get(t, direct, key))
		}
	})
}

// A context that ends in flight leaves nothing behind, and does not keep a release.
func TestBatchWhoseContextEnds(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		l := newLink(t, e)
		locks := env.TakeEach(t, l.locker, env.Keys(3), rlock.WithTTL(rlock.NoExpiry))
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range l.locker.ExtendEach(ended, locks, time.Hour) {
			require.ErrorIs(t, err, context.Canceled)
		}
		for _, err := range l.locker.ReleaseEach(ended, locks) {
			require.NoError(t, err)
		}
		results, err := l.locker.TryAcquireEach(ended, env.Keys(3))
		require.NoError(t, err)
		for _, r := range results {
			require.ErrorIs(t, r.Err, rlock.ErrGaveUp)
			require.ErrorIs(t, r.Err, context.Canceled)
		}

		l.proxy.Delay(100 * time.Millisecond)
		short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		results, err = l.locker.TryAcquireEach(short, env.Keys(20), rlock.WithTTL(rlock.NoExpiry))
		require.NoError(t, err)
		for _, r := range results {
			require.ErrorIs(t, r.Err, rlock.ErrGaveUp)
			require.ErrorIs(t, r.Err, context.DeadlineExceeded)
		}
		l.proxy.Delay(0)
		l.free(t, env.Keys(20)...)
	})
}
