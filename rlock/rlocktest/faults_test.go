package rlocktest_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

func happened(t *testing.T, done <-chan struct{}) bool {
	t.Helper()
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// onBoth runs a test with a server on the network and one in memory, and a client of it
// that sends nothing again.
func onBoth(t *testing.T, test func(t *testing.T, s *rlocktest.Server, c rueidis.Client)) {
	t.Helper()
	for name, start := range map[string]func(t testing.TB) *rlocktest.Server{
		"network": rlocktest.Start, "memory": rlocktest.StartInMemory,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := start(t)
			o := s.Option()
			o.DisableRetry = true
			test(t, s, newClientWith(t, o))
		})
	}
}

// script is one whose runs can be counted.
const script = "return redis.call('INCR', KEYS[1])"

func TestFaultsMatchCommands(t *testing.T) {
	t.Parallel()
	const sha = "1b5a1c1e1f5a4d1c6f0e1f7f7a5a5d5c5b5a5958" // of no script
	for name, test := range map[string]struct {
		match   rlocktest.Match
		matches [][]string
		not     [][]string
	}{
		"command": {rlocktest.Command("set"), [][]string{{"SET", "a", "b"}},
			[][]string{{"GET", "set"}, {"SETNX", "a", "b"}}},
		"key": {rlocktest.Key("a"), [][]string{{"GET", "a"}, {"MGET", "b", "a"}, {"EVAL", "x", "1", "a"}},
			[][]string{{"GET", "b"}, {"EVAL", "x", "1", "b", "a"}, {"PING"}, {"SET", "b", "a"}}},
		"script": {rlocktest.Script("e0e1f9fabfc9d4800c877a703b823ac0578ff8db"), // that of "return 1"
			[][]string{{"EVAL", "return 1", "0"}, {"EVALSHA", "E0E1F9FABFC9D4800C877A703B823AC0578FF8DB", "0"},
				{"EVAL_RO", "return 1", "0"}},
			[][]string{{"EVAL", "return 2", "0"}, {"EVALSHA", sha, "0"}, {"EVALSHA"},
				{"SET", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", "x"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, words := range test.matches {
				require.True(t, test.match(words), "%q", words)
			}
			for _, words := range test.not {
				require.False(t, test.match(words), "%q", words)
			}
		})
	}
}

// Faults are for one command each, in the order in which they were asked for.
func TestFailNext(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *rlocktest.Server, c rueidis.Client) {
		first, second := s.FailNext(rlocktest.Key("k"), "MISCONF no"),
			s.FailNext(rlocktest.Command("SET"), "OOM no")
		require.EqualError(t, do(t, c, "SET", "k", "v").Error(), "MISCONF no")
		require.True(t, happened(t, first))
		require.False(t, happened(t, second))
		require.EqualError(t, do(t, c, "SET", "k", "v").Error(), "OOM no")
		require.True(t, happened(t, second))
		require.True(t, rueidis.IsRedisNil(do(t, c, "GET", "k").Error()), "neither ran")
		require.NoError(t, do(t, c, "SET", "k", "v").Error())
	})
}

// A refused command makes its transaction fail, and a refused EXEC ends it.
func TestFailNextInATransaction(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *rlocktest.Server, c rueidis.Client) {
		transaction := func() error {
			replies := c.DoMulti(t.Context(), c.B().Multi().Build(), c.B().Incr().Key("k").Build(),
				c.B().Exec().Build())
			return replies[2].Error()
		}
		s.FailNext(rlocktest.Key("k"), "OOM no")
		require.ErrorContains(t, transaction(), "EXECABORT")
		s.FailNext(rlocktest.Command("EXEC"), "MISCONF no")
		require.ErrorContains(t, transaction(), "MISCONF")
		require.NoError(t, transaction())
		value, err := s.Redis().Get("k")
		require.NoError(t, err)
		require.Equal(t, "1", value)
	})
}

// A client-side cache is right again after a read that was refused.
func TestFailNextOfACachedRead(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *rlocktest.Server, c rueidis.Client) {
		require.NoError(t, do(t, c, "SET", "k", "v").Error())
		read := func() (string, error) {
			return c.DoCache(t.Context(), c.B().Get().Key("k").Cache(), time.Minute).ToString()
		}
		s.FailNext(rlocktest.Command("GET"), "LOADING now")
		_, err := read()
		require.Error(t, err)
		value, err := read()
		require.NoError(t, err)
		require.Equal(t, "v", value)
		s.Take("k", 0)
		require.Eventually(t, func() bool { value, err := read(); return err == nil && value == "stranger" }, soon,
			time.Millisecond)
	})
}

// The script runs once, also if the server has to be told its text first.
func TestLoseReply(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *rlocktest.Server, c rueidis.Client) {
		lua := rueidis.NewLuaScript(script)
		for i, know := range []bool{false, true} {
			lost := s.LoseReply(rlocktest.Key("k"))
			err := lua.Exec(t.Context(), c, []string{"k"}, nil).Error()
			require.Error(t, err)
			_, answered := rueidis.IsRedisErr(err)
			require.False(t, answered, "%v, known: %t", err, know)
			require.True(t, happened(t, lost))
			value, err := s.Redis().Get("k")
			require.NoError(t, err)
			require.Equal(t, string(rune('1'+i)), value)
		}
		require.Eventually(t, func() bool { return do(t, c, "PING").Error() == nil }, soon, time.Millisecond,
			"it connects again")
	})
}

