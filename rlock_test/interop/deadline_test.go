package interop

import (
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// When the network of a holder falls silent, the context of a lock of rlock ends before the server
// lets the next holder in. That of rueidislock does not: for a while both have the lock. The
// README's table says so.
func TestDeadlineWithoutTheNetwork(t *testing.T) {
	t.Parallel()
	const lease = 2 * time.Second
	s := env.Engines(t)[0].Start(t)
	silent := func() (*env.Proxy, rueidis.ClientOption) {
		proxy := env.NewProxy(t, s.Addr())
		return proxy, rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, ForceSingleClient: true}
	}
	other := env.OpenOn(t, s)

	proxy, option := silent()
	ours := env.OpenLocker(t, option)
	held, err := ours.Acquire(t.Context(), "ours", rlock.WithTTL(lease), rlock.WithAutoExtend(true))
	require.NoError(t, err)
	ctx := held.Context()
	proxy.BlackHole(true)
	next, err := other.Acquire(t.Context(), "ours")
	require.NoError(t, err)
	require.Error(t, held.Err(), "rlock: two holders")
	env.Receive(t, ctx.Done()) // by a timer, which a busy machine may run late
	require.NoError(t, next.Release(t.Context()))
	proxy.BlackHole(false)

	// Of rueidislock both hold for a while. A machine that stands still in that time misses it, so there are
	// some tries.
	both := false
	for i := 0; i < 10 && !both; i++ {
		key := fmt.Sprint("theirs", i)
		proxy, option = silent()
		theirs, err := rueidislock.NewLocker(
			rueidislock.LockerOption{ClientOption: option, KeyMajority: 1, KeyValidity: lease})
		require.NoError(t, err)
		ctx = rueidislockHolds(t, t.Context(), theirs, key)
		proxy.BlackHole(true)
		next, err = other.Acquire(t.Context(), "rueidislock:0:"+key)
		require.NoError(t, err)
		both = ctx.Err() == nil
		require.NoError(t, next.Release(t.Context()))
		proxy.BlackHole(false)
		theirs.Close()
	}
	require.True(t, both, "rueidislock stops in time by now: change the README's table")
}
