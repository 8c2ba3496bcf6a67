package env

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
)

// Accounts is the number of keys that OverlapSets takes sets of: "account:0" and so on.
const Accounts = 5

// OverlapSets starts workers, each with its own Locker. Each worker takes random sets of accounts, rounds
// times. OverlapSets checks that no account has two holders, and that the fences of each account rise.
func OverlapSets(t testing.TB, client rueidis.Client, workers, rounds int, opts ...rlock.LockerOption) {
	t.Helper()
	var (
		holders [Accounts]atomic.Int32
		fences  [Accounts]uint64
	)
	opts = append(opts, rlock.WithRetry(rlock.Exponential(time.Millisecond, 20*time.Millisecond)))
	require.NoError(t, Together(workers, func(int) error {
		locker, err := rlock.New(client, opts...)
		if err != nil {
			return err
		}
		defer locker.Close()
		for range rounds {
			picks := rand.Perm(Accounts)[:1+rand.IntN(3)]
			names := make([]string, len(picks))
			for i, n := range picks {
				names[i] = fmt.Sprintf("account:%d", n)
			}
			err := locker.DoAll(t.Context(), names, func(_ context.Context, lock *rlock.Lock) error {
				for _, n := range picks {
					if holders[n].Add(1) != 1 {
						return fmt.Errorf("two holders of %d", n)
					}
					if lock.Fence() <= fences[n] {
						return fmt.Errorf("fence of %d fell from %d to %d", n, fences[n], lock.Fence())
					}
					fences[n] = lock.Fence()
				}
				time.Sleep(rand.N(time.Millisecond))
				for _, n := range picks {
					holders[n].Add(-1)
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	}))
}

// NextInLine starts an acquisition of key that waits. The lock arrives on the channel that it returns, or nil
// if the acquisition fails. Meanwhile no other acquisition of the Locker may begin or end to wait.
func NextInLine(t testing.TB, locker *rlock.Locker, key string) <-chan *rlock.Lock {
	t.Helper()
	before := locker.Stats().Waiting
	next := make(chan *rlock.Lock, 1)
	go func() {
		lock, err := locker.Acquire(t.Context(), key)
		if err != nil {
			t.Error(err)
		}
		next <- lock
	}()
	AwaitWaiting(t, locker, before+1)
	return next
}

// Enqueue starts an acquisition of key that waits. It returns when the queue of the server has one more
// waiter than before. queued counts the waiters. The lock arrives on the channel, or nil if the acquisition
// fails.
func Enqueue(t testing.TB, queued func() int, locker *rlock.Locker, key string,
	opts ...rlock.Option) <-chan *rlock.Lock {
	t.Helper()
	before := queued()
	got := make(chan *rlock.Lock, 1)
	go func() {
		lock, err := locker.Acquire(t.Context(), key, opts...)
		if err != nil && t.Context().Err() == nil {
			t.Error(err)
		}
		got <- lock
	}()
	Soon(t, func() bool { return queued() > before }, "it stands in the queue")
	return got
}

// CollectsInOrder makes the acquisition of a set take its two keys one after the other. set starts the
// acquisition. The Locker other takes the keys in turn, until set holds the first key and waits for the
// second. CollectsInOrder returns other's lock of the second key. queued counts the waiters for a key.
func CollectsInOrder(
	t testing.TB, queued func(key string) int, set func(), other *rlock.Locker, first, second string,
) (held *rlock.Lock) {
	t.Helper()
	holds := func(key string) *rlock.Lock {
		return MustLock(t)(other.Acquire(t.Context(), key, rlock.WithTTL(time.Minute)))
	}
	passes := func(lock *rlock.Lock, to string) {
		require.NoError(t, lock.Release(context.WithoutCancel(t.Context())))
		Soon(t, func() bool { return queued(to) == 1 }, "the set waits for "+to)
	}
	one, two := holds(first), holds(second)
	go set()
	Soon(t, func() bool { return queued(first) == 1 }, "the set waits for the first key")
	passes(one, second) // the set has not waited for second: it gives first back
	one = holds(first)
	passes(two, first) // the set has waited for first: it goes on in order, and holds nothing
	two = holds(second)
	passes(one, second)
	return two
}

// Taken returns the lock that arrives on the channel.
func Taken(t testing.TB, got <-chan *rlock.Lock) *rlock.Lock {
	t.Helper()
	lock, ok := arrives(got, 20*time.Second)
	if !ok {
		require.FailNow(t, "it has not got the lock")
	}
	require.NotNil(t, lock)
	return lock
}

// PassOn lets n acquisitions of key get the lock one after the other, and returns their locks in this order.
// All of them wait before PassOn releases the first lock.
func PassOn(t testing.TB, locker *rlock.Locker, key string, n int, opts ...rlock.Option) []*rlock.Lock {
	t.Helper()
	first, err := locker.Acquire(t.Context(), key, opts...)
	require.NoError(t, err)
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		locks = []*rlock.Lock{first}
	)
	for range n - 1 {
		group.Go(func() {
			lock, err := locker.Acquire(t.Context(), key, opts...)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			locks = append(locks, lock)
			if err := lock.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	AwaitWaiting(t, locker, int64(n-1))
	require.NoError(t, first.Release(t.Context()))
	group.Wait()
	require.Len(t, locks, n)
	return locks
}
