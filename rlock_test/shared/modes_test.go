package shared

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// modes are the ways to hold a key.
var modes = map[string]func(ctx context.Context, l *rlock.Locker, key string) (*rlock.Lock, error){
	"whole": func(ctx context.Context, l *rlock.Locker, key string) (*rlock.Lock, error) {
		return l.Acquire(ctx, key, rlock.WithTTL(time.Minute))
	},
	"reader": func(ctx context.Context, l *rlock.Locker, key string) (*rlock.Lock, error) {
		return l.AcquireShared(ctx, key, rlock.WithTTL(time.Minute))
	},
	"permit": func(ctx context.Context, l *rlock.Locker, key string) (*rlock.Lock, error) {
		return l.AcquirePermits(ctx, key, 1, 1, rlock.WithTTL(time.Minute))
	},
}

// A lock goes from one process to the next in one step, whatever each of them holds it as: the release
// gives the next what it waits for, and nobody sends another script.
func TestOneStepBetweenModes(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		a, b := env.OpenOn(t, server), env.OpenOn(t, server)
		for from, holds := range modes {
			for to, waits := range modes {
				if from == "reader" && to == "reader" {
					continue // they hold it together
				}
				key := from + to
				var took, trips []time.Duration
				single := 0
				for range 30 {
					held := env.MustLock(t)(holds(t.Context(), a, key))
					got := make(chan *rlock.Lock, 1)
					go func() { got <- env.MustLock(t)(waits(context.WithoutCancel(t.Context()), b, key)) }()
					queued(t, client, key, 1)
					before, start := server.ScriptCalls(t), time.Now()
					require.NoError(t, held.Release(t.Context()))
					released := time.Now()
					lock := env.Taken(t, got)
					took = append(took, time.Since(start))
					trips = append(trips, released.Sub(start))
					if server.ScriptCalls(t) == before+1 { // otherwise a heartbeat has come in between
						single++
					}
					require.NoError(t, lock.Release(t.Context()))
				}
				slices.Sort(took)
				slices.Sort(trips)
				t.Logf("%s to %s: %v, and the release alone %v", from, to, took[15], trips[15])
				require.Greater(t, single, 15)
			}
		}
	})
}
