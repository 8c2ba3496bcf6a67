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

// For two seconds a set takes one by one, for two seconds all or none, and so on.
func TestTurns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start := &server{}, clock.Now()
		c := collect.New(s, claim(), 12*time.Second)
		step := func(token string, begins, ends bool) {
			t.Helper()
			begun, ended := c.Step(t.Context(), token)
			require.Equal(t, begins, begun)
			require.Equal(t, ends, ended)
		}
		require.Nil(t, c.Keys())
		step("a", true, false)
		require.Equal(t, []string{"a", "b", "c"}, c.Keys())
		require.Equal(t, start.After(2*time.Second), c.End())
		time.Sleep(2*time.Second - time.Nanosecond)
		step("a", false, false)
		require.Empty(t, s.requests)
		time.Sleep(time.Nanosecond)
		step("a", false, true)
		require.Nil(t, c.Keys())
		require.Equal(t, []remote.Request{{Token: "a", TTL: 12 * time.Second}}, s.requests)
		time.Sleep(2*time.Second - time.Nanosecond)
		step("b", false, false)
		require.Nil(t, c.Keys())
		time.Sleep(time.Nanosecond)
		step("b", true, false)
		step("b", false, false)
		c.Turn()
		step("b", false, true)
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
			c := collect.New(&server{}, claim(), ttl)
			require.Equal(t, clock.Now(), c.End(), "it has collected nothing")
			begun, _ := c.Step(t.Context(), "a")
			require.True(t, begun)
			require.Equal(t, clock.Now().After(left), c.End())
		})
	}
}

// A set has what comes before the key at which an attempt has ended, until it gives that back.
func TestHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := collect.New(&server{}, claim(), time.Second)
		c.Blocked("b")
		require.False(t, c.Has(), "it took all or none")
		c.Step(t.Context(), "a")
		c.Blocked("a")
		require.False(t, c.Has())
		c.Blocked("b")
		require.True(t, c.Has())
		c.Blocked("a")
		require.True(t, c.Has(), "it has lost that key, and may have others")
		c.Turn()
		c.Step(t.Context(), "a")
		require.False(t, c.Has())
		c.Turn()
		c.Step(t.Context(), "b")
		c.MayHave()
		require.True(t, c.Has())
		require.True(t, c.Before("a", "c"))
		require.False(t, c.Before("c", "c"))
	})
}

// A set joins each queue of a slot with the score that it had in the first, also after it has given back what
// it had.
func TestScores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := collect.New(&server{}, claim(), time.Second)
		require.Zero(t, c.Score("a"))
		c.Step(t.Context(), "a")
		c.Joined("b", 7)
		c.Joined("c", 9)
		require.EqualValues(t, 7, c.Score("a"))
		c.Turn()
		c.Step(t.Context(), "a")
		require.EqualValues(t, 7, c.Score("c"))
	})
}

func TestNoCollector(t *testing.T) {
	t.Parallel()
	var c *collect.Collector
	require.Nil(t, c.Keys())
	require.Equal(t, clock.Never, c.End())
	require.False(t, c.Has())
	c.Blocked("a")
	c.MayHave()
}
