package collect_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/collect"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// server notes what is given back.
type server struct{ requests []remote.Request }

func (s *server) RollBack(_ context.Context, _ *remote.Claim, _ [][]string, r remote.Request) {
	s.requests = append(s.requests, r)
}

func claim() *remote.Claim {
	c := new(remote.Server).All([]string{"b", "c", "a"}, false)
	return &c
}

// For two seconds a set takes all or none, for two seconds one by one, and so on.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start := &server{}, clock.Now()
		c := collect.New(s, claim(), 12*time.Second, start)
		step := func(token string, begins, ends bool) {
			t.Helper()
			begun, ended := c.Step(t.Context(), token)
			require.Equal(t, begins, begun)
			require.Equal(t, ends, ended)
		}
		time.Sleep(2*time.Second - time.Nanosecond)
		step("a", false, false)
		require.Nil(t, c.Keys())
		require.Equal(t, start.After(2*time.Second), c.End())
		time.Sleep(time.Nanosecond)
		step("a", true, false)
		require.Equal(t, []string{"a", "b", "c"}, c.Keys())
		time.Sleep(2*time.Second - time.Nanosecond)
		step("a", false, false)
		require.Empty(t, s.requests)
		time.Sleep(time.Nanosecond)
		step("a", false, true)
		require.Nil(t, c.Keys())
		require.Equal(t, []remote.Request{{Token: "a", TTL: 12 * time.Second}}, s.requests)
		step("b", false, false)
		c.Turn()
		step("b", true, false)
	})
}

// What was collected is confirmed before it expires.
func TestEnd(t *testing.T) {
	t.Parallel()
	for ttl, left := range map[time.Duration]time.Duration{
		3 * time.Second: time.Second,
		9 * time.Second: 2 * time.Second,
		clock.NoExpiry:  2 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			c := collect.New(&server{}, claim(), ttl, clock.Now())
			require.Equal(t, clock.Now().After(2*time.Second), c.End(), "it has collected nothing")
			time.Sleep(2 * time.Second)
			begun, _ := c.Step(t.Context(), "a")
			require.True(t, begun)
			require.Equal(t, clock.Now().After(left), c.End())
		})
	}
}

func TestNoCollector(t *testing.T) {
	t.Parallel()
	var c *collect.Collector
	require.Nil(t, c.Keys())
	require.Equal(t, clock.Never, c.End())
}
