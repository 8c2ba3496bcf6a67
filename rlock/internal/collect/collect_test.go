package collect_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/collect"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// server notes what is given back.
type server struct {
	requests []wire.Request
	silent   bool
}

func (s *server) RollBack(ctx context.Context, _ *wire.Claim, _ [][]string, r wire.Request) {
	s.requests = append(s.requests, r)
	if s.silent {
		<-ctx.Done()
	}
}

func claim() *wire.Claim {
	c := new(wire.Server).All([]string{"b", "c", "a"}, false)
	return &c
}

// inOrder returns a Collector of a set that takes its keys in order from now on.
func inOrder(t *testing.T, s *server, ttl time.Duration) *collect.Collector {
	t.Helper()
	c := collect.New(s, claim(), ttl)
	require.False(t, c.Meets("b"))
	require.False(t, c.Meets("b"), "others take the key for which it waits too")
	require.False(t, c.Meets("c"))
	require.Nil(t, c.Keys())
	require.Equal(t, clock.Never, c.End())
	require.True(t, c.Meets("b"))
	require.Equal(t, []string{"a", "b", "c"}, c.Keys())
	return c
}

// A set that takes its keys in order gives back what it has after ten seconds, and after twice as long the
// next time. It then waits for one key after the other again, and tries soon.
func TestPatience(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		c := inOrder(t, s, time.Hour)
		for n, patience := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
			time.Sleep(patience - time.Nanosecond)
			require.False(t, c.Over())
			time.Sleep(time.Nanosecond)
			require.True(t, c.Over())
			require.True(t, c.BeginAnew(t.Context(), "t"))
			require.False(t, c.BeginAnew(t.Context(), "t"), "it has nothing")
			require.Len(t, s.requests, n+1)
			require.Equal(t, wire.Request{Token: "t", TTL: time.Hour}, s.requests[n])
			require.False(t, c.Over())
			require.Nil(t, c.Keys())
			require.Equal(t, clock.Now().After(2*time.Second), c.End())
			require.False(t, c.Meets("c"))
			require.Equal(t, clock.Never, c.End())
			require.False(t, c.Meets("a"))
			require.True(t, c.Meets("c"))
		}
	})
}

// What is kept is confirmed before it expires.
func TestEnd(t *testing.T) {
	t.Parallel()
	for ttl, left := range map[time.Duration]time.Duration{
		3 * time.Second: time.Second,
		time.Minute:     10 * time.Second,
		clock.NoExpiry:  10 * time.Second,
	} {
		synctest.Test(t, func(t *testing.T) {
			require.Equal(t, clock.Now().After(left), inOrder(t, &server{}, ttl).End())
		})
	}
}

// blocked is an attempt that has ended at a held key.
func blocked(c *collect.Collector, kept int) { c.Blocked(c.Asks(), kept) }

// A set has the keys of which an answer has said so, until it gives them back, and may have some as long as
// an attempt to keep them has no answer.
func TestHas(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &server{}
		c := collect.New(s, claim(), time.Second)
		blocked(c, 0)
		require.False(t, c.Has(), "it took all or none")
		c.Got("a")
		require.True(t, c.Has(), "it has waited for one")
		c.GiveBack(t.Context(), "t")
		require.False(t, c.Has())

		c = inOrder(t, s, time.Second)
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
		c.GiveBack(t.Context(), "t")
		require.False(t, c.Has())
		require.NotNil(t, c.Keys(), "it goes on in order")
		c.Asks()
		blocked(c, 0)
		require.True(t, c.Has(), "the attempt before that has got no answer")
		require.True(t, c.BeginAnew(t.Context(), "t"))
		require.False(t, c.Has())
		require.Len(t, s.requests, 3)
	})
}

// A set has lost a key if an attempt ends at one that it had, or before one that it had.
func TestLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := inOrder(t, &server{}, time.Second)
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

// What a set has is given back within two seconds, also if the server is silent.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := inOrder(t, &server{silent: true}, time.Minute)
		start := time.Now()
		c.BeginAnew(t.Context(), "a")
		require.Equal(t, 2*time.Second, time.Since(start))
	})
}

// A set joins each queue of a slot with the score that it had in the first, also after it has given back what
// it had.
func TestScores(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := inOrder(t, &server{}, time.Second)
		require.Zero(t, c.Score("a"))
		c.Joined("b", 7)
		c.Joined("c", 9)
		require.EqualValues(t, 7, c.Score("a"))
		c.BeginAnew(t.Context(), "a")
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
	require.False(t, c.Over())
	require.False(t, c.BeginAnew(t.Context(), "a"))
	require.False(t, c.Asks())
	c.Blocked(false, 0)
}
