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

// OnEvery runs test on the embedded server of rlocktest and on each of Engines, in
// parallel, with a client of an empty server.
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

// NewLocker returns a Locker of rlock.New on the client. Nothing tells it of changed
// keys, unless the options have it told. The cleanup of t closes it.
func NewLocker(t testing.TB, client rueidis.Client, opts ...rlock.LockerOption) *rlock.Locker {
	t.Helper()
	locker, err := rlock.New(client, opts...)
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return locker
}

// OpenLocker returns a Locker of rlock.Open: on a client of its own, which tells it of
// changed keys where the option and the server allow that. The cleanup of t closes it.
func OpenLocker(t testing.TB, option rueidis.ClientOption, opts ...rlock.LockerOption) *rlock.Locker {
	t.Helper()
	locker, err := rlock.Open(option, opts...)
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return locker
}

// OpenOn is OpenLocker for a server that then knows the scripts, so that the calls a
// test makes can be counted: each is one EVALSHA.
func OpenOn(t testing.TB, server *Server, opts ...rlock.LockerOption) *rlock.Locker {
	t.Helper()
	locker := OpenLocker(t, server.Option(), opts...)
	require.NoError(t, gen.New().Load(t.Context(), server.Client(t)))
	return locker
}

// Do runs one command as a program that knows nothing of locks would.
func Do(t testing.TB, client rueidis.Client, words ...string) rueidis.RedisResult {
	t.Helper()
	return client.Do(t.Context(), client.B().Arbitrary(words...).Build())
}

// Get returns the value of a key, which for a lock is its token, or "" when there is no
// such key.
func Get(t testing.TB, client rueidis.Client, key string) string {
	t.Helper()
	value, err := Do(t, client, "GET", key).ToString()
	if !rueidis.IsRedisNil(err) {
		require.NoError(t, err)
	}
	return value
}

// TTL returns what PTTL says of a key: its remaining time, or -1ms when it has no end,
// or -2ms when there is no such key.
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

// TakeEach acquires a lock of each key by TryAcquireEach. None of them may be held.
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

// MustLock returns a function that returns the lock of a call which must succeed. It may
// be used in any goroutine of the test: an error makes the test fail, and does not end it.
func MustLock(t testing.TB) func(*rlock.Lock, error) *rlock.Lock {
	return func(lock *rlock.Lock, err error) *rlock.Lock {
		if err != nil {
			t.Error(err)
		}
		return lock
	}
}

// ErrorOf returns the error of a call, for calls whose result the test has no use for.
func ErrorOf(_ any, err error) error { return err }

// SameLocks checks that got has the locks of want, in any order. An assertion that fails prints what
// it compares: it would read locks that others change.
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
