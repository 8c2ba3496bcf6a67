package peers

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

// rueidisLock extends every lock automatically, and builds its own client.
type rueidisLock struct{ locker rueidislock.Locker }

func openRueidislock(noLoop bool) func(tb testing.TB, address string, lease time.Duration) locker {
	return func(tb testing.TB, address string, lease time.Duration) locker {
		l, err := rueidislock.NewLocker(rueidislock.LockerOption{
			ClientOption:   rueidis.ClientOption{InitAddress: []string{address}},
			KeyMajority:    1,
			KeyValidity:    lease,
			NoLoopTracking: noLoop,
		})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { closeSoon(l.Close) })
		return &rueidisLock{l}
	}
}

func (r *rueidisLock) acquire(ctx context.Context, key string) (holding, error) {
	_, cancel, err := r.locker.WithContext(ctx, key)
	if err != nil {
		return nil, err
	}
	return rueidisHolding(cancel), nil
}

// rueidisHolding is a lock that ends with its context.
type rueidisHolding context.CancelFunc

func (h rueidisHolding) Release(context.Context) error {
	h()
	return nil
}

// closeSoon gives up on a Close that hangs.
func closeSoon(f func()) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		f()
	}()
	select {
	case <-closed:
	case <-time.After(hungAfter):
	}
}
