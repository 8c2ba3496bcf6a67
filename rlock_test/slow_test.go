package rlock_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// openedThrough returns a locker with push whose traffic goes through the proxy.
func openedThrough(t *testing.T, proxy *env.Proxy, opts ...rlock.Option) *rlock.Locker {
	t.Helper()
	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{proxy.Addr()}}, opts...)
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return locker
}

// A quarter of a second away from the server, everything works, with the defaults.
func TestFarAway(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		proxy := env.NewProxy(t, server.Addr())
		far, near := openedThrough(t, proxy), env.OpenOn(t, server)
		const trip = 250 * time.Millisecond
		proxy.Delay(trip / 2)

		for name, method := range map[string]func(ctx context.Context, key string, opts ...rlock.Option) (*rlock.Lock, error){
			"try": far.TryAcquire, "acquire": far.Acquire,
		} {
			lock, err := method(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, 1, lock.Attempts(), "a free lock is taken at the first try")
			require.NoError(t, lock.Extend(t.Context(), rlock.DefaultTTL))
			require.True(t, lock.Valid())
			require.NoError(t, lock.Release(t.Context()))
		}
		require.NoError(t, far.Do(t.Context(), "do", func(ctx context.Context, lock *rlock.Lock) error {
			time.Sleep(5 * time.Second) // the first extension is due after 3.3 s
			return ctx.Err()
		}))
		require.Positive(t, far.Stats().Extended)

		held, err := near.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
		require.NoError(t, err)
		got := make(chan error, 1)
		go func() {
			lock, err := far.Acquire(t.Context(), "job")
			if err == nil {
				err = lock.Release(t.Context())
			}
			got <- err
		}()
		env.Soon(t, func() bool { return far.Stats().Waiting == 1 }, "it waits")
		time.Sleep(2 * trip)
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, <-got)
	})
}

// Wherever in a contended acquisition the context ends (in the line, at a try, at a
// read of the cache, while the lock is being granted), nothing is left.
func TestContextEndsAnywhere(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		direct := server.Client(t)
		proxy := env.NewProxy(t, server.Addr())
		locker, rival := openedThrough(t, proxy), env.OpenOn(t, server)
		require.NoError(t, gen.New().Load(t.Context(), direct))
		proxy.Delay(4 * time.Millisecond)
		acquired := 0
		// Contexts last longer and longer, until the lock has been granted to some: on a busy
		// machine that may need more than 50 ms.
		for wait := 0; wait < 50 || acquired == 0; wait++ {
			key := fmt.Sprint("job", wait)
			held, err := rival.Acquire(t.Context(), key, rlock.WithTTL(rlock.NoExpiry))
			require.NoError(t, err)
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(wait)*time.Millisecond)
			time.AfterFunc(15*time.Millisecond, func() {
				if err := held.Release(context.Background()); err != nil {
					t.Error(err)
				}
			})
			require.NoError(t, env.Together(3, func(int) error {
				lock, err := locker.Acquire(ctx, key, rlock.WithTTL(rlock.NoExpiry))
				if err == nil {
					acquired++ // one at a time: it has the lock
					return lock.Release(ctx)
				}
				return nil
			}))
			cancel()
			env.Soon(t, func() bool { return env.Get(t, direct, key) == "" }, "no key is left")
		}
		require.Positive(t, locker.Stats().AcquireFailed)
		// Late commands have arrived by now, and what they took is freed again.
		env.Soon(t, func() bool {
			keys, err := env.Do(t, direct, "KEYS", "job*").AsStrSlice()
			require.NoError(t, err)
			return len(keys) == 0
		}, "no key is left")
		lock, err := locker.Acquire(t.Context(), "job0")
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
	})
}
