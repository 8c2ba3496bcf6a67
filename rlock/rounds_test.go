package rlock_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
)

// pipelines counts them.
type pipelines struct {
	rueidis.Client
	sent atomic.Int64
}

func (p *pipelines) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	p.sent.Add(1)
	return p.Client.DoMulti(ctx, commands...)
}

// However their extensions were spread at first, locks are soon extended in few rounds of
// few scripts.
func TestExtensionsGather(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, client rueidis.Client, redis *redis) {
		const (
			locks    = 4000
			ttl      = 30 * time.Second
			interval = ttl / 3
		)
		require.NoError(t, gen.New().Load(t.Context(), client))
		counted := &pipelines{Client: client}
		locker := open(t, counted, rlock.WithTTL(ttl), rlock.WithAutoExtend(true))
		for i := range locks {
			_, err := locker.Acquire(t.Context(), fmt.Sprint("job:", i))
			require.NoError(t, err)
			time.Sleep(interval / locks)
		}
		time.Sleep(3 * interval)
		rounds, scripts := counted.sent.Load(), redis.scripts.Load()
		time.Sleep(3 * interval)
		rounds, scripts = counted.sent.Load()-rounds, redis.scripts.Load()-scripts
		t.Logf("%d rounds and %d scripts in three intervals", rounds, scripts)
		require.LessOrEqual(t, scripts, int64(3.5*locks/100))
		require.LessOrEqual(t, rounds, scripts/3)
		require.Len(t, locker.Held(), locks)
	})
}
