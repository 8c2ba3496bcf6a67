package cost

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// An uncontended cycle is two calls of the server, whatever its options.
func TestCallsPerCycle(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		client := server.Client(t)
		const cycles = 100
		for name, test := range map[string]struct {
			opts    []rlock.Option
			scripts int64 // the others are SETs
		}{
			"fenced":              {nil, 2},
			"unfenced":            {[]rlock.Option{rlock.WithFence(false)}, 1},
			"no expiry":           {[]rlock.Option{rlock.WithTTL(rlock.NoExpiry)}, 2},
			"unfenced, no expiry": {[]rlock.Option{rlock.WithFence(false), rlock.WithTTL(rlock.NoExpiry)}, 1},
		} {
			t.Run(name, func(t *testing.T) {
				locker := env.NewLocker(t, client, test.opts...)
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
				require.Equal(t, test.scripts*cycles, after["evalsha"]-before["evalsha"])
				require.GreaterOrEqual(t, after["set"]-before["set"], int64(cycles), "of a script or not")
				require.Zero(t, after["eval"]-before["eval"])
				require.Zero(t, after["script|load"]-before["script|load"])
			})
		}
	})
}
