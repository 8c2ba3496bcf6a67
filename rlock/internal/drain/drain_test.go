package drain_test

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/drain"
)

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestDrain(t *testing.T) {
	t.Parallel()
	d := drain.New()
	require.True(t, d.Enter())
	d.Leave()
	require.True(t, d.Enter())
	require.True(t, d.Enter())
	require.False(t, closed(d.Stopped()) || closed(d.Empty()), "calls may come to an end without a Stop")
	require.True(t, d.Stop())
	require.False(t, d.Stop())
	require.True(t, closed(d.Stopped()))
	require.False(t, d.Enter())
	d.Leave()
	require.False(t, closed(d.Empty()), "one call is under way")
	d.Leave()
	require.True(t, closed(d.Empty()))
	require.False(t, d.Enter())
}

func TestDrainWithoutCalls(t *testing.T) {
	t.Parallel()
	d := drain.New()
	d.Stop()
	require.True(t, closed(d.Empty()))
	require.False(t, d.Enter())
}

// Whoever was let in is waited for, however calls and Stop meet.
func TestDrainAmongMany(t *testing.T) {
	t.Parallel()
	for range 2_000 {
		d := drain.New()
		var inside atomic.Int64
		var calls sync.WaitGroup
		for range 4 {
			calls.Go(func() {
				for d.Enter() {
					inside.Add(1)
					inside.Add(-1)
					d.Leave()
				}
			})
		}
		d.Stop()
		<-d.Empty()
		require.Zero(t, inside.Load())
		calls.Wait()
	}
}
