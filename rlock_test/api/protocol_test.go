package api

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// The commands that other lock libraries send for the same kind of lock: a plain
// string key whose value is the owner's token.
const (
	compareAndDelete = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`
	compareAndExtend = `if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return 0`
	setAndExpire     = `local set = redis.call('SETNX', KEYS[1], ARGV[1]) if set == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end return set`
)

// foreign takes a lock as another library does, and reports whether it got it.
type foreign struct {
	name    string
	acquire func(t *testing.T, client rueidis.Client, key, token string) bool
}

func setted(t *testing.T, reply rueidis.RedisResult) bool {
	t.Helper()
	text, err := reply.ToString()
	if rueidis.IsRedisNil(err) {
		return false
	}
	require.NoError(t, err)
	return text == "OK"
}

func one(t *testing.T, reply rueidis.RedisResult) bool {
	t.Helper()
	n, err := reply.ToInt64()
	require.NoError(t, err)
	return n == 1
}

var foreigners = []foreign{
	{"SET PX NX, as npm redislock", func(t *testing.T, client rueidis.Client, key, token string) bool {
		return setted(t, env.Do(t, client, "SET", key, token, "PX", "10000", "NX"))
	}},
	{"SET NX PX, as redis-py", func(t *testing.T, client rueidis.Client, key, token string) bool {
		return setted(t, env.Do(t, client, "SET", key, token, "NX", "PX", "10000"))
	}},
	{"SETNX and PEXPIRE in a script, as npm redis-exp-lock",
		func(t *testing.T, client rueidis.Client, key, token string) bool {
			return one(t, env.Do(t, client, "EVAL", setAndExpire, "1", key, token, "10000"))
		}},
}

func TestForeignLocks(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		for _, other := range foreigners {
			t.Run(other.name, func(t *testing.T) {
				key := "job:" + other.name

				// A key held here is refused there, and cannot be freed or extended.
				lock, err := locker.Acquire(t.Context(), key)
				require.NoError(t, err)
				require.False(t, other.acquire(t, client, key, "theirs"))
				require.False(t, one(t, env.Do(t, client, "EVAL", compareAndDelete, "1", key, "theirs")))
				require.False(t, one(t, env.Do(t, client, "EVAL", compareAndExtend, "1", key, "theirs", "60000")))
				require.NoError(t, lock.Release(t.Context()))

				// A key held there is refused here, with its token and remaining time.
				require.True(t, other.acquire(t, client, key, "theirs"))
				_, err = locker.TryAcquire(t.Context(), key)
				require.ErrorIs(t, err, rlock.ErrHeld)
				var facts *rlock.AcquireError
				require.ErrorAs(t, err, &facts)
				require.InDelta(t, 10*time.Second, facts.Remaining, float64(5*time.Second))
				state, err := locker.Check(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, "theirs", state.Token())

				// Freed there, it is free here, and the other way round: with the
				// token, either side can do the other's part.
				require.True(t, one(t, env.Do(t, client, "EVAL", compareAndExtend, "1", key, "theirs", "60000")))
				require.True(t, one(t, env.Do(t, client, "EVAL", compareAndDelete, "1", key, "theirs")))
				lock, err = locker.TryAcquire(t.Context(), key)
				require.NoError(t, err)
				require.True(t, one(t, env.Do(t, client, "EVAL", compareAndDelete, "1", key, lock.Token())))
				require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
			})
		}
	})
}

// A foreign lock that never expires is held, not free.
func TestForeignLockWithoutALease(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		require.NoError(t, env.Do(t, client, "SET", "job", "theirs").Error())
		_, err := locker.TryAcquire(t.Context(), "job")
		require.ErrorIs(t, err, rlock.ErrHeld)
		var facts *rlock.AcquireError
		require.ErrorAs(t, err, &facts)
		require.Equal(t, rlock.NoExpiry, facts.Remaining)

		time.AfterFunc(50*time.Millisecond, func() { client.Do(t.Context(), client.B().Del().Key("job").Build()) })
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
	})
}
