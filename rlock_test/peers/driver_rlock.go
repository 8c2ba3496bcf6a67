package peers

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
)

var (
	unfenced = rlock.WithFence(false)
	extended = rlock.WithAutoExtend(true)
)

// ours is rlock.
type ours struct {
	locker *rlock.Locker
	admin  *rlockadmin.Admin
}

func openRlock(opts ...rlock.LockerOption) func(tb testing.TB, address string, lease time.Duration) locker {
	return func(tb testing.TB, address string, lease time.Duration) locker {
		l, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{address}},
			append(opts, rlock.WithTTL(lease))...)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(l.Close)
		admin, err := rlockadmin.New(l.Client())
		if err != nil {
			tb.Fatal(err)
		}
		return &ours{l, admin}
	}
}

// barging is rlock as MIGRATION.md describes it for the time in which processes of another library
// want the same keys. redsync is the slowest of these libraries: it asks every 50 to 250 ms. A turn
// lasts 10 ms.
func barging() driver {
	return driver{"rlock, barging", "WithBarging(300ms)", false, false,
		openRlock(rlock.WithBarging(300 * time.Millisecond))}
}

func (o *ours) acquire(ctx context.Context, key string) (holding, error) {
	lock, err := o.locker.Acquire(ctx, key)
	if err != nil {
		return nil, err
	}
	return lock, nil
}

func (o *ours) acquireAll(ctx context.Context, keys []string) (holding, error) {
	lock, err := o.locker.AcquireAll(ctx, keys)
	if err != nil {
		return nil, err
	}
	return lock, nil
}

func (o *ours) cycleEach(ctx context.Context, keys []string) error {
	results, err := o.locker.TryAcquireEach(ctx, keys)
	if err != nil {
		return err
	}
	locks := make([]*rlock.Lock, len(results))
	for i, r := range results {
		if r.Err != nil {
			return r.Err
		}
		locks[i] = r.Lock
	}
	for _, err := range o.locker.ReleaseEach(ctx, locks) {
		if err != nil {
			return err
		}
	}
	return nil
}

// oneByOne is rlock without its batches.
const oneByOne = "rlock, one by one"

func openOneByOne(tb testing.TB, address string, lease time.Duration) locker {
	return struct{ locker }{openRlock()(tb, address, lease)}
}

func (o *ours) ask(ctx context.Context, key string, _ holding) (bool, error) {
	state, err := o.admin.Inspect(ctx, key)
	return state.Mode != rlockadmin.Free, err
}

func (o *ours) check(ctx context.Context, key string) (bool, error) {
	state, err := o.locker.Check(ctx, key)
	return state.Held, err
}
