package clock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// waitUntil waits until an instant, as whoever uses a Signal does. It returns how often the wait ended
// too early.
func waitUntil(t *testing.T, s *clock.Signal, until clock.Instant) (early int) {
	for {
		now := clock.Now()
		require.NoError(t, s.Wait(t.Context(), now, until, nil))
		if clock.Now() >= until {
			return early
		}
		early++
	}
}

// However the waits before it have ended, a wait is over when its time is, and not later. The timer
// ends one wait too early, not many.
func TestSignalWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := clock.NewSignal()
		for range 3 {
			for _, d := range []time.Duration{time.Second, time.Minute, time.Millisecond, 0, time.Hour} {
				now := clock.Now()
				require.LessOrEqual(t, waitUntil(t, s, now.After(d)), 1)
				require.Equal(t, now.After(d), clock.Now())
			}
			for range 10 { // which leave the timer behind
				now := clock.Now()
				s.Send()
				s.Send()
				require.NoError(t, s.Wait(t.Context(), now, now.After(time.Second), nil))
				require.Equal(t, now, clock.Now(), "the signal was sent before")
				time.Sleep(time.Second / 4)
			}
			s.Stop()
		}
		s.Send()
		require.NoError(t, s.Wait(context.Background(), clock.Now(), clock.Never, nil))
	})
}

func TestSignalWaitEndsWithItsContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := clock.NewSignal()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		require.ErrorIs(t, s.Wait(ctx, clock.Now(), clock.Never, nil), context.DeadlineExceeded)
	})
}

// Waits that end soon share one timer: what is left of it does not grow with their number.
func TestSignalSetsItsTimerRarely(t *testing.T) {
	s := clock.NewSignal()
	now := clock.Now()
	wait := func() {
		s.Send()
		require.NoError(t, s.Wait(t.Context(), now, now.After(time.Hour), nil))
	}
	wait()
	require.Zero(t, testing.AllocsPerRun(100, wait))
	s.Stop()
}
