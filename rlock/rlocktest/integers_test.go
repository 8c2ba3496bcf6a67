package rlocktest_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// big has more than 32 bits, as fences have.
const big = int64(1763774399000000)

// What scripts count and reply is whole where an int has 32 bits too.
func TestScriptsHaveWholeIntegers(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		script string
		want   []int64
	}{
		"plain":           {`return 1763774399000000`, []int64{big}},
		"negative":        {`return -1763774399000000`, []int64{-big}},
		"cut to integers": {`return {1763774399000000.5, -1763774399000000.5, 1.9}`, []int64{big, -big, 1}},
		"in a list": {`return {1, 1763774399000000, {2147483647, 2147483648, -2147483648, -2147483649}}`,
			[]int64{1, big, 1<<31 - 1, 1 << 31, -1 << 31, -1<<31 - 1}},
		"counted": {
			`redis.call('SET', KEYS[1], '1763774399000000', 'PX', 60000)
			 return {redis.call('INCR', KEYS[1]), redis.pcall('INCRBY', KEYS[1], 2), redis.call('DECRBY', KEYS[1], '2'),
			   redis.call('decr', KEYS[1]), tonumber(redis.call('GET', KEYS[1])), redis.call('PTTL', KEYS[1]) > 0 and 1 or 0}`,
			[]int64{big + 1, big + 3, big + 1, big, big, 1},
		},
		"from nothing": {`return {redis.call('INCR', KEYS[1]), redis.call('INCRBY', KEYS[1], 2147483647)}`,
			[]int64{1, 1 << 31}},
		"back in 32 bits": {`redis.call('SET', KEYS[1], '2147483648') return {redis.call('DECR', KEYS[1]), redis.call('INCR', KEYS[1])}`, []int64{1<<31 - 1, 1 << 31}},
		"not a number": {`redis.call('SET', KEYS[1], 'x') return {redis.pcall('INCR', KEYS[1]).err and 1}`,
			[]int64{1}},
		"of another type": {`redis.call('RPUSH', KEYS[1], 'x') return {redis.pcall('INCR', KEYS[1]).err and 1}`,
			[]int64{1}},
		"too few words":    {`return {redis.pcall('INCR').err and 1, redis.pcall('INCRBY', KEYS[1], 1, 2).err and 1}`, []int64{1, 1}},
		"ends in a remark": {`return 1763774399000000 -- as it was`, []int64{big}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := rlocktest.Client(t)
			digest, err := do(t, c, "SCRIPT", "LOAD", tt.script).ToString()
			require.NoError(t, err)
			for _, words := range [][]string{{"EVAL", tt.script, "1", "k"}, {"EVALSHA", digest, "1", "k"}} {
				require.NoError(t, do(t, c, "DEL", "k").Error())
				reply, err := do(t, c, words...).ToMessage()
				require.NoError(t, err)
				require.Equal(t, tt.want, integers(t, reply))
			}
			require.NoError(t, do(t, c, "DEL", "k").Error())
			replies := c.DoMulti(t.Context(), c.B().Multi().Build(),
				c.B().Evalsha().Sha1(digest).Numkeys(1).Key("k").Build(), c.B().Exec().Build())
			all, err := replies[2].ToArray()
			require.NoError(t, err)
			require.Equal(t, tt.want, integers(t, all[0]))

			require.NoError(t, do(t, c, "SCRIPT", "FLUSH").Error())
			require.ErrorContains(t, do(t, c, "EVALSHA", digest, "1", "k").Error(), "NOSCRIPT")
		})
	}
}

// integers returns those of a reply, lists within it included.
func integers(t *testing.T, reply rueidis.RedisMessage) []int64 {
	t.Helper()
	if list, err := reply.ToArray(); err == nil {
		var all []int64
		for _, element := range list {
			all = append(all, integers(t, element)...)
		}
		return all
	}
	n, err := reply.ToInt64()
	require.NoError(t, err)
	return []int64{n}
}

// What a script says that is no integer is left alone.
func TestScriptsReplyWhatTheySay(t *testing.T) {
	t.Parallel()
	c := rlocktest.Client(t)
	for script, want := range map[string]string{
		`return 'text'`:                              "text",
		`return redis.status_reply('FINE')`:          "FINE",
		`return {ok = 'GOOD'}`:                       "GOOD",
		`return redis.call('SET', KEYS[1], ARGV[1])`: "OK",
		`return redis.call('GET', KEYS[1])`:          "1763774399000000",
		`local function f(...) return ... end return f(redis.call('TYPE', KEYS[1]).ok, 2)`: "string",
	} {
		require.NoError(t, do(t, c, "SET", "k", "1763774399000000").Error())
		got, err := do(t, c, "EVAL", script, "1", "k", "1763774399000000").ToString()
		require.NoError(t, err, script)
		require.Equal(t, want, got, script)
	}
	require.True(t, rueidis.IsRedisNil(do(t, c, "EVAL", "return", "0").Error()))
	require.ErrorContains(t, do(t, c, "EVAL", "local x = 1\nerror('second line')", "0").Error(), ":2:")
}

// A fence has some fifty bits: none may be lost on the way.
func TestFencesRiseOnTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	locker, err := rlock.New(rlocktest.Client(t), rlock.WithFence(true))
	require.NoError(t, err)
	defer locker.Close()
	var last uint64
	for range 3 {
		lock, err := locker.Acquire(t.Context(), "k")
		require.NoError(t, err)
		require.Greater(t, lock.Fence(), last)
		require.Less(t, lock.Fence(), uint64(1)<<53)
		require.Greater(t, lock.Fence(), uint64(1)<<50)
		last = lock.Fence()
		require.NoError(t, lock.Release(t.Context()))
		set, err := locker.AcquireAll(t.Context(), []string{"k", "l"})
		require.NoError(t, err)
		require.Greater(t, set.Fence(), last)
		last = set.Fence()
		require.NoError(t, set.Release(t.Context()))
	}
}
