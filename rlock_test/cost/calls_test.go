package cost

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// An uncontended cycle is two calls of the server, each of a script, whatever its options.
func TestCallsPerCycle(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		client := server.Client(t)
		const cycles = 100
		for name, opts := range map[string][]rlock.LockerOption{
			"fenced":              nil,
			"unfenced":            {rlock.WithFence(false)},
			"no expiry":           {rlock.WithTTL(rlock.NoExpiry)},
			"unfenced, no expiry": {rlock.WithFence(false), rlock.WithTTL(rlock.NoExpiry)},
		} {
			t.Run(name, func(t *testing.T) {
				locker := env.NewLocker(t, client, opts...)
				cycle := func() {
					lock, err := locker.Acquire(t.Context(), "job")
					require.NoError(t, err)
					require.NoError(t, lock.Release(t.Context()))
				}
				cycle() // the server learns the scripts
				before := server.CommandStats(t)
				for range cycles {
					cycle()
				}
				after := server.CommandStats(t)
				require.Equal(t, int64(2*cycles), after["evalsha"]-before["evalsha"])
				require.Zero(t, after["eval"]-before["eval"])
				require.Zero(t, after["script|load"]-before["script|load"])
			})
		}
	})
}
