package waiting

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Among many keys that expire the server finds one that has, and tells of it, only
// after a long time: half a minute with these. Waiters know when to look themselves.
func TestExpiryAmongThousandsOfKeys(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		server.Do(t, "EVAL", "for i = 1, 10000 do redis.call('SET', 'session:' .. i, '', 'PX', 3600000) end", "0")
		const (
			ttl   = 3 * time.Second
			slack = 8 * time.Second // of a busy machine
		)
		type grant struct {
			lock *rlock.Lock
			err  error
			at   time.Time
		}
		for name, test := range map[string]struct {
			locker  *rlock.Locker
			acquire func(locker *rlock.Locker, key string) (*rlock.Lock, error)
		}{
			"pushed": {env.OpenOn(t, server), func(locker *rlock.Locker, key string) (*rlock.Lock, error) {
				return locker.Acquire(t.Context(), key)
			}},
			"polled": {env.NewLocker(t, server.Client(t)),
				func(locker *rlock.Locker, key string) (*rlock.Lock, error) {
					return locker.Acquire(t.Context(), key)
				}},
			"a set": {env.OpenOn(t, server), func(locker *rlock.Locker, key string) (*rlock.Lock, error) {
				return locker.AcquireAll(t.Context(), []string{key + ":free", key})
			}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				dying := env.OpenOn(t, server)
				lock, err := dying.Acquire(context.WithoutCancel(t.Context()), name, rlock.WithTTL(ttl))
				require.NoError(t, err)
				granted, until := time.Now(), lock.Deadline()
				got := make(chan grant, 1)
				go func() {
					next, err := test.acquire(test.locker, name)
					got <- grant{next, err, time.Now()}
				}()
				env.Soon(t, func() bool { return test.locker.Stats().Waiting == 1 }, "it waits")
				dying.Close() // which releases nothing
				next := env.Receive(t, got)
				require.NoError(t, next.err)
				require.Greater(t, next.at, until)
				require.Less(t, next.at, granted.Add(ttl+slack))
				require.Greater(t, next.lock.Fence(), lock.Fence())
			})
		}
	})
}
