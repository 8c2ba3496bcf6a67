package failure

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestWrongType(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.Start(t).Client(t)
		locker := env.NewLocker(t, client)
		require.NoError(t, env.Do(t, client, "LPUSH", "list", "1").Error())
		env.Surfaces(t, "WRONGTYPE", func(ctx context.Context) error {
			_, err := locker.Acquire(ctx, "list")
			return err
		})
		env.Surfaces(t, "WRONGTYPE", func(ctx context.Context) error {
			_, err := locker.AcquireAll(ctx, []string{"a", "b", "list"})
			return err
		})
		keys, err := env.Do(t, client, "KEYS", "*").AsStrSlice()
		require.NoError(t, err)
		require.Equal(t, []string{"list"}, keys, "a failing set changes nothing")
		env.Surfaces(t, "WRONGTYPE", func(ctx context.Context) error {
			_, err := locker.Check(ctx, "list")
			return err
		})

		other := counterOf(t, client, locker, "a")
		require.NoError(t, env.Do(t, client, "DEL", other).Error())
		require.NoError(t, env.Do(t, client, "LPUSH", other, "1").Error())
		env.Surfaces(t, "WRONGTYPE", func(ctx context.Context) error {
			_, err := locker.Acquire(ctx, "a")
			return err
		})
		require.Empty(t, env.Get(t, client, "a"), "what has no fence is not taken")
		require.NoError(t, env.Do(t, client, "DEL", other).Error())

		set, err := locker.AcquireAll(t.Context(), []string{"a", "b"})
		require.NoError(t, err)
		require.NoError(t, env.Do(t, client, "DEL", "b").Error())
		require.NoError(t, env.Do(t, client, "LPUSH", "b", "1").Error())
		env.Surfaces(t, "WRONGTYPE", func(ctx context.Context) error { return set.Extend(ctx, time.Minute) })
		env.Surfaces(t, "WRONGTYPE", func(ctx context.Context) error { return set.Release(ctx) })
		require.Empty(t, env.Get(t, client, "a"), "a key that cannot be freed keeps no other")
		require.NoError(t, env.Do(t, client, "DEL", "b").Error())
		require.ErrorIs(t, set.Release(t.Context()), rlock.ErrLost)
	})
}

func TestNoPermission(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		server.Do(t, "ACL", "SETUSER", "limited", "on", ">secret", "~*", "+@all", "-evalsha", "-eval", "-eval_ro")
		locker := env.NewLocker(t, server.Client(t, func(o *rueidis.ClientOption) {
			o.Username, o.Password = "limited", "secret"
		}))
		for _, fenced := range []bool{true, false} {
			env.Surfaces(t, "NOPERM", func(ctx context.Context) error {
				_, err := locker.Acquire(ctx, "job", rlock.WithFence(fenced))
				return err
			})
			require.Empty(t, env.Get(t, server.Client(t), "job"), "nothing is taken that could not be released")
		}
		env.Surfaces(t, "NOPERM", func(ctx context.Context) error {
			_, err := env.Admin(locker).Inspect(ctx, "job")
			return err
		})
	})
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker := env.NewLocker(t, server.Client(t))
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		server.Do(t, "REPLICAOF", "127.0.0.1", "1")
		env.Surfaces(t, "READONLY", func(ctx context.Context) error {
			_, err := locker.Acquire(ctx, "other")
			return err
		})
		_, err = env.NewLocker(t, server.Client(t)).TryAcquire(t.Context(), "job")
		require.ErrorIs(t, err, rlock.ErrHeld, "what is held is held, whatever the server takes")
		env.Surfaces(t, "READONLY", func(ctx context.Context) error { return lock.Extend(ctx, time.Minute) })
		require.NoError(t, lock.Err(), "an error is not a loss")
		server.Do(t, "REPLICAOF", "NO", "ONE")
		require.NoError(t, lock.Release(t.Context()))
	})
}

// Out of memory, a lock cannot be taken; one that is held can be extended,
// checked and released.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker := env.NewLocker(t, server.Client(t))
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		server.Do(t, "CONFIG", "SET", "maxmemory", "1")
		tries := locker.Stats().Attempts
		env.Surfaces(t, "OOM", func(ctx context.Context) error {
			_, err := locker.Acquire(ctx, "other")
			return err
		})
		env.Surfaces(t, "OOM", func(ctx context.Context) error {
			_, err := locker.AcquireAll(ctx, []string{"a", "b"})
			return err
		})
		require.Equal(t, tries+2, locker.Stats().Attempts, "an error is no reason to try again")
		_, err = env.NewLocker(t, server.Client(t)).TryAcquire(t.Context(), "job")
		require.ErrorIs(t, err, rlock.ErrHeld, "what is held is held, whatever the server takes")
		require.NoError(t, lock.Extend(t.Context(), time.Minute))
		require.NoError(t, lock.Verify(t.Context()))
		require.NoError(t, lock.Release(t.Context()))
		server.Do(t, "CONFIG", "SET", "maxmemory", "0")
		reply := server.Do(t, "KEYS", "*")
		keys, err := reply.AsStrSlice()
		require.NoError(t, err)
		for _, key := range keys {
			require.Contains(t, key, "rlock:fence:", "no lock is left")
		}
	})
}

func TestLoading(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		client := server.Client(t)
		locker := env.NewLocker(t, client)
		require.NoError(t, env.Do(t, client, "SET", "ballast", "1").Error())
		held, err := locker.Acquire(t.Context(), "held", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		server.Do(t, "CONFIG", "SET", "loading-process-events-interval-bytes", "1024")
		server.Do(t, "DEBUG", "POPULATE", "3000", "filler", "100")
		server.Do(t, "CONFIG", "SET", "key-load-delay", "10000") // µs a key: half a minute
		reloaded := make(chan error, 1)
		other := server.Client(t)
		go func() {
			reloaded <- other.Do(context.WithoutCancel(t.Context()),
				other.B().Arbitrary("DEBUG", "RELOAD").Build()).Error()
		}()
		env.Soon(t, func() bool {
			err := env.Do(t, client, "SET", "ballast", "1").Error()
			return err != nil
		}, "the server loads")
		env.Surfaces(t, "LOADING", func(ctx context.Context) error {
			_, err := locker.TryAcquire(ctx, "job")
			return err
		})
		env.Surfaces(t, "LOADING", func(ctx context.Context) error { return held.Extend(ctx, time.Minute) })
		before, waited := locker.Stats().Attempts, make(chan error, 1)
		go func() { waited <- env.ErrorOf(locker.Acquire(t.Context(), "job")) }()
		env.Soon(t, func() bool { return locker.Stats().Attempts >= before+2 },
			"whoever waits anyway also waits for that")
		server.Do(t, "CONFIG", "SET", "key-load-delay", "0")
		require.NoError(t, env.Receive(t, waited))
		require.NoError(t, env.Receive(t, reloaded))
	})
}

// counterOf returns the name of a lock's fence counter, the only one there is.
func counterOf(t *testing.T, client rueidis.Client, locker *rlock.Locker, key string) string {
	t.Helper()
	lock, err := locker.Acquire(t.Context(), key)
	require.NoError(t, err)
	require.NoError(t, lock.Release(t.Context()))
	counters, err := env.Do(t, client, "KEYS", "rlock:fence:*").AsStrSlice()
	require.NoError(t, err)
	require.Len(t, counters, 1)
	return counters[0]
}
