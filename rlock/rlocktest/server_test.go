package rlocktest_test

import (
	"runtime"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// soon bounds how long anything may take that is bound to happen.
const soon = 10 * time.Second

func newClient(t *testing.T, s *rlocktest.Server) rueidis.Client {
	t.Helper()
	return newClientWith(t, s.Option())
}

func newClientWith(t *testing.T, o rueidis.ClientOption) rueidis.Client {
	t.Helper()
	c, err := rueidis.NewClient(o)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// do runs a command given as words.
func do(t *testing.T, c rueidis.Client, words ...string) rueidis.RedisResult {
	t.Helper()
	return c.Do(t.Context(), c.B().Arbitrary(words...).Build())
}

func TestTTLRunsDownInRealTime(t *testing.T) {
	t.Parallel()
	c := rlocktest.Client(t)
	start := time.Now()
	require.NoError(t, do(t, c, "SET", "k", "v", "PX", "60").Error())

	// Whether the key has to be there depends on how long asking took.
	got, err := do(t, c, "GET", "k").ToString()
	if time.Since(start) < 60*time.Millisecond {
		require.NoError(t, err)
		require.Equal(t, "v", got)
	}
	time.Sleep(61 * time.Millisecond)
	require.True(t, rueidis.IsRedisNil(do(t, c, "GET", "k").Error()))

	require.NoError(t, do(t, c, "SET", "k", "v", "PX", "60000").Error())
	first, err := do(t, c, "PTTL", "k").AsInt64()
	require.NoError(t, err)
	time.Sleep(20 * time.Millisecond)
	second, err := do(t, c, "PTTL", "k").AsInt64()
	require.NoError(t, err)
	require.LessOrEqual(t, second, first-20)
	require.Positive(t, second)
}

func TestTimeMoves(t *testing.T) {
	t.Parallel()
	c := rlocktest.Client(t)
	now := func() time.Time {
		parts, err := do(t, c, "TIME").AsStrSlice()
		require.NoError(t, err)
		require.Len(t, parts, 2)
		s, err := strconv.ParseInt(parts[0], 10, 64)
		require.NoError(t, err)
		us, err := strconv.ParseInt(parts[1], 10, 64)
		require.NoError(t, err)
		return time.Unix(s, us*1000)
	}
	before := now()
	time.Sleep(20 * time.Millisecond)
	require.GreaterOrEqual(t, now().Sub(before), 20*time.Millisecond)
	require.WithinDuration(t, time.Now(), now(), soon)
}

func TestServersAreSeparate(t *testing.T) {
	t.Parallel()
	a, b := rlocktest.Start(t), rlocktest.Start(t)
	require.NotEqual(t, a.Addr(), b.Addr())
	ca, cb := newClient(t, a), newClient(t, b)
	require.NoError(t, do(t, ca, "SET", "k", "a").Error())
	require.NoError(t, do(t, cb, "SET", "k", "b").Error())
	got, err := do(t, ca, "GET", "k").ToString()
	require.NoError(t, err)
	require.Equal(t, "a", got)
	got, err = do(t, cb, "GET", "k").ToString()
	require.NoError(t, err)
	require.Equal(t, "b", got)
}

func TestCloseTwice(t *testing.T) {
	t.Parallel()
	s, err := rlocktest.Open()
	require.NoError(t, err)
	addr := s.Addr()
	s.Close()
	s.Close()
	require.Equal(t, addr, s.Addr())
	_, err = s.Client()
	require.ErrorContains(t, err, "closed")
}

func TestCloseWithBlockedCommands(t *testing.T) {
	t.Parallel()
	s, err := rlocktest.Open()
	require.NoError(t, err)
	done := make(chan error, 8)
	for range cap(done) {
		o := s.Option()
		o.DisableRetry = true
		c := newClientWith(t, o)
		go func() { done <- c.Do(t.Context(), c.B().Blpop().Key("list").Timeout(0).Build()).Error() }()
	}
	require.Eventually(t, func() bool { return s.Redis().CommandCount() > 2*cap(done) }, soon, time.Millisecond)
	s.Close()
	for range cap(done) {
		require.Error(t, <-done)
	}
}

// Not parallel: it counts goroutines.
func TestNothingIsLeftRunning(t *testing.T) {
	round := func() {
		s, err := rlocktest.Open()
		require.NoError(t, err)
		defer s.Close()
		c, err := s.Client()
		require.NoError(t, err)
		defer c.Close()
		require.NoError(t, do(t, c, "SET", "k", "v", "PX", "60000").Error())
		require.NoError(t, c.DoCache(t.Context(), c.B().Get().Key("k").Cache(), time.Minute).Error())
	}
	round()
	// Clients take a moment to wind up, so the number is given time to fall.
	var before int
	require.Eventually(t, func() bool {
		last := before
		before = runtime.NumGoroutine()
		return last == before
	}, soon, 100*time.Millisecond)
	for range 20 {
		round()
	}
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before }, soon, 10*time.Millisecond)
}

func TestRedisFailsCommands(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	c := newClient(t, s)
	require.NoError(t, do(t, c, "SET", "k", "v").Error())
	s.Redis().SetError("READONLY no writes today")
	require.ErrorContains(t, do(t, c, "SET", "k", "w").Error(), "READONLY")
	s.Redis().SetError("")
	require.NoError(t, do(t, c, "SET", "k", "w").Error())
	got, err := s.Redis().Get("k")
	require.NoError(t, err)
	require.Equal(t, "w", got)
}
