package gate_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/gate"
)

func TestOneAtATime(t *testing.T) {
	t.Parallel()
	var g gate.Gate
	require.NoError(t, g.Enter(t.Context()))
	occupied, err := g.TryEnter()
	require.NoError(t, err)
	again, err := g.TryEnter()
	require.NoError(t, err)
	require.Equal(t, occupied, again)
	select {
	case <-occupied:
		t.Fatal("somebody is inside")
	default:
	}
	g.Leave(false)
	<-occupied
	occupied, err = g.TryEnter()
	require.NoError(t, err)
	require.Nil(t, occupied, "it has entered")
	g.Leave(true)
	_, err = g.TryEnter()
	require.ErrorIs(t, err, gate.ErrAnswered)
	require.ErrorIs(t, g.Enter(t.Context()), gate.ErrAnswered)
}

// Who waits gets in after the one who leaves without an answer, or learns that there was one, or
// gives up with its context.
func TestEnterWaits(t *testing.T) {
	t.Parallel()
	for name, answered := range map[string]bool{"without an answer": false, "with an answer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var g gate.Gate
				require.NoError(t, g.Enter(t.Context()))
				short, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				require.ErrorIs(t, g.Enter(short), context.DeadlineExceeded)
				result := make(chan error)
				go func() { result <- g.Enter(t.Context()) }()
				synctest.Wait()
				g.Leave(answered)
				if answered {
					require.ErrorIs(t, <-result, gate.ErrAnswered)
				} else {
					require.NoError(t, <-result)
				}
			})
		})
	}
}

func TestManyEnter(t *testing.T) {
	t.Parallel()
	var (
		g      gate.Gate
		group  sync.WaitGroup
		inside atomic.Int32
		count  int // guarded by the Gate
	)
	for range 8 {
		group.Go(func() {
			for range 300 {
				if g.Enter(t.Context()) != nil {
					t.Error("nobody has got an answer")
					return
				}
				if inside.Add(1) != 1 {
					t.Error("two are inside")
				}
				count++
				inside.Add(-1)
				g.Leave(false)
			}
		})
	}
	group.Wait()
	require.Equal(t, 8*300, count)
}
