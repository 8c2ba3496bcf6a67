package rlock_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// A key that has to be freed does not wait for older ones, which are looked for at
// growing intervals.
func TestCleaningUpIsPrompt(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		f, locker, direct := newFaulty(t, e)
		lose := func(key string, arrives bool) {
			var releases atomic.Int32
			f.when(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if !acquires(words) {
					releases.Add(1)
					return run()
				}
				if arrives {
					run()
				}
				return noReply()
			})
			_, err := locker.TryAcquire(t.Context(), key, rlock.WithTTL(rlock.NoExpiry))
			require.Error(t, err)
			if !arrives { // after the fifth, 6.4 s pass before the next
				soon(t, func() bool { return releases.Load() == 5 }, "five tries")
			}
		}
		lose("old", false)
		lose("new", true)
		require.Eventually(t, func() bool { return get(t, direct, "new") == "" }, 4*time.Second, 5*time.Millisecond)
	})
}
