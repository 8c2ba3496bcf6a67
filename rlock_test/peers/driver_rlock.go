package peers

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
)

var (
	unfenced = rlock.WithFence(false)
	extended = rlock.WithAutoExtend(true)
)

// ours is rlock.
type ours struct{ locker *rlock.Locker }

func openRlock(opts ...rlock.LockerOption) func(tb testing.TB, address string, lease time.Duration) locker {
	return openRlockAs("", opts...)
}

// userUnqueued is a user who lacks the rights for the queue between processes, all of them, as PRODUCTION.md has it for the
// time in which processes of another library want the same keys.
const userUnqueued = "unqueued"

// unqueued is rlock for that user.
func unqueued() driver {
	return driver{"rlock, no queue", "a user without the rights for the queue", false, false, openRlockAs(userUnqueued)}
}

func openRlockAs(user string, opts ...rlock.LockerOption) func(tb testing.TB, address string, lease time.Duration) locker {
	return func(tb testing.TB, address string, lease time.Duration) locker {
		client := rueidis.ClientOption{InitAddress: []string{address}, Username: user}
		if user != "" {
			client.Password = "any" // the user has none
		}
		l, err := rlock.Open(client, append(opts, rlock.WithTTL(lease))...)
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(l.Close)
		return &ours{l}
	}
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
	state, err := o.locker.Inspect(ctx, key)
	return state.Held, err
}

func (o *ours) check(ctx context.Context, key string) (bool, error) {
	state, err := o.locker.Check(ctx, key)
	return state.Held, err
}
