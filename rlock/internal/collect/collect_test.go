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
type server struct {
	requests []remote.Request
	silent   bool
}

func (s *server) RollBack(ctx context.Context, _ *remote.Claim, _ [][]string, r remote.Request) {
	s.requests = append(s.requests, r)
	if s.silent {
		<-ctx.Done()
	}
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

// blocked is an attempt that has ended at a held key.
func blocked(c *collect.Collector, kept int) { c.Blocked(c.Asks(), kept) }

// A set has the keys of which an answer has said so, until it gives them back, and may have some as long as an
// attempt has no answer.
func TestHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		c := collect.New(s, claim(), time.Second)
		blocked(c, 0)
		require.False(t, c.Has(), "it took all or none")
		c.Step(t.Context(), "a")
		blocked(c, 0)
		require.False(t, c.Has())
		unsure := c.Asks()
		require.True(t, c.Has(), "there is no answer yet")
		c.Blocked(unsure, 0)
		require.False(t, c.Has())
		blocked(c, 1)
		require.True(t, c.Has())
		blocked(c, 0)
		require.True(t, c.Has(), "it has lost that key, and may have others")
		c.Turn()
		c.Step(t.Context(), "a")
		require.False(t, c.Has())
		c.Turn()
		c.Step(t.Context(), "b")
		c.Asks()
		blocked(c, 0)
		require.True(t, c.Has(), "the attempt before that has got no answer")
		c.GiveBack(t.Context(), "b")
		require.False(t, c.Has())
		require.NotNil(t, c.Keys(), "its turn goes on")
		require.Len(t, s.requests, 2)
		c.Got("a")
		require.True(t, c.Has())
	})
}

// A set has lost a key if an attempt ends at one that it had, or before one that it had.
func TestLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := collect.New(&server{}, claim(), time.Second)
		c.Step(t.Context(), "t")
		require.False(t, c.Lost("a"))
		blocked(c, 1)
		require.True(t, c.Lost("a"))
		require.False(t, c.Lost("b"))
		c.Got("b")
		require.True(t, c.Lost("b"))
		require.False(t, c.Lost("c"))
		blocked(c, 3) // the last was lost after the others had been taken
		require.True(t, c.Lost("c"))
		c.GiveBack(t.Context(), "t")
		require.False(t, c.Lost("a"))
	})
}

// A call may wait for its answer until the turn of the set ends, but for a second at least. What the set has is
// given back within a turn, also if the server is silent.
func TestPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{silent: true}
		c := collect.New(s, claim(), time.Minute)
		c.Step(t.Context(), "a")
		require.Equal(t, 2*time.Second, c.Patience())
		time.Sleep(500 * time.Millisecond)
		require.Equal(t, 1500*time.Millisecond, c.Patience())
		time.Sleep(time.Second)
		require.Equal(t, time.Second, c.Patience())
		time.Sleep(500 * time.Millisecond)
		start := time.Now()
		c.Step(t.Context(), "a")
		require.Equal(t, 2*time.Second, time.Since(start))
		require.Equal(t, clock.Now().After(2*time.Second), c.End(), "then the other turn begins")
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
	require.False(t, c.Lost("a"))
	require.Equal(t, 2*time.Second, c.Patience())
	require.False(t, c.Asks())
	c.Blocked(false, 0)
}
