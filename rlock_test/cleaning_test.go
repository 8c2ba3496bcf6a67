package rlock_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A key that has to be freed does not wait for older ones, which are looked for at
// growing intervals.
func TestCleaningUpIsPrompt(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		lose := func(key string, arrives bool) {
			var releases atomic.Int32
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if !env.IsAcquire(words) {
					releases.Add(1)
					return run()
				}
				if arrives {
					run()
				}
				return env.NoReply()
			})
			_, err := locker.TryAcquire(t.Context(), key, rlock.WithTTL(rlock.NoExpiry))
			require.Error(t, err)
			if !arrives { // after the fifth, 6.4 s pass before the next
				env.Soon(t, func() bool { return releases.Load() == 5 }, "five tries")
			}
		}
		lose("old", false)
		lose("new", true)
		require.Eventually(t, func() bool { return env.Get(t, direct, "new") == "" }, 4*time.Second, 5*time.Millisecond)
	})
}
