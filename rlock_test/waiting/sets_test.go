package waiting

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Keys that are never free at the same moment cannot keep a set waiting for ever.
func TestSetsDoNotStarve(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		keys := []string{"c", "a", "b"}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		defer group.Wait()
		defer cancel()
		for i, key := range keys {
			for range 2 { // processes
				locker := env.OpenOn(t, server)
				group.Go(func() {
					time.Sleep(time.Duration(i) * 10 * time.Millisecond)
					for ctx.Err() == nil {
						err := locker.Do(ctx, key, func(context.Context, *rlock.Lock) error {
							time.Sleep(30 * time.Millisecond)
							return nil
						})
						if err != nil && ctx.Err() == nil {
							t.Error(err)
						}
					}
				})
			}
		}
		time.Sleep(100 * time.Millisecond)
		patience, stop := context.WithTimeout(t.Context(), 30*time.Second)
		defer stop()
		start := time.Now()
		set, err := env.OpenOn(t, server).AcquireAll(patience, keys)
		require.NoError(t, err)
		t.Logf("the set had to wait for %v, %d attempts", time.Since(start), set.Attempts())
		for _, key := range keys {
			require.Equal(t, set.Token(), env.Get(t, server.Client(t), key))
		}
		require.Equal(t, keys, set.Keys())
		require.NoError(t, set.Release(t.Context()))
	})
}

// Sets that overlap in every way, and callers who hold one lock and wait for a set,
// all come to their end, and a set that gives up while it collects leaves nothing.
func TestCollectingDoesNotDeadlock(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		names := []string{"a", "b", "c", "d"}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		lockers := []*rlock.Locker{env.OpenOn(t, server), env.OpenOn(t, server)}
		outer, err := lockers[0].Acquire(ctx, "d", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		var group sync.WaitGroup
		for i := range 6 {
			group.Go(func() { // they collect a, b and c while d is held
				keys := slices.Clone(names)
				slices.SortFunc(keys, func(a, b string) int { return int(a[0]+byte(i))%5 - int(b[0]+byte(i))%5 })
				if err := lockers[i%2].DoAll(ctx, keys,
					func(context.Context, *rlock.Lock) error { return nil }); err != nil {
					t.Error(err)
				}
			})
		}
		short, stop := context.WithTimeout(ctx, 3*time.Second)
		defer stop()
		_, err = env.OpenOn(t, server).AcquireAll(short, []string{"d", "0"}) // collects 0
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		env.Soon(t, func() bool { return env.Get(t, server.Client(t), "0") == "" },
			"what was collected is free again")
		start := time.Now()
		inner, err := lockers[0].AcquireAll(ctx, []string{"b", "c"}, rlock.WithTTL(time.Minute))
		require.NoError(t, err, fmt.Sprintf("after %v", time.Since(start)))
		require.NoError(t, inner.Release(ctx))
		require.NoError(t, outer.Release(ctx))
		group.Wait()
	})
}
