package rlockmem

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// Leases that are over and that nobody asks for are forgotten, and those that are not are kept.
func TestForget(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := New()
		take := func(key string, ttl time.Duration) {
			acquired, _, err := b.Acquire(t.Context(), key, "t", ttl)
			require.NoError(t, err)
			require.True(t, acquired)
		}
		take("kept", time.Hour)
		for i := range 10_000 {
			take(strconv.Itoa(i), time.Millisecond)
			time.Sleep(time.Millisecond)
		}
		require.Less(t, len(b.held), 200)
		token, _, err := b.Holder(t.Context(), "kept")
		require.NoError(t, err)
		require.Equal(t, "t", token)
	})
}
