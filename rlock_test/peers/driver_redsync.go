package peers

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	redsyncrueidis "github.com/go-redsync/redsync/v4/redis/rueidis"
	"github.com/redis/rueidis/rueidiscompat"
)

// redSync polls every 50 to 250 ms. By default it gives up after 32 tries.
type redSync struct {
	sync  *redsync.Redsync
	lease time.Duration
}

func openRedsyncGoRedis(tb testing.TB, address string, lease time.Duration) locker {
	return &redSync{redsync.New(goredis.NewPool(goRedisClient(tb, address))), lease}
}

func openRedsyncRueidis(tb testing.TB, address string, lease time.Duration) locker {
	return &redSync{redsync.New(redsyncrueidis.NewPool(rueidiscompat.NewAdapter(rueidisClient(tb, address)))),
		lease}
}

// redsyncLock frees a mutex.
type redsyncLock struct{ *redsync.Mutex }

func (l redsyncLock) Release(ctx context.Context) error {
	_, err := l.UnlockContext(ctx)
	return err
}

func (r *redSync) acquire(ctx context.Context, key string) (holding, error) {
	mutex := r.sync.NewMutex(key, redsync.WithExpiry(r.lease), redsync.WithTries(math.MaxInt32))
	if err := mutex.LockContext(ctx); err != nil {
		return nil, err
	}
	return redsyncLock{mutex}, nil
}
