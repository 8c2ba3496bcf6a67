package queue

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Somebody who stands in no queue asks every 50 ms for a lock that callers of rlock want all the time: those
// of one process, which hand it over without the server, of several, and readers. Each of the last times in
// which it may get the lock, it does.
func TestBarging(t *testing.T) {
	t.Parallel()
	for name, crowd := range map[string]struct {
		processes int
		acquire   func(ctx context.Context, l *rlock.Locker) (*rlock.Lock, error)
	}{
		"one process": {1, func(ctx context.Context, l *rlock.Locker) (*rlock.Lock,
			error) {
			return l.Acquire(ctx, "k")
		}},
		"several processes": {3, func(ctx context.Context, l *rlock.Locker) (*rlock.Lock,
			error) {
			return l.Acquire(ctx, "k")
		}},
		"readers": {2, func(ctx context.Context, l *rlock.Locker) (*rlock.Lock,
			error) {
			return l.AcquireShared(ctx, "k")
		}},
		"permits": {2, func(ctx context.Context, l *rlock.Locker) (*rlock.Lock, error) {
			return l.AcquirePermits(ctx, "k", 1, 2)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := env.Start(t)
			client := server.Client(t)
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			defer all.Wait()
			defer cancel()
			for range crowd.processes {
				l := env.OpenOn(t, server, rlock.WithBarging(400*time.Millisecond))
				for range 4 {
					all.Go(func() {
						for ctx.Err() == nil {
							if lock, err := crowd.acquire(ctx, l); err == nil {
								_ = lock.Release(ctx)
							}
						}
					})
				}
			}
			for range 3 {
				began := time.Now()
				for taken := false; !taken; {
					err := env.Do(t, client, "SET", "k", "stranger", "NX", "PX", "10000").Error()
					if taken = !rueidis.IsRedisNil(err); taken {
						require.NoError(t, err)
					} else {
						require.Less(t, time.Since(began), 30*time.Second, "the stranger never finds the lock free")
						time.Sleep(50 * time.Millisecond)
					}
				}
				t.Log(time.Since(began))
				time.Sleep(2 * time.Millisecond)
				require.Equal(t, "stranger", env.Get(t, client, "k"))
				require.NoError(t, env.Do(t, client, "DEL", "k").Error())
				time.Sleep(time.Second / 2) // until the time is over
			}
		})
	}
}

// When the time is over in which the lock stays free, the processes that wait go on with it at once, although
// nobody is told that it is over.
func TestAfterBarging(t *testing.T) {
	t.Parallel()
	const (
		barging = 200 * time.Millisecond
		seconds = 5
	)
	server := env.Start(t)
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	defer all.Wait()
	defer cancel()
	var lockers []*rlock.Locker
	for range 8 {
		lockers = append(lockers, env.OpenOn(t, server, rlock.WithBarging(barging)))
	}
	began := time.Now().Truncate(time.Second).Add(2 * time.Second)
	end := began.Add(seconds * time.Second)
	var mu sync.Mutex
	first := map[int]time.Duration{} // of each second: when somebody has the lock after that time
	for _, l := range lockers {
		for range 4 {
			all.Go(func() {
				for ctx.Err() == nil && time.Now().Before(end) {
					lock, err := l.Acquire(ctx, "k")
					if !assert.NoError(t, err) {
						return
					}
					since := time.Since(began)
					if after := since%time.Second - barging; since > 0 && after > 0 {
						mu.Lock()
						if n := int(since / time.Second); first[n] == 0 || after < first[n] {
							first[n] = after
						}
						mu.Unlock()
					}
					_ = lock.Release(ctx)
				}
			})
		}
	}
	all.Wait()
	var times []time.Duration
	for n := range seconds {
		require.NotZero(t, first[n], "nobody got the lock in second %d", n)
		times = append(times, first[n])
	}
	slices.Sort(times)
	require.Less(t, times[seconds/2], 350*time.Millisecond, "half of the rest of a second: %v", times)
}

// So does a set that waits.
func TestSetAfterBarging(t *testing.T) {
	t.Parallel()
	const (
		barging = 300 * time.Millisecond
		rounds  = 5
	)
	server := env.Start(t)
	client := server.Client(t)
	holder, l := env.OpenOn(t, server, rlock.WithBarging(barging)),
		env.OpenOn(t, server, rlock.WithBarging(barging))
	var late []time.Duration // after the end of that time
	for range rounds {
		held := env.MustLock(t)(holder.Acquire(t.Context(), "i", rlock.WithTTL(time.Minute)))
		got := acquiresAll(t, l, "i", "j")
		env.Soon(t, func() bool { return len(queued(t, client, "i")) == 1 }, "the set waits")
		second := time.Now().Truncate(time.Second).Add(time.Second)
		time.Sleep(time.Until(second.Add(20 * time.Millisecond)))
		require.NoError(t, held.Release(t.Context()))
		lock := env.Taken(t, got)
		late = append(late, time.Since(second.Add(barging)))
		require.NoError(t, lock.Release(t.Context()))
	}
	slices.Sort(late)
	require.Less(t, late[rounds/2], 350*time.Millisecond, "half of the rest of a second: %v", late)
}
