package rlocktest_test

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// newListener returns a client with these tracking options, and the keys it is
// told of, with "*" for all of them.
func newListener(t *testing.T, s *rlocktest.Server, options ...string) (rueidis.Client, <-chan string) {
	t.Helper()
	keys := make(chan string, 64)
	o := s.Option()
	o.ClientTrackingOptions = options
	o.OnInvalidations = func(messages []rueidis.RedisMessage) {
		if messages == nil {
			keys <- "*"
		}
		for _, m := range messages {
			key, err := m.ToString()
			if err != nil {
				key = "error: " + err.Error()
			}
			keys <- key
		}
	}
	return newClientWith(t, o), keys
}

// told checks which keys come next, and that no others do. Pushes are written
// before the reply to the command that caused them, so after a command of the
// listener itself there are none on the way.
func told(t *testing.T, c rueidis.Client, got <-chan string, want ...string) {
	t.Helper()
	for _, key := range want {
		select {
		case k := <-got:
			require.Equal(t, key, k)
		case <-time.After(soon):
			require.Fail(t, "not told", key)
		}
	}
	require.NoError(t, do(t, c, "PING").Error())
	require.Empty(t, got)
}

func TestOptIn(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	reader, keys := newListener(t, s)
	writer := newClient(t, s)

	require.NoError(t, do(t, writer, "SET", "k", "v").Error())
	require.NoError(t, do(t, reader, "GET", "k").Error())
	require.NoError(t, do(t, writer, "SET", "k", "v").Error())
	told(t, reader, keys)

	warm(t, reader, "k")
	require.NoError(t, do(t, writer, "SET", "k", "v").Error())
	require.NoError(t, do(t, writer, "SET", "k", "v").Error())
	told(t, reader, keys, "k")

	warm(t, reader, "k")
	require.NoError(t, do(t, writer, "FLUSHALL").Error())
	told(t, reader, keys, "*")
}

func TestOptOut(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	reader, keys := newListener(t, s, "OPTOUT")
	writer := newClient(t, s)

	_ = do(t, reader, "GET", "k").Error()
	require.NoError(t, do(t, writer, "SET", "k", "v").Error())
	require.NoError(t, do(t, writer, "SET", "k", "v").Error())
	told(t, reader, keys, "k")

	require.NoError(t, do(t, reader, "EVAL", "return redis.call('GET', KEYS[1])", "1", "k").Error())
	require.NoError(t, do(t, writer, "SET", "k", "v").Error())
	told(t, reader, keys, "k")

	require.NoError(t, do(t, reader, "GET", "k").Error())
	require.NoError(t, do(t, reader, "SET", "k", "own").Error())
	told(t, reader, keys, "k")

	for _, r := range reader.DoMulti(t.Context(),
		reader.B().Arbitrary("CLIENT", "CACHING", "NO").Build(), reader.B().Get().Key("k").Build()) {
		require.NoError(t, r.Error())
	}
	require.NoError(t, do(t, writer, "SET", "k", "v").Error())
	told(t, reader, keys)
}

func TestNoLoop(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	reader, keys := newListener(t, s, "OPTOUT", "NOLOOP")
	writer := newClient(t, s)

	_ = do(t, reader, "GET", "k").Error()
	require.NoError(t, do(t, reader, "SET", "k", "own").Error())
	require.NoError(t, do(t, writer, "SET", "k", "v").Error())
	told(t, reader, keys)

	require.NoError(t, do(t, reader, "GET", "k").Error())
	require.NoError(t, do(t, writer, "SET", "k", "v").Error())
	told(t, reader, keys, "k")
}

func TestBroadcast(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	writer := newClient(t, s)
	require.NoError(t, do(t, writer, "SET", "p:before", "v", "PX", "60000").Error())
	reader, keys := newListener(t, s, "BCAST", "PREFIX", "p:", "PREFIX", "q:", "NOLOOP")

	require.NoError(t, do(t, writer, "SET", "p:1", "q:value").Error())
	require.NoError(t, do(t, writer, "SET", "other", "p:value").Error())
	require.True(t, rueidis.IsRedisNil(do(t, writer, "SET", "p:1", "refused", "NX").Error()))
	require.NoError(t, do(t, reader, "SET", "p:1", "own").Error())
	told(t, reader, keys, "p:1")

	require.NoError(t, do(t, writer, "EVAL",
		"redis.call('SET', KEYS[1], 'v') return redis.call('PEXPIRE', KEYS[1], 60000)", "1", "q:1").Error())
	told(t, reader, keys, "q:1")

	s.Redis().FastForward(time.Hour)
	require.Eventually(t, func() bool { return len(keys) == 2 }, soon, time.Millisecond)
	require.ElementsMatch(t, []string{"p:before", "q:1"}, []string{<-keys, <-keys})
	told(t, reader, keys)
}

// An expiry that is no more to come is not announced, unless it was being looked
// for just when the key was deleted.
func TestDeletedIsNotExpired(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	c, keys := newListener(t, s, "BCAST")
	for range 10 {
		require.NoError(t, do(t, c, "SET", "k", "v", "PX", "60000").Error())
		require.NoError(t, do(t, c, "DEL", "k").Error())
		time.Sleep(30 * time.Millisecond)
		require.NoError(t, do(t, c, "PING").Error())
		n := len(keys)
		require.GreaterOrEqual(t, n, 2)
		if n == 2 {
			return
		}
		for range n {
			<-keys
		}
	}
	require.Fail(t, "always announced twice")
}

func TestTrackingErrors(t *testing.T) {
	t.Parallel()
	c := rlocktest.Client(t)
	for command, want := range map[string]string{
		"TRACKING":                 "wrong number of arguments",
		"TRACKING MAYBE":           "syntax error",
		"TRACKING ON LATER":        "syntax error",
		"TRACKING ON BCAST PREFIX": "syntax error",
		"TRACKING ON PREFIX p:":    "requires BCAST",
		"TRACKING ON BCAST OPTIN":  "not compatible with BCAST",
		"TRACKING ON OPTIN OPTOUT": "both OPTIN mode and OPTOUT mode",
		"TRACKING ON REDIRECT 42":  "REDIRECT is not supported",
		"CACHING":                  "wrong number of arguments",
		"CACHING MAYBE":            "syntax error",
		"CACHING NO":               "only valid when tracking is enabled in OPTOUT mode",
		"NO-SUCH-THING":            "unknown subcommand",
	} {
		require.ErrorContains(t, do(t, c, append([]string{"CLIENT"}, words(command)...)...).Error(), want, command)
	}
	require.NoError(t, do(t, c, "CLIENT", "TRACKING", "OFF").Error())
	require.ErrorContains(t, do(t, c, "CLIENT", "CACHING", "YES").Error(), "can be called only when")
}
