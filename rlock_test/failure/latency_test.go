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

// openedThrough returns a locker with push whose traffic goes through the proxy.
func openedThrough(t *testing.T, proxy *env.Proxy, opts ...rlock.LockerOption) *rlock.Locker {
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

		for name, method := range map[string]func(ctx context.Context, key string,
			opts ...rlock.Option) (*rlock.Lock, error){
			"try": far.TryAcquire, "acquire": far.Acquire,
		} {
			lock, err := method(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, 1, lock.Attempts(), "a free lock is taken at the first try")
			require.NoError(t, lock.Extend(t.Context(), rlock.DefaultTTL))
			require.NoError(t, lock.Err())
			require.NoError(t, lock.Release(t.Context()))
		}
		require.NoError(t, far.Do(t.Context(), "do", func(ctx context.Context, lock *rlock.Lock) error {
			env.Soon(t, func() bool { return far.Stats().Extended > 0 }, "it is extended") // due after 3.3 s
			return ctx.Err()
		}))

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
		require.NoError(t, env.Receive(t, got))
	})
}

// A slow network is not a dead one, even while the client opens connections, each of
// which takes several round trips.
func TestAutoExtendOverASlowNetwork(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		l := newLink(t, e)
		l.proxy.Delay(250 * time.Millisecond)
		lock, err := l.locker.Acquire(t.Context(), "job", rlock.WithTTL(9*time.Second), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		time.Sleep(11 * time.Second)
		require.NoError(t, lock.Err())
	})
}
