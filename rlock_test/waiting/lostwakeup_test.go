package waiting

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A waiter that misses its call waits for ever although the lock is free. Such a
// thing is rare and needs the end of a crowd to show, so there are many short rounds,
// each of which must empty its crowd. It runs alone, as it leaves no time to others.
func TestNobodyIsStranded(t *testing.T) {
	env.Long(t)
	const (
		handOvers = 100_000
		clients   = 4
		workers   = 64
		rounds    = handOvers / 2 / (clients * workers) // half with push, half with polling
	)
	server := env.Start(t)
	direct := server.Client(t)
	for name, open := range map[string]func() *rlock.Locker{
		// Nothing but a push calls a waiter in time: the holder never expires, and the
		// next look of one's own is an hour away.
		"push": func() *rlock.Locker { return env.OpenOn(t, server, rlock.WithRetry(rlock.Fixed(time.Hour))) },
		"poll": func() *rlock.Locker {
			return env.NewLocker(t, server.Client(t),
				rlock.WithRetry(rlock.Exponential(time.Millisecond, 8*time.Millisecond)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var lockers [clients]*rlock.Locker
			for i := range lockers {
				lockers[i] = open()
			}
			start := time.Now()
			for round := range rounds {
				key := fmt.Sprint(name, round)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				var inside atomic.Int32
				err := env.Together(clients*workers, func(i int) error {
					lock, err := lockers[i%clients].Acquire(ctx, key, rlock.WithTTL(rlock.NoExpiry))
					if err != nil {
						return err
					}
					if inside.Add(1) != 1 {
						return fmt.Errorf("two holders of %s", key)
					}
					inside.Add(-1)
					return lock.Release(ctx)
				})
				cancel()
				if err != nil { // stranded at a free key, or is somebody left with it?
					t.Logf("%s has %q on the server", key, env.Get(t, direct, key))
					for _, locker := range lockers {
						t.Logf("%+v, holds %d", locker.Stats(), len(locker.Locks()))
					}
				}
				require.NoError(t, err)
			}
			t.Logf("%d hand-overs in %v", rounds*clients*workers, time.Since(start).Round(time.Millisecond))
		})
	}
}
