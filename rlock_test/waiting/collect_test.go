package waiting

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A set gives back the key for which it has waited, because another is in its way, and gets no answer. Trying
// that again must not free what the set has acquired since.
func TestLostReplyWhileCollecting(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		other := env.NewLocker(t, direct)
		b := env.MustLock(t)(other.Acquire(t.Context(), "b"))
		require.NoError(t, env.Do(t, direct, "SET", "a", "other").Error())
		var lost atomic.Bool
		f.When(env.Once(gen.ReleaseManySHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
			run()
			lost.Store(true)
			return env.NoReply()
		}))
		acquired := make(chan *rlock.Lock, 1)
		go func() {
			defer close(acquired)
			set, err := locker.AcquireAll(t.Context(), []string{"b", "a"})
			if err != nil {
				t.Error(err)
				return
			}
			acquired <- set
		}()
		env.AwaitWaiting(t, locker, 1)
		require.NoError(t, b.Release(t.Context()))
		env.Soon(t, lost.Load, "the key for which it has waited is freed")
		require.NoError(t, env.Do(t, direct, "DEL", "a").Error())
		set := env.Receive(t, acquired)
		require.NotNil(t, set)
		time.Sleep(time.Second) // the second and later tries
		for _, key := range set.Keys() {
			require.Equal(t, set.Token(), env.Get(t, direct, key))
		}
		require.NoError(t, set.Release(t.Context()))
	})
}
