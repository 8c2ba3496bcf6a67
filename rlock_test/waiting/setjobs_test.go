package waiting

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// job returns how long the jobs of these tests last; they are shorter with -short.
func job(d time.Duration) time.Duration {
	if testing.Short() {
		return d / 10
	}
	return d
}

// works has processes of their own use a key one after the other, each for so long, until ctx ends. It
// counts the jobs that have ended.
func works(
	t *testing.T, ctx context.Context, server *env.Server, key string, processes int, long time.Duration,
) (all *sync.WaitGroup, done *atomic.Int64) {
	t.Helper()
	all, done = &sync.WaitGroup{}, &atomic.Int64{}
	for range processes {
		l := env.OpenOn(t, server)
		all.Go(func() {
			for ctx.Err() == nil {
				_ = l.Do(ctx, key, func(ctx context.Context, _ *rlock.Lock) error {
					select {
					case <-time.After(long):
					case <-ctx.Done():
					}
					done.Add(1)
					return nil
				})
			}
		})
	}
	return all, done
}

// While sets wait for a key of long jobs, a lock of their other key waits for one such job at most for each
// of them: a set holds nothing while it waits, until it has waited for each of its keys.
func TestSetsKeepNobodyWaiting(t *testing.T) {
	t.Parallel()
	for _, sets := range []int{1, 2, 4, 8} {
		t.Run(fmt.Sprint(sets), func(t *testing.T) {
			t.Parallel()
			server := env.Start(t)
			ctx, cancel := context.WithCancel(t.Context())
			long, jobs := works(t, ctx, server, "b", 3, job(4*time.Second))
			short, _ := works(t, ctx, server, "a", 1, job(100*time.Millisecond))
			var group sync.WaitGroup
			var had atomic.Int64
			for range sets {
				l := env.OpenOn(t, server)
				group.Go(func() {
					set, err := l.AcquireAll(ctx, []string{"a", "b"})
					if err != nil {
						t.Error(err)
						return
					}
					had.Add(1)
					if err := set.Release(ctx); err != nil {
						t.Error(err)
					}
				})
				time.Sleep(job(700 * time.Millisecond))
			}
			single := env.OpenOn(t, server)
			longest, most := time.Duration(0), int64(0)
			for had.Load() < int64(sets) {
				start, before := time.Now(), jobs.Load()
				lock := env.MustLock(t)(single.Acquire(ctx, "a"))
				require.NoError(t, lock.Release(ctx))
				longest, most = max(longest, time.Since(start)), max(most, jobs.Load()-before)
				time.Sleep(10 * time.Millisecond)
			}
			t.Logf(
				"%d sets: a lock of their other key waited for %v at most, and for %d long jobs", sets, longest, most,
			)
			require.LessOrEqual(t, most, int64(sets+1), "one may end by chance while it waits for another reason")
			cancel()
			group.Wait()
			long.Wait()
			short.Wait()
		})
	}
}

// A set of two keys is overtaken by three of those at most who come later and want one of the keys, in
// whatever phase of their jobs it comes.
func TestSetsAreNotOvertaken(t *testing.T) {
	t.Parallel()
	for _, long := range []time.Duration{4 * time.Second, 8 * time.Second} {
		for _, phase := range []time.Duration{
			300 * time.Millisecond, 1100 * time.Millisecond, 2500 * time.Millisecond,
		} {
			t.Run(fmt.Sprint(long, phase), func(t *testing.T) {
				t.Parallel()
				server := env.Start(t)
				ctx, cancel := context.WithCancel(t.Context())
				all, jobs := works(t, ctx, server, "b", 3, job(long))
				others, _ := works(t, ctx, server, "a", 2, job(long)/7)
				env.Soon(t, func() bool { return env.Get(t, server.Client(t), "b") != "" }, "somebody works")
				time.Sleep(job(phase))
				start, before := time.Now(), jobs.Load()
				set := env.MustLock(t)(env.OpenOn(t, server).AcquireAll(ctx, []string{"a", "b"}))
				t.Logf(
					"jobs of %v: the set waited for %v and for %d jobs", job(long), time.Since(start), jobs.Load()-before,
				)
				overtake := int64(3)
				if testing.Short() { // on a busy machine the set waits for the other key as long as such a job lasts
					overtake = 6
				}
				require.LessOrEqual(t, jobs.Load()-before, 3+overtake, "three had come before it")
				require.NoError(t, set.Release(ctx))
				cancel()
				all.Wait()
				others.Wait()
			})
		}
	}
}
