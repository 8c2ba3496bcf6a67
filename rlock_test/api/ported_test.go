package api

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// ported is what a row of the table works with: a client, a Locker, and a Locker of another process, which
// holds the key "taken".
type ported struct {
	client        rueidis.Client
	locker, other *rlock.Locker
	taken         *rlock.Lock
}

// Whatever four lock libraries of other languages say that they do, rlock does too; package backends has a
// fifth. Each row has a sentence of their documents, in short, and shows how the same is said here. What is
// left out on purpose: callbacks and promises, for which Go has return values.
func TestFourLibraries(t *testing.T) {
	t.Parallel()
	few := rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxAttempts(3))
	failed := func(t *testing.T, err error) *rlock.AcquireError {
		t.Helper()
		var of *rlock.AcquireError
		require.ErrorAs(t, err, &of)
		return of
	}
	nothing := func(context.Context, *rlock.Lock) error { return nil }
	rows := []struct {
		library, says string
		show          func(ctx context.Context, t *testing.T, p ported)
	}{
		{
			"redislock (npm)", "timeout: time before which a lock expires (default: 10000 ms)",
			func(ctx context.Context, t *testing.T, p ported) {
				require.Equal(t, 10*time.Second, rlock.DefaultTTL)
				env.MustLock(t)(p.locker.Acquire(ctx, "default"))
				env.MustLock(t)(p.locker.Acquire(ctx, "20000", rlock.WithTTL(20*time.Second)))
				require.InDelta(t, 10, env.TTL(t, p.client, "default").Seconds(), 5)
				require.InDelta(t, 20, env.TTL(t, p.client, "20000").Seconds(), 5)
			},
		},
		{
			"redislock (npm)", "retries: maximum number of retries in acquiring a lock (default: 0)",
			func(ctx context.Context, t *testing.T, p ported) {
				require.Equal(t, 1, failed(t, env.ErrorOf(p.locker.TryAcquire(ctx, "taken"))).Attempts)
				require.Positive(t, failed(t, env.ErrorOf(p.locker.Acquire(ctx, "taken", few))).Attempts)
			},
		},
		{
			"redislock (npm)", "delay: time to wait between each attempt",
			func(ctx context.Context, t *testing.T, p ported) {
				start := time.Now()
				policy := rlock.Fixed(20 * time.Millisecond).MaxAttempts(4)
				_, err := p.locker.Acquire(ctx, "taken", rlock.WithRetry(policy))
				require.ErrorIs(t, err, rlock.ErrGaveUp)
				require.GreaterOrEqual(t, time.Since(start), 60*time.Millisecond)
			},
		},
		{
			"redislock (npm)", "setDefaults: the default options to be used by any new lock",
			func(ctx context.Context, t *testing.T, p ported) {
				locker := env.NewLocker(t, p.client, rlock.WithTTL(time.Hour), few)
				env.MustLock(t)(locker.Acquire(ctx, "an hour"))
				require.Greater(t, env.TTL(t, p.client, "an hour"), 50*time.Minute)
				require.ErrorIs(t, env.ErrorOf(locker.Acquire(ctx, "taken")), rlock.ErrGaveUp)
			},
		},
		{
			"redislock (npm)", "getAcquiredLocks: returns an array of currently active locks",
			func(ctx context.Context, t *testing.T, p ported) {
				locks := env.TakeEach(t, p.locker, []string{"1", "2"})
				env.SameLocks(t, locks, p.locker.Locks())
			},
		},
		{
			"redislock (npm)", "LockAcquisitionError, LockReleaseError, LockExtendError",
			func(ctx context.Context, t *testing.T, p ported) {
				require.ErrorIs(t, failed(t, env.ErrorOf(p.locker.TryAcquire(ctx, "taken"))), rlock.ErrHeld)
				require.NoError(t, env.Do(t, p.client, "DEL", "taken").Error())
				for op, err := range map[string]error{
					"extend":  p.taken.Extend(ctx, time.Minute),
					"release": p.taken.Release(ctx),
				} {
					var of *rlock.LockError
					require.ErrorAs(t, err, &of)
					require.Equal(t, op, of.Op)
					require.ErrorIs(t, err, rlock.ErrLost)
				}
			},
		},
		{
			"redislock (npm)", "each instance is assigned a UUID as an id",
			func(ctx context.Context, t *testing.T, p ported) {
				require.Regexp(t, `^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`, p.taken.Token())
				require.Equal(t, p.taken.Token(), env.Get(t, p.client, "taken"))
			},
		},
		{
			"redislock (npm)", "check: attempts will be made until the lock is not held",
			func(ctx context.Context, t *testing.T, p ported) {
				require.ErrorIs(t, p.locker.WaitFree(ctx, "taken", few), rlock.ErrGaveUp)
				require.NoError(t, p.taken.Release(ctx))
				require.NoError(t, p.locker.WaitFree(ctx, "taken", few))
			},
		},

		{
			"redis_exp_lock (gem)", "expiry: nil if you want a non-expiring lock",
			func(ctx context.Context, t *testing.T, p ported) {
				lock := env.MustLock(t)(p.locker.Acquire(ctx, "for ever", rlock.WithTTL(rlock.NoExpiry)))
				require.True(t, lock.Deadline().IsZero())
				left, err := env.Do(t, p.client, "PTTL", "for ever").ToInt64()
				require.NoError(t, err)
				require.EqualValues(t, -1, left)
			},
		},
		{
			"redis_exp_lock (gem)", "locked?: without calling into Redis, whether the lock is locked",
			func(ctx context.Context, t *testing.T, p ported) {
				require.NoError(t, p.taken.Err())
				require.NoError(t, p.taken.Err())
				require.NoError(t, p.taken.Release(ctx))
				require.ErrorIs(t, p.taken.Err(), rlock.ErrReleased)
			},
		},
		{
			"redis_exp_lock (gem)", "key_locked?: whether the key has been locked by any client",
			func(ctx context.Context, t *testing.T, p ported) {
				for key, held := range map[string]bool{"taken": true, "free": false} {
					state := env.HolderOf(t, p.locker, key)
					require.Equal(t, held, state.Token() != "")
				}
			},
		},
		{
			"redis_exp_lock (gem)", "key_owned?: calls remotely, whether the client currently owns the lock",
			func(ctx context.Context, t *testing.T, p ported) {
				require.NoError(t, p.taken.Verify(ctx))
				require.NoError(t, env.Do(t, p.client, "SET", "taken", "stranger").Error())
				require.ErrorIs(t, p.taken.Verify(ctx), rlock.ErrLost)
			},
		},
		{
			"redis_exp_lock (gem)", "try_lock: attempts to obtain the lock and returns immediately",
			func(ctx context.Context, t *testing.T, p ported) {
				require.ErrorIs(t, env.ErrorOf(p.locker.TryAcquire(ctx, "taken")), rlock.ErrHeld)
				env.MustLock(t)(p.locker.TryAcquire(ctx, "free"))
			},
		},
		{
			"redis_exp_lock (gem)", "lock: returns the number of attempts required to acquire the lock",
			func(ctx context.Context, t *testing.T, p ported) {
				require.Equal(t, 1, env.MustLock(t)(p.locker.Acquire(ctx, "free")).Attempts())
			},
		},
		{
			"redis_exp_lock (gem)", "synchronize: obtains a lock, runs the block, releases; yields attempts",
			func(ctx context.Context, t *testing.T, p ported) {
				require.NoError(t, p.locker.Do(ctx, "job", func(_ context.Context, lock *rlock.Lock) error {
					require.Equal(t, 1, lock.Attempts())
					require.NotEmpty(t, env.Get(t, p.client, "job"))
					return nil
				}))
				require.Empty(t, env.Get(t, p.client, "job"))
			},
		},
		{
			"redis_exp_lock (gem)", "AlreadyAcquiredLockError: the lock was called before without an unlock",
			func(ctx context.Context, t *testing.T, p ported) {
				require.NoError(t, p.locker.Do(ctx, "job", func(ctx context.Context, _ *rlock.Lock) error {
					require.ErrorIs(t, env.ErrorOf(p.locker.Acquire(ctx, "job")), rlock.ErrAlreadyHeld)
					return nil
				}))
			},
		},
		{
			"redis_exp_lock (gem)", "TooManyLockAttemptsError: the max number of retries is exceeded",
			func(ctx context.Context, t *testing.T, p ported) {
				require.ErrorIs(t, p.locker.Do(ctx, "taken", nothing, few), rlock.ErrGaveUp)
			},
		},
		{
			"redis_exp_lock (gem)", "unlock: false if never acquired, or expired before the unlock",
			func(ctx context.Context, t *testing.T, p ported) {
				require.NoError(t, p.taken.Release(ctx))
				require.ErrorIs(t, p.taken.Release(ctx), rlock.ErrReleased)
				env.Expire(t, env.MustLock(t)(p.locker.Acquire(ctx, "short")))
			},
		},

		{
			"yarnl", "maxAttempts: defaults to null, which will keep trying forever",
			func(ctx context.Context, t *testing.T, p ported) {
				got := make(chan error, 1)
				go func() { got <- env.ErrorOf(p.locker.Acquire(ctx, "taken")) }()
				env.AwaitWaiting(t, p.locker, 1)
				require.NoError(t, p.taken.Release(ctx))
				require.NoError(t, env.Receive(t, got))
			},
		},
		{
			"yarnl", "retryDelay can also be a function",
			func(ctx context.Context, t *testing.T, p ported) {
				_, err := p.locker.Acquire(ctx, "taken", rlock.WithRetry(
					rlock.Exponential(time.Millisecond, 4*time.Millisecond).MaxAttempts(4)))
				require.ErrorIs(t, err, rlock.ErrGaveUp)
			},
		},
		{
			"yarnl", "value: value to save as the contents of the lock's key",
			func(ctx context.Context, t *testing.T, p ported) {
				lock := env.MustLock(t)(p.locker.Acquire(ctx, "mine", rlock.WithToken("my own")))
				require.Equal(t, "my own", lock.Token())
				require.Equal(t, "my own", env.Get(t, p.client, "mine"))
			},
		},
		{
			"yarnl", "unlock outside the scope of the lock function",
			func(ctx context.Context, t *testing.T, p ported) {
				handoff := env.Detach(t, p.taken)
				lock := env.MustLock(t)(p.locker.Attach(ctx, handoff))
				require.NoError(t, lock.Release(ctx))
				require.Empty(t, env.Get(t, p.client, "taken"))
			},
		},

		{
			"redis-exp-lock (npm)", "settings: overrides to the original lock configuration",
			func(ctx context.Context, t *testing.T, p ported) {
				locker := env.NewLocker(t, p.client, rlock.WithTTL(time.Hour))
				env.MustLock(t)(locker.Acquire(ctx, "a minute", rlock.WithTTL(time.Minute)))
				require.LessOrEqual(t, env.TTL(t, p.client, "a minute"), time.Minute)
			},
		},
		{
			"redis-exp-lock (npm)", "a callback that will be invoked when the release has been confirmed",
			func(ctx context.Context, t *testing.T, p ported) {
				require.NoError(t, p.taken.Release(ctx), "nil: the server has confirmed it")
				require.Empty(t, env.Get(t, p.client, "taken"))
			},
		},
		{
			"redis-exp-lock (npm)", "a Lua script provides the atomic sequence",
			func(ctx context.Context, t *testing.T, p ported) {
				require.ErrorIs(t, env.Admin(p.locker).ForceRelease(ctx, "taken", "another's"), rlock.ErrLost)
				require.NoError(t, p.taken.Verify(ctx))
			},
		},
	}
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		for _, row := range rows {
			t.Run(row.library+": "+row.says, func(t *testing.T) {
				require.NoError(t, env.Do(t, client, "FLUSHALL").Error())
				p := ported{client: client, locker: env.NewLocker(t, client), other: env.NewLocker(t, client)}
				took := env.MustLock(t)
				p.taken = took(p.other.Acquire(t.Context(), "taken", rlock.WithTTL(10*time.Minute)))
				row.show(t.Context(), t, p)
			})
		}
	})
}
