package failure

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// While a machine is suspended, its monotonic clock may stand still: the server's time goes on, and not that
// of the holder, who counts its lease as lasting when it goes on. Asking tells it, and the fence is smaller
// than the next holder's.
func TestMachineIsSuspended(t *testing.T) {
	t.Parallel()
	ctx, server := t.Context(), rlocktest.Start(t)
	suspended := env.OpenLocker(t, server.Option())
	lock, err := suspended.Acquire(ctx, "job")
	require.NoError(t, err)
	server.Redis().FastForward(time.Minute)
	next, err := env.OpenLocker(t, server.Option()).TryAcquire(ctx, "job")
	require.NoError(t, err)
	require.Greater(t, next.Fence(), lock.Fence())
	require.NoError(t, lock.Err(), "nothing has told it")
	err = lock.Verify(ctx)
	require.ErrorIs(t, err, rlock.ErrLost)
	require.Error(t, lock.Err())
}

// A client whose clock is wrong does no harm, as no point in time is ever sent: no
// word of any command is a number that could be one, in seconds or parts of them.
func TestNoClockIsSent(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, _ := env.NewFaulty(t, e, rlock.WithTTL(6*time.Second), rlock.WithOwner("me"))
		var (
			mu   sync.Mutex
			sent [][]string
		)
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			mu.Lock()
			sent = append(sent, words)
			mu.Unlock()
			return run()
		})
		ctx := t.Context()
		require.NoError(t, locker.Do(ctx, "job", func(ctx context.Context, lock *rlock.Lock) error {
			env.Soon(t, func() bool { return locker.Stats().Extended > 0 }, "it is extended")
			err := lock.Verify(ctx)
			return err
		}))
		require.NoError(t, locker.DoAll(ctx, []string{"a", "b"}, func(ctx context.Context, lock *rlock.Lock) error {
			return lock.Extend(ctx, time.Hour)
		}))
		env.PassOn(t, locker, "line", 10)
		results, err := locker.TryAcquireEach(ctx, []string{"x", "y"})
		require.NoError(t, err)
		for _, err := range locker.ReleaseEach(ctx, []*rlock.Lock{results[0].Lock, results[1].Lock}) {
			require.NoError(t, err)
		}

		mu.Lock()
		defer mu.Unlock()
		require.Greater(t, len(sent), 10)
		decade := 10 * 365 * 24 * time.Hour
		for _, words := range sent {
			for _, word := range words {
				n, err := strconv.ParseInt(word, 10, 64)
				if err != nil {
					continue
				}
				for _, unit := range []time.Duration{time.Second, time.Millisecond, time.Microsecond} {
					now := time.Now().UnixNano() / int64(unit)
					require.Greater(t, max(n-now, now-n), int64(decade/unit), "%q in %q", word, words)
				}
			}
		}
	})
}
