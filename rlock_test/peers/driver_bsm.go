package peers

import (
	"context"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/redis/go-redis/v9"
)

// bsm polls. The library's documentation recommends a linear backoff for a wait.
type bsm struct {
	client *redislock.Client
	lease  time.Duration
}

func openBsm(tb testing.TB, address string, lease time.Duration) locker {
	return &bsm{redislock.New(goRedisClient(tb, address)), lease}
}

func (b *bsm) acquire(ctx context.Context, key string) (holding, error) {
	lock, err := b.client.Obtain(ctx, key, b.lease,
		&redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)})
	if err != nil {
		return nil, err
	}
	return lock, nil
}

func (b *bsm) acquireAll(ctx context.Context, keys []string) (holding, error) {
	lock, err := b.client.ObtainMulti(ctx, keys, b.lease,
		&redislock.Options{RetryStrategy: redislock.LinearBackoff(10 * time.Millisecond)})
	if err != nil {
		return nil, err
	}
	return lock, nil
}

func (b *bsm) ask(ctx context.Context, _ string, own holding) (bool, error) {
	left, err := own.(*redislock.Lock).TTL(ctx)
	return left > 0, err
}

// goRedisClient has ten connections for each processor, which is the default of go-redis.
func goRedisClient(tb testing.TB, address string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: address})
	tb.Cleanup(func() { _ = client.Close() })
	return client
}
