package env

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// OnEvery runs test on the embedded server of rlocktest and on each of Engines, in parallel. Each run gets a
// client of an empty server.
func OnEvery(t *testing.T, test func(t *testing.T, client rueidis.Client)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, rlocktest.Client(t))
	})
	Each(t, func(t *testing.T, e Engine) {
		t.Parallel()
		test(t, e.Start(t).Client(t))
	})
}

// NewLocker returns a Locker of rlock.New on the client. The Locker learns of changed keys only if the
// options say so. The cleanup of t closes the Locker.
func NewLocker(t testing.TB, client rueidis.Client, opts ...rlock.LockerOption) *rlock.Locker {
	t.Helper()
	locker, err := rlock.New(client, opts...)
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return locker
}

// OpenLocker returns a Locker of rlock.Open, with its own client. The client tells the Locker of changed keys
// if the option and the server allow that. The cleanup of t closes the Locker.
func OpenLocker(t testing.TB, option rueidis.ClientOption, opts ...rlock.LockerOption) *rlock.Locker {
	t.Helper()
	locker, err := rlock.Open(option, opts...)
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return locker
}

// OpenOn is OpenLocker for a server that knows the scripts. Each call of a script is then one EVALSHA, so a
// test can count the calls.
func OpenOn(t testing.TB, server *Server, opts ...rlock.LockerOption) *rlock.Locker {
	t.Helper()
	locker := OpenLocker(t, server.Option(), opts...)
	require.NoError(t, gen.New().Load(t.Context(), server.Client(t)))
	return locker
}

// Do runs one command, like a program that knows nothing of locks.
func Do(t testing.TB, client rueidis.Client, words ...string) rueidis.RedisResult {
	t.Helper()
	return client.Do(t.Context(), client.B().Arbitrary(words...).Build())
}

// Get returns the value of a key, or "" if the key does not exist. The value of a lock is its token.
func Get(t testing.TB, client rueidis.Client, key string) string {
	t.Helper()
	value, err := Do(t, client, "GET", key).ToString()
	if !rueidis.IsRedisNil(err) {
		require.NoError(t, err)
	}
	return value
}

// TTL returns the reply of PTTL for a key: the remaining time, -1ms for a key without an end, or -2ms if the
// key does not exist.
func TTL(t testing.TB, client rueidis.Client, key string) time.Duration {
	t.Helper()
	n, err := Do(t, client, "PTTL", key).ToInt64()
	require.NoError(t, err)
	return time.Duration(n) * time.Millisecond
}

// Keys returns the names of n keys.
func Keys(n int) []string {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = fmt.Sprintf("job:%d", i)
	}
	return keys
}

// TakeEach acquires a lock of each key with TryAcquireEach. All keys must be free.
func TakeEach(t testing.TB, locker *rlock.Locker, keys []string, opts ...rlock.Option) []*rlock.Lock {
	t.Helper()
	results, err := locker.TryAcquireEach(t.Context(), keys, opts...)
	require.NoError(t, err)
	require.Len(t, results, len(keys))
	locks := make([]*rlock.Lock, len(keys))
	for i, r := range results {
		require.NoError(t, r.Err)
		require.Equal(t, keys[i], r.Lock.Key())
		locks[i] = r.Lock
	}
	return locks
}

// MustLock returns a function that checks a call and returns its lock. Any goroutine of the test may use the
// function. On an error the test fails, but goes on.
func MustLock(t testing.TB) func(*rlock.Lock, error) *rlock.Lock {
	return func(lock *rlock.Lock, err error) *rlock.Lock {
		if err != nil {
			t.Error(err)
		}
		return lock
	}
}

// ErrorOf returns the error of a call whose result the test does not use.
func ErrorOf(_ any, err error) error { return err }

// SameLocks checks that got has the locks of want, in any order. It compares the keys and the addresses of
// the locks. An assertion on the locks would print them on a failure, and so read them while other goroutines
// change them.
func SameLocks(t testing.TB, want, got []*rlock.Lock, about ...any) {
	t.Helper()
	names := func(locks []*rlock.Lock) []string {
		list := make([]string, len(locks))
		for i, lock := range locks {
			list[i] = fmt.Sprintf("%s at %p", lock.Key(), lock)
		}
		return list
	}
	require.ElementsMatch(t, names(want), names(got), about...)
}
