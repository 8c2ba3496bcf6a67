package rlock_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// onEvery runs a test on the embedded server and on every real one.
func onEvery(t *testing.T, test func(t *testing.T, client rueidis.Client)) {
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		test(t, rlocktest.Client(t))
	})
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		t.Parallel()
		test(t, e.Start(t).Client(t))
	})
}

func newLocker(t testing.TB, client rueidis.Client, opts ...rlock.Option) *rlock.Locker {
	t.Helper()
	locker, err := rlock.New(client, opts...)
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return locker
}

// do runs one command as any other program would.
func do(t testing.TB, client rueidis.Client, words ...string) rueidis.RedisResult {
	t.Helper()
	return client.Do(t.Context(), client.B().Arbitrary(words...).Build())
}

// get returns a key's value, or "" when there is none.
func get(t testing.TB, client rueidis.Client, key string) string {
	t.Helper()
	value, err := do(t, client, "GET", key).ToString()
	if !rueidis.IsRedisNil(err) {
		require.NoError(t, err)
	}
	return value
}

// together runs n copies of f at once and returns their errors.
func together(n int, f func(i int) error) error {
	failed := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { failed[i] = f(i) })
	}
	group.Wait()
	return errors.Join(failed...)
}

// soon waits for something that is about to happen. The bound only has to be
// longer than a busy machine can take.
func soon(t testing.TB, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, 10*time.Second, 2*time.Millisecond, what)
}
