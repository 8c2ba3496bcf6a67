package rlocktest_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// spin is a script whose first command sets or finds the key, and whose last reads it,
// so many microseconds later.
const spin = `
local function now()
  local t = redis.call('TIME')
  return t[1] * 1000000 + t[2]
end
local first = redis.call('SET', KEYS[1], 'script', 'NX', 'PX', 20)
local start = now()
repeat until now() - start >= tonumber(ARGV[1])
return {first and 1 or 0, redis.call('GET', KEYS[1])}`

// A script sees no key expire, as in Redis: what one of its commands has found is there
// for the next.
func TestNoKeyExpiresDuringAScript(t *testing.T) {
	t.Parallel()
	c := rlocktest.Client(t)
	run := func() []rueidis.RedisMessage {
		reply, err := do(t, c, "EVAL", spin, "1", "k", "50000").ToArray()
		require.NoError(t, err)
		require.Len(t, reply, 2)
		return reply
	}
	value := func(reply []rueidis.RedisMessage) string {
		text, err := reply[1].ToString()
		require.NoError(t, err, "it has expired between two commands")
		return text
	}
	require.Equal(t, "script", value(run()))
	require.True(t, rueidis.IsRedisNil(do(t, c, "GET", "k").Error()),
		"the lease began with the script, and is over")

	for found := false; !found; { // unless the machine was too slow
		require.NoError(t, do(t, c, "SET", "k", "mine", "PX", "20").Error())
		reply := run()
		taken, err := reply[0].ToInt64()
		require.NoError(t, err)
		if found = taken == 0; found {
			require.Equal(t, "mine", value(reply))
		}
		require.True(t, rueidis.IsRedisNil(do(t, c, "GET", "k").Error()), "it is over at last")
	}
}

// The leases of other keys run down while scripts run.
func TestScriptsCostLeasesTheirTime(t *testing.T) {
	t.Parallel()
	c := rlocktest.Client(t)
	const scripts, each = 20, 5 * time.Millisecond
	require.NoError(t, do(t, c, "SET", "other", "v", "PX", "60000").Error())
	before := time.Now()
	for range scripts {
		require.NoError(t, do(t, c, "EVAL", spin, "1", "k", "5000").Error())
	}
	passed := time.Since(before)
	left, err := do(t, c, "PTTL", "other").AsInt64()
	require.NoError(t, err)
	require.GreaterOrEqual(t, passed, scripts*each)
	require.LessOrEqual(t, left, (time.Minute - scripts*each).Milliseconds())
}
