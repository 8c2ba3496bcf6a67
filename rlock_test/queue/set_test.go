package queue

import (
	"fmt"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
	"github.com/stretchr/testify/require"
)

// A set that is released passes each of its keys on to the process that waits first for it, in one
// script. What it gives back because it cannot have all, it passes on as well.
func TestReleaseOfASetPassesOn(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		a, b, c := env.OpenOn(t, server), env.OpenOn(t, server), env.OpenOn(t, server)
		keys := []string{"i", "j", "k"}
		for passed := false; !passed; {
			set := env.MustLock(t)(a.AcquireAll(t.Context(), keys))
			first, second := waits(t, client, b, "j"), waits(t, client, b, "k")
			last := waits(t, client, c, "k")
			before := server.ScriptCalls(t)
			require.NoError(t, set.Release(t.Context()))
			j, k := env.Taken(t, first), env.Taken(t, second)
			passed = server.ScriptCalls(t) == before+1 // otherwise a heartbeat came in between
			require.Greater(t, j.Fence(), set.Fence())
			require.Greater(t, k.Fence(), set.Fence())
			require.Empty(t, env.Get(t, client, "i"))
			require.NoError(t, j.Release(t.Context()))
			require.NoError(t, k.Release(t.Context()))
			require.NoError(t, env.Taken(t, last).Release(t.Context()))
			for _, key := range keys {
				idle(t, client, key)
			}
		}
	})
}

// Sets of any size are released, whether or not somebody waits for a key of theirs.
func TestReleaseOfSetsOfAnySize(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	a, b := env.OpenOn(t, server), env.OpenOn(t, server)
	for _, size := range []int{2, 127, 128, 129, 1500} {
		var keys []string
		for i := range size {
			keys = append(keys, fmt.Sprintf("%d of %d", i, size))
		}
		set := env.MustLock(t)(a.AcquireAll(t.Context(), keys))
		require.NoError(t, set.Release(t.Context()))
		set = env.MustLock(t)(a.AcquireAll(t.Context(), keys, rlock.WithTTL(time.Minute)))
		got := waits(t, client, b, keys[size-1])
		require.NoError(t, env.Do(t, client, "DEL", keys[0]).Error())
		require.ErrorIs(t, set.Release(t.Context()), rlock.ErrLost)
		require.NoError(t, env.Taken(t, got).Release(t.Context()))
		for _, key := range keys {
			idle(t, client, key)
		}
	}
}
