package rlocktest_test

import (
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

func words(s string) []string { return strings.Fields(s) }

// A failure that comes and goes in the midst of a transaction ends it, as it
// does in Redis, and does not leave the connection in it.
func TestFailureInMulti(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"of a queued command":    {"MULTI", "GET k", "fail", "GET k", "mend", "EXEC abort"},
		"of all but MULTI":       {"MULTI", "fail", "GET k", "EXEC fail", "mend"},
		"of EXEC":                {"MULTI", "GET k", "fail", "EXEC fail", "mend"},
		"of DISCARD":             {"MULTI", "GET k", "fail", "DISCARD fail", "mend"},
		"of EXEC and what comes": {"MULTI", "GET k", "fail", "EXEC fail", "PING", "mend"},
	}
	for name, steps := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := rlocktest.Start(t)
			client := newClient(t, s)
			require.NoError(t, do(t, client, "SET", "k", "v").Error())
			c, release := client.Dedicate()
			defer release()
			run := func(words ...string) rueidis.RedisResult {
				return c.Do(t.Context(), c.B().Arbitrary(words...).Build())
			}
			for _, step := range steps {
				switch step {
				case "fail":
					s.Redis().SetError("LOADING a long while")
				case "mend":
					s.Redis().SetError("")
				case "EXEC abort":
					require.ErrorContains(t, run("EXEC").Error(), "EXECABORT")
				case "EXEC fail", "DISCARD fail":
					require.ErrorContains(t, run(words(step)[0]).Error(), "LOADING")
				default:
					_ = run(words(step)...).Error()
				}
			}
			got, err := run("GET", "k").ToString()
			require.NoError(t, err)
			require.Equal(t, "v", got)

			require.NoError(t, run("MULTI").Error())
			require.NoError(t, run("GET", "k").Error())
			values, err := run("EXEC").AsStrSlice()
			require.NoError(t, err)
			require.Equal(t, []string{"v"}, values)
		})
	}
}

func TestMultiReplies(t *testing.T) {
	t.Parallel()
	c := rlocktest.Client(t)
	require.NoError(t, do(t, c, "HSET", "h", "f", "v").Error())
	rs := c.DoMulti(t.Context(),
		c.B().Multi().Build(),
		c.B().Hexpire().Key("h").Seconds(100).Fields().Numfields(1).Field("f").Build(),
		c.B().Select().Index(1).Build(),
		c.B().Set().Key("k").Value("v").Build(),
		c.B().Arbitrary("BLPOP", "none", "0").Build(),
		c.B().Exec().Build())
	exec, err := rs[len(rs)-1].ToArray()
	require.NoError(t, err)
	require.Len(t, exec, 4)
	expired, err := exec[0].AsIntSlice()
	require.NoError(t, err)
	require.Equal(t, []int64{1}, expired)

	require.NoError(t, do(t, c, "MULTI").Error())
	require.Error(t, do(t, c, "NO-SUCH-THING").Error())
	require.ErrorContains(t, do(t, c, "EXEC").Error(), "EXECABORT")
	require.NoError(t, do(t, c, "MULTI").Error())
	require.Error(t, do(t, c, "MULTI").Error())
	require.NoError(t, do(t, c, "DISCARD").Error())
	require.ErrorContains(t, do(t, c, "EXEC").Error(), "EXEC without MULTI")
}
