package rlock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
)

// A lease is handed on as it is while nearly all of it is left, or half if it is
// extended anyway. Otherwise the next holder gets a new one.
func TestLeasesAreHandedOn(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	for name, test := range map[string]struct {
		opts  []rlock.LockerOption
		held  time.Duration // by the first holder
		calls int64
		least time.Duration // what the second one has left
	}{
		"fixed, at once":             {nil, 0, 0, ttl - ttl/100},
		"fixed, nearly all is left":  {nil, 95 * time.Millisecond, 0, ttl - ttl/50},
		"fixed, too much is missing": {nil, 105 * time.Millisecond, 1, ttl - ttl/100},
		"extended, half is left":     {[]rlock.LockerOption{rlock.WithAutoExtend(true)}, time.Second, 0, ttl / 2},
		"fixed, long, a moment ago": {[]rlock.LockerOption{rlock.WithTTL(time.Hour)}, 99 * time.Millisecond, 0,
			time.Hour - time.Minute},
		"fixed, long, a while ago": {[]rlock.LockerOption{rlock.WithTTL(time.Hour)}, 105 * time.Millisecond, 1,
			time.Hour - time.Minute},
		"never expires": {[]rlock.LockerOption{rlock.WithTTL(rlock.NoExpiry)}, 0, 1, 0},
		"own tokens":    {[]rlock.LockerOption{rlock.WithUniqueToken(true)}, 0, 1, ttl - ttl/100},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, client rueidis.Client, redis *redis) {
				require.NoError(t, gen.New().Load(t.Context(), client))
				locker := open(t, client, append([]rlock.LockerOption{
					rlock.WithTTL(ttl), rlock.WithFence(false), rlock.WithTurn(2 * time.Hour),
				}, test.opts...)...)
				first, err := locker.Acquire(t.Context(), "job")
				require.NoError(t, err)
				got := make(chan *rlock.Lock)
				go func() {
					second, err := locker.Acquire(t.Context(), "job")
					if err != nil {
						t.Error(err)
					}
					got <- second
				}()
				synctest.Wait() // until it stands in line
				time.Sleep(test.held)
				before := redis.scripts.Load()
				require.NoError(t, first.Release(t.Context()))
				second := <-got
				require.Equal(t, test.calls, redis.scripts.Load()-before)
				if deadline := second.Deadline(); !deadline.IsZero() {
					require.GreaterOrEqual(t, time.Until(deadline), test.least-ttl/500)
				}
				require.NoError(t, second.Release(t.Context()))
			})
		})
	}
}
