package wire

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// A call among many finds the lease of another as one that goes by itself; what is too long for Go never
// ends.
func TestTryManyReadsLeases(t *testing.T) {
	t.Parallel()
	client := rlocktest.Client(t)
	s := NewServer(client, gen.New(), "process")
	for ms, want := range map[string]time.Duration{
		"60000": time.Minute, "": clock.NoExpiry,
	} {
		words := []string{"job", "foreign"}
		if ms != "" {
			words = append(words, "PX", ms)
		}
		require.NoError(t, client.Do(t.Context(), client.B().Arbitrary("SET").Args(words...).Build()).Error())
		one := &member[tryCall, Answer]{params: tryCall{key: "job", token: "mine", ttl: time.Minute}}
		require.NoError(t, s.calls.tryMany(t.Context(), []*member[tryCall, Answer]{one}))
		require.LessOrEqual(t, one.result.Left, want, ms)
		require.Greater(t, one.result.Left, want-10*time.Second, ms)
	}
	for n, want := range map[int64]time.Duration{
		-1: clock.NoExpiry, -2: 0, 0: 0, 1500: 1500 * time.Millisecond,
		1<<63 - 1: clock.NoExpiry, -1 << 63: 0, 9223372036855: clock.NoExpiry, 18446744073710: clock.NoExpiry,
	} {
		require.Equal(t, want, remaining(milliseconds(n)), n)
	}
}
