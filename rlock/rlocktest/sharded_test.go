package rlocktest_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// listen subscribes a connection to sharded channels, and returns it with what it hears.
func listen(t *testing.T, c rueidis.Client, channels ...string) (rueidis.DedicatedClient, <-chan string) {
	t.Helper()
	heard := make(chan string, 100)
	dedicated, release := c.Dedicate()
	t.Cleanup(release)
	dedicated.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) { heard <- m.Channel + " " + m.Message },
	})
	require.NoError(t, dedicated.Do(t.Context(),
		dedicated.B().Ssubscribe().Channel(channels...).Build()).Error())
	return dedicated, heard
}

func hears(t *testing.T, heard <-chan string, want string) {
	t.Helper()
	select {
	case got := <-heard:
		require.Equal(t, want, got)
	case <-time.After(soon):
		require.FailNow(t, "nothing is heard", want)
	}
}

func listeners(t *testing.T, c rueidis.Client, channel string) int64 {
	t.Helper()
	counts, err := do(t, c, "PUBSUB", "SHARDNUMSUB", channel).ToArray()
	require.NoError(t, err)
	require.Len(t, counts, 2)
	n, err := counts[1].ToInt64()
	require.NoError(t, err)
	return n
}

func TestShardedChannels(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]func(*rueidis.ClientOption){
		"RESP3": func(*rueidis.ClientOption) {},
		"RESP2": func(o *rueidis.ClientOption) { o.AlwaysRESP2, o.DisableCache = true, true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := rlocktest.Start(t)
			o := s.Option()
			option(&o)
			c, other := newClientWith(t, o), newClient(t, s)
			require.Zero(t, listeners(t, other, "a"))
			sent, err := do(t, other, "SPUBLISH", "a", "nobody").ToInt64()
			require.NoError(t, err)
			require.Zero(t, sent)

			dedicated, heard := listen(t, c, "a", "b")
			require.Equal(t, int64(1), listeners(t, other, "a"))
			sent, err = do(t, other, "SPUBLISH", "b", "x\x00 y").ToInt64()
			require.NoError(t, err)
			require.Equal(t, int64(1), sent)
			hears(t, heard, "b x\x00 y")
			require.NoError(t, do(t, other, "PUBLISH", "a", "another channel of that name").Error())
			require.NoError(t, do(t, other, "SPUBLISH", "a", "1").Error())
			hears(t, heard, "a 1")

			require.NoError(t, dedicated.Do(t.Context(), dedicated.B().Sunsubscribe().Channel("a").Build()).Error())
			require.Zero(t, listeners(t, other, "a"))
			require.Equal(t, int64(1), listeners(t, other, "b"))
			dedicated.Close()
			require.Eventually(t, func() bool { return listeners(t, other, "b") == 0 }, soon, time.Millisecond)
		})
	}
}

// A message of a script is heard when the script is over, and the script knows who hears it.
func TestShardedChannelsInScripts(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	c, other := newClient(t, s), newClient(t, s)
	_, heard := listen(t, c, "a")
	const script = `
local before = redis.call('PUBSUB', 'SHARDNUMSUB', ARGV[1])
local sent = redis.call('SPUBLISH', ARGV[1], 'early')
redis.call('SET', KEYS[1], 'late')
return {before[1], before[2], sent}`
	reply, err := do(t, other, "EVAL", script, "1", "k", "a").ToArray()
	require.NoError(t, err)
	require.Len(t, reply, 3)
	for i := range reply[1:] {
		n, err := reply[1+i].ToInt64()
		require.NoError(t, err)
		require.Equal(t, int64(1), n)
	}
	hears(t, heard, "a early")
	require.Equal(t, "late", text(do(t, c, "GET", "k")))

	require.ErrorContains(t, do(t, other, "EVAL_RO", "return redis.call('SPUBLISH', 'a', 'x')", "0").Error(),
		"read-only")
	require.ErrorContains(t, do(t, other, "EVAL", "return redis.call('SSUBSCRIBE', 'a')", "0").Error(),
		"Unknown Redis command")
	n, err := do(t, other, "EVAL", "return redis.call('PUBSUB', 'SHARDNUMSUB')", "0").ToArray()
	require.NoError(t, err)
	require.Empty(t, n)
}

// What a script does to a cached key and what it says arrive at one connection, which goes on
// to accept all commands.
func TestShardedChannelsBesideTracking(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	c, other := newClient(t, s), newClient(t, s)
	dedicated, heard := listen(t, c, "a")
	require.NoError(t, do(t, other, "SET", "k", "old").Error())
	for i := range 100 {
		require.NoError(t, do(t, other, "SPUBLISH", "a", "1").Error())
		got, err := dedicated.Do(t.Context(), dedicated.B().Get().Key("k").Build()).ToString()
		require.NoError(t, err, i)
		require.Equal(t, "old", got)
		hears(t, heard, "a 1")
	}
}

func TestShardedChannelsRefuse(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	c := newClient(t, s)
	for _, words := range [][]string{{"SPUBLISH"}, {"SPUBLISH", "a"}, {"SPUBLISH", "a", "b", "c"}} {
		require.ErrorContains(t, do(t, c, words...).Error(), "wrong number of arguments", words)
	}
	dedicated, release := c.Dedicate()
	require.ErrorContains(t, dedicated.Do(t.Context(), dedicated.B().Ssubscribe().Channel().Build()).Error(),
		"wrong number of arguments")
	release()
	replies := c.DoMulti(t.Context(), c.B().Multi().Build(), c.B().Arbitrary("SPUBLISH", "a", "b").Build(),
		c.B().Arbitrary("PUBSUB", "SHARDNUMSUB", "a").Build(), c.B().Exec().Build())
	require.NoError(t, replies[0].Error())
	require.ErrorContains(t, replies[1].Error(), "MULTI")
	require.ErrorContains(t, replies[2].Error(), "MULTI")
	require.ErrorContains(t, replies[3].Error(), "EXECABORT")

	s.Redis().RequireAuth("secret")
	o := s.Option()
	o.Password = "secret"
	authenticated := newClientWith(t, o)
	require.NoError(t, do(t, authenticated, "SPUBLISH", "a", "b").Error())
	require.Zero(t, listeners(t, authenticated, "a"))
	for _, words := range [][]string{{"SPUBLISH", "a", "b"}, {"PUBSUB", "SHARDNUMSUB", "a"}} {
		require.ErrorContains(t, do(t, c, words...).Error(), "NOAUTH", words)
	}
}
