package cost

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// The server forgets whom it has to tell of a key when the key changes, and not when the client goes. So a
// lock leaves nothing in its table, whether it is released or its lease ends. A key that was checked while it
// was free stays there until somebody takes it, or the table is full and a client reads another key.
func TestTrackingTable(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		const dead, keys, taken, bound = 50, 10_000, 1000, 100
		server := e.Start(t)
		names := make([]string, keys)
		for i := range names {
			names[i] = "order:" + uuid.NewString()
		}
		// look checks the keys, and returns after its client has gone.
		look := func(keys []string, held bool) {
			locker, err := rlock.Open(server.Option())
			require.NoError(t, err)
			for _, key := range keys {
				state, err := locker.Check(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, held, state.Held)
			}
			locker.Close()
			env.Soon(t, func() bool { return infoNumber(t, server, "tracking_clients") == 0 }, "the client has gone")
		}
		uncached := server.Option()
		uncached.DisableCache = true
		holder := env.OpenLocker(t, uncached)

		watching, err := rlock.Open(server.Option(), rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		released := env.TakeEach(t, watching, names[:taken])
		server.AwaitTracked(t, taken)
		for _, lock := range released {
			require.NoError(t, lock.Release(t.Context()))
		}
		watching.Close()
		server.AwaitTracked(t, 0)

		released = env.TakeEach(t, holder, names[:taken], rlock.WithTTL(time.Minute))
		look(names[:taken], true)
		require.Equal(t, taken, server.TrackedKeys(t), "they stay for as long as the locks are held")
		env.TakeEach(t, holder, names[taken:taken+dead], rlock.WithTTL(5*time.Second))
		look(names[taken:taken+dead], true)
		for _, lock := range released {
			require.NoError(t, lock.Release(t.Context()))
		}
		server.AwaitTracked(t, 0) // the other leases are over

		before := infoNumber(t, server, "used_memory")
		look(names, false)
		require.Equal(t, keys, server.TrackedKeys(t), "nobody is there to be told, and the keys are free")
		each := float64(infoNumber(t, server, "used_memory")-before) / keys
		t.Logf("%.0f bytes a key", each)
		require.Less(t, each, 400.0)

		for _, lock := range env.TakeEach(t, holder, names[:taken]) {
			require.NoError(t, lock.Release(t.Context()))
		}
		require.Equal(t, keys-taken, server.TrackedKeys(t), "what somebody takes is forgotten")

		server.Do(t, "CONFIG", "SET", "tracking-table-max-keys", strconv.Itoa(bound))
		require.Equal(t, keys-taken, server.TrackedKeys(t), "no client reads")
		env.Soon(t, func() bool {
			look(names[:1], false)
			return server.TrackedKeys(t) <= bound
		}, "a client that reads has the server keep to its bound")
		require.Less(t, infoNumber(t, server, "used_memory"), before+keys*int64(each)/4, "the memory is free again")
	})
}

// infoNumber returns a number of INFO.
func infoNumber(t *testing.T, server *env.Server, name string) int64 {
	t.Helper()
	reply := server.Do(t, "INFO")
	info, err := reply.ToString()
	require.NoError(t, err)
	_, value, found := strings.Cut(info, "\n"+name+":")
	require.True(t, found, name)
	value, _, _ = strings.Cut(value, "\r")
	n, err := strconv.ParseInt(value, 10, 64)
	require.NoError(t, err)
	return n
}
