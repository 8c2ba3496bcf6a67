package env_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestClockStepsTheServer(t *testing.T) {
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		s, clock := e.StartWithClock(t)
		ahead := func() time.Duration {
			reply := s.Do(t, "TIME")
			words, err := reply.AsStrSlice()
			require.NoError(t, err)
			seconds, err := strconv.ParseInt(words[0], 10, 64)
			require.NoError(t, err)
			return time.Until(time.Unix(seconds, 0))
		}
		const slack = float64(5 * time.Second)
		require.InDelta(t, 0, ahead(), slack)
		clock.Shift(-time.Hour)
		require.InDelta(t, -time.Hour, ahead(), slack)

		s.Do(t, "SET", "k", "v", "EX", "60")
		clock.Shift(time.Hour)
		require.InDelta(t, time.Hour, ahead(), slack)
		require.Zero(t, number(t, s.Do(t, "EXISTS", "k")), "its time has come early")
	})
}