func TestSilence(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *rlocktest.Server, c rueidis.Client) {
		require.NoError(t, do(t, c, "SET", "k", "v").Error())
		other := newClientWith(t, s.Option())
		require.NoError(t, do(t, other, "PING").Error())
		first, second := s.Silence(), s.Silence()
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, c.Do(ctx, c.B().Set().Key("k").Value("w").Build()).Error(), context.DeadlineExceeded)
		first()
		first() // a second time does nothing
		ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		require.ErrorIs(t, c.Do(ctx, c.B().Get().Key("k").Build()).Error(), context.DeadlineExceeded,
			"the other goes on")
		second()
		require.Eventually(t, func() bool {
			value, err := do(t, c, "GET", "k").ToString()
			return err == nil && value == "v"
		}, soon, time.Millisecond, "it connects again, and what it sent never ran")
		require.NoError(t, do(t, other, "PING").Error(), "who has lost nothing goes on")
	})
}

func TestDelay(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *rlocktest.Server, c rueidis.Client) {
		require.NoError(t, do(t, c, "PING").Error())
		s.Delay(100 * time.Millisecond)
		began := time.Now()
		require.NoError(t, do(t, c, "SET", "k", "v").Error())
		require.GreaterOrEqual(t, time.Since(began), 100*time.Millisecond)
		s.Delay(0)
		value, err := do(t, c, "GET", "k").ToString()
		require.NoError(t, err)
		require.Equal(t, "v", value)
	})
}

func TestRestart(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *rlocktest.Server, c rueidis.Client) {
		addr := s.Addr()
		require.NoError(t, do(t, c, "SET", "k", "v").Error())
		sha, err := do(t, c, "SCRIPT", "LOAD", script).ToString()
		require.NoError(t, err)
		s.Stop()
		s.Stop()
		require.Error(t, do(t, c, "PING").Error())
		for _, data := range []rlocktest.Data{rlocktest.KeepData, rlocktest.LoseData} {
			require.NoError(t, s.Restart(data)) // the second time of a server that runs
			require.Equal(t, addr, s.Addr())
			require.Eventually(t, func() bool { return do(t, c, "PING").Error() == nil }, soon, time.Millisecond)
			require.Equal(t, data == rlocktest.KeepData, s.Redis().Exists("k"))
			err := do(t, c, "EVALSHA", sha, "1", "k").Error()
			require.ErrorContains(t, err, "NOSCRIPT")
		}
		s.Close()
	})
}

// A command that waits does not keep the server from stopping, nor from being closed.
func TestStopWithBlockedCommands(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *rlocktest.Server, c rueidis.Client) {
		done := make(chan error, 1)
		before := s.Redis().CommandCount()
		go func() { done <- c.Do(t.Context(), c.B().Blpop().Key("list").Timeout(0).Build()).Error() }()
		require.Eventually(t, func() bool { return s.Redis().CommandCount() > before }, soon, time.Millisecond)
		s.Stop()
		require.Error(t, <-done)
		require.NoError(t, s.Restart(rlocktest.KeepData))
	})
}

func TestStranger(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *rlocktest.Server, _ rueidis.Client) {
		c, told := newListener(t, s, "BCAST")
		s.Take("k", time.Minute)
		require.Equal(t, "k", <-told)
		s.Shorten("k", 30*time.Second)
		require.Equal(t, "k", <-told)
		left, err := do(t, c, "PTTL", "k").AsInt64()
		require.NoError(t, err)
		require.InDelta(t, 30_000, left, 10_000)
		s.Take("k", 0)
		require.Equal(t, "k", <-told)
		left, err = do(t, c, "PTTL", "k").AsInt64()
		require.NoError(t, err)
		require.Equal(t, int64(-1), left)
		s.Free("k")
		require.Equal(t, "k", <-told)
		require.False(t, s.Redis().Exists("k"))
		s.Redis().SetError("READONLY no")
		require.PanicsWithError(t, "rlocktest: DEL: READONLY no", func() { s.Free("k") })
		require.ErrorContains(t, s.Restart(rlocktest.LoseData), "READONLY")
		s.Redis().SetError("")
		require.Panics(t, func() { s.Take("k", time.Microsecond) })
		require.Panics(t, func() { s.Shorten("k", -time.Second) })
	})
}

// What is wrong with a call panics there, and not in a goroutine of the server or not at all.
func TestMisuse(t *testing.T) {
	t.Parallel()
	onBoth(t, func(t *testing.T, s *rlocktest.Server, c rueidis.Client) {
		for want, call := range map[string]func(){
			"rlocktest: FailNext: the text is empty; say what the server answers, or use LoseReply": func() { s.FailNext(rlocktest.Key("k"), "") },
			"rlocktest: FailNext: the match is nil":                                                 func() { s.FailNext(nil, "OOM no") },
			"rlocktest: LoseReply: the match is nil":                                                func() { s.LoseReply(nil) },
			"rlocktest: the lease 1.5ms is not a whole number of milliseconds": func() {
				s.Take(
					"k", 1500*time.Microsecond)
			},
			"rlocktest: the lease 1.000000001s is not a whole number of milliseconds": func() {
				s.Shorten("k",
					time.Second+1)
			},
		} {
			require.PanicsWithValue(t, want, call)
		}
		require.NoError(t, do(t, c, "SET", "k", "v").Error(), "there is no fault")
	})
}
