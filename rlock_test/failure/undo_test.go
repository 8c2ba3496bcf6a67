package failure

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A lock that was taken before the server refused its fence is given back, whatever
// else the user may not do.
func TestNoFenceLeavesNoLock(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for _, refused := range [][]string{{"-incr"}, {"-time"}, {"-incr", "-del"}, {"-time", "-del"}} {
			server := e.Start(t)
			rules := append([]string{"ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all"}, refused...)
			server.Do(t, rules...)
			locker := env.NewLocker(t, server.Client(t, func(o *rueidis.ClientOption) {
				o.Username, o.Password = "app", "secret"
			}), rlock.WithTTL(rlock.NoExpiry))
			_, err := locker.TryAcquire(t.Context(), "job")
			require.Error(t, err, refused)
			require.Regexp(t, env.NoPermission, err.Error())
			admin := env.NewLocker(t, server.Client(t))
			lock, err := admin.Acquire(t.Context(), "job",
				rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxTime(10*time.Second)))
			require.NoError(t, err, "%v: the lock was left behind", refused)
			require.NoError(t, lock.Release(t.Context()))

			_, err = locker.TryAcquireAll(t.Context(), []string{"a", "b"})
			require.Error(t, err, refused)
			set, err := admin.TryAcquireAll(t.Context(), []string{"a", "b"})
			require.NoError(t, err, "%v: the set was left behind", refused)
			require.NoError(t, set.Release(t.Context()))
		}
	})
}
