package rlocktest_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// cached reads a key through the cache of the client.
func cached(t *testing.T, c rueidis.Client, key string) rueidis.RedisResult {
	t.Helper()
	return c.DoCache(t.Context(), c.B().Get().Key(key).Cache(), time.Hour)
}

// warm caches a key, and makes sure of it.
func warm(t *testing.T, c rueidis.Client, key string) {
	t.Helper()
	if err := cached(t, c, key).Error(); err != nil {
		require.True(t, rueidis.IsRedisNil(err), "%v", err)
	}
	require.True(t, cached(t, c, key).IsCacheHit())
}

func TestCacheIsInvalidated(t *testing.T) {
	t.Parallel()
	const set = "return redis.call('SET', KEYS[1], ARGV[1])"
	tests := map[string]struct {
		cause func(t *testing.T, s *rlocktest.Server, c rueidis.Client)
		want  string // what is read afterwards, empty for nothing
	}{
		"set": {
			func(t *testing.T, _ *rlocktest.Server, c rueidis.Client) {
				require.NoError(t, do(t, c, "SET", "k", "new").Error())
			}, "new",
		},
		"delete": {
			func(t *testing.T, _ *rlocktest.Server, c rueidis.Client) {
				require.NoError(t, do(t, c, "DEL", "k").Error())
			}, "",
		},
		"set in MULTI": {
			func(t *testing.T, _ *rlocktest.Server, c rueidis.Client) {
				for _, r := range c.DoMulti(t.Context(), c.B().Multi().Build(),
					c.B().Set().Key("k").Value("new").Build(), c.B().Exec().Build()) {
					require.NoError(t, r.Error())
				}
			}, "new",
		},
		"script": {
			func(t *testing.T, _ *rlocktest.Server, c rueidis.Client) {
				require.NoError(t, do(t, c, "EVAL", set, "1", "k", "new").Error())
			}, "new",
		},
		"script by digest": {
			func(t *testing.T, _ *rlocktest.Server, c rueidis.Client) {
				sha, err := do(t, c, "SCRIPT", "LOAD", set).ToString()
				require.NoError(t, err)
				require.NoError(t, do(t, c, "EVALSHA", sha, "1", "k", "new").Error())
			}, "new",
		},
		"script in MULTI": {
			func(t *testing.T, _ *rlocktest.Server, c rueidis.Client) {
				for _, r := range c.DoMulti(t.Context(), c.B().Multi().Build(),
					c.B().Eval().Script(set).Numkeys(1).Key("k").Arg("new").Build(), c.B().Exec().Build()) {
					require.NoError(t, r.Error())
				}
			}, "new",
		},
		"script with an undeclared key": {
			func(t *testing.T, _ *rlocktest.Server, c rueidis.Client) {
				require.NoError(t, do(t, c, "EVAL", "return redis.call('SET', 'k', 'new')", "0").Error())
			}, "new",
		},
		"script that fails after a write": {
			func(t *testing.T, _ *rlocktest.Server, c rueidis.Client) {
				require.Error(t, do(t, c, "EVAL", "redis.call('SET', 'k', 'new') error('oops')", "1", "k").Error())
			}, "new",
		},
		"script after SetError": {
			func(t *testing.T, s *rlocktest.Server, c rueidis.Client) {
				s.Redis().SetError("LOADING")
				s.Redis().SetError("")
				require.NoError(t, do(t, c, "EVAL", set, "1", "k", "new").Error())
			}, "new",
		},
		"flush": {
			func(t *testing.T, _ *rlocktest.Server, c rueidis.Client) {
				require.NoError(t, do(t, c, "FLUSHALL").Error())
			}, "",
		},
		"flush in a script": {
			func(t *testing.T, _ *rlocktest.Server, c rueidis.Client) {
				require.NoError(t, do(t, c, "EVAL", "return redis.call('FLUSHALL')", "0").Error())
			}, "",
		},
		"shortened TTL": {
			func(t *testing.T, _ *rlocktest.Server, c rueidis.Client) {
				require.NoError(t, do(t, c, "PEXPIRE", "k", "1").Error())
			}, "",
		},
		"expiry in moved time": {
			func(_ *testing.T, s *rlocktest.Server, _ rueidis.Client) {
				s.Redis().FastForward(2 * time.Minute)
			}, "",
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := rlocktest.Start(t)
			reader, writer := newClient(t, s), newClient(t, s)
			require.NoError(t, do(t, writer, "SET", "k", "old", "PX", "60000").Error())
			warm(t, reader, "k")
			tt.cause(t, s, writer)
			require.Eventually(t, func() bool {
				got, err := cached(t, reader, "k").ToString()
				return got == tt.want && (err == nil || rueidis.IsRedisNil(err) && tt.want == "")
			}, soon, time.Millisecond)
		})
	}
}

// The client would forget the value by itself, so the announcement is what to
// look at.
func TestExpiryIsAnnounced(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	c, keys := newListener(t, s)
	require.NoError(t, do(t, c, "SET", "stays", "v").Error())
	warm(t, c, "stays")

	key, start := "", time.Time{}
	for i := range 100 {
		// Not the same key again: setting it would announce it, too.
		key, start = "goes"+strconv.Itoa(i), time.Now()
		require.NoError(t, do(t, c, "SET", key, "v", "PX", "100").Error())
		if cached(t, c, key).Error() == nil {
			break
		}
	}
	timeout := time.After(soon)
	for got := ""; got != key; {
		select {
		case got = <-keys:
			require.NotEqual(t, "stays", got)
		case <-timeout:
			require.Fail(t, "not announced")
		}
	}
	t.Logf("announced after %v", time.Since(start))
	told(t, c, keys)
	require.True(t, cached(t, c, "stays").IsCacheHit())
}

func TestNothingChangedNothingAnnounced(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"SET NX":              {"SET", "k", "new", "NX"},
		"DEL of another":      {"DEL", "other"},
		"EXPIRE XX":           {"PEXPIRE", "k", "5", "XX"},
		"HDEL":                {"HDEL", "h", "no"},
		"error":               {"SET", "k", "new", "PX", "0"},
		"read":                {"GETRANGE", "k", "0", "1"},
		"value like the key":  {"SET", "other", "k"},
		"script that reads":   {"EVAL", "return redis.call('GET', KEYS[1])", "1", "k"},
		"script that refuses": {"EVAL", "return redis.call('SET', KEYS[1], 'x', 'NX')", "1", "k"},
	}
	s := rlocktest.Start(t)
	reader, writer := newClient(t, s), newClient(t, s)
	require.NoError(t, do(t, writer, "SET", "k", "old").Error())
	require.NoError(t, do(t, writer, "HSET", "h", "f", "v").Error())
	hash := func() rueidis.RedisResult {
		return reader.DoCache(t.Context(), reader.B().Hgetall().Key("h").Cache(), time.Hour)
	}
	require.NoError(t, hash().Error())
	warm(t, reader, "k")
	for name, words := range tests {
		_ = do(t, writer, words...).Error()
		// A push, if there was one, comes before the reply to this.
		require.NoError(t, do(t, reader, "PING").Error())
		require.True(t, cached(t, reader, "k").IsCacheHit(), name)
		require.True(t, hash().IsCacheHit(), name)
	}
}

// A write that comes between a read and its reply is announced, and after the
// reply: before it, the client would take the announcement for an older one.
func TestWriteDuringRead(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	reader, keys := newListener(t, s, "OPTOUT")
	writer := newClient(t, s)
	require.NoError(t, do(t, writer, "SET", "k", "old").Error())

	hasRead, mayReply := make(chan struct{}), make(chan struct{})
	require.NoError(t, s.Redis().Server().Register("SLOWGET", func(p *server.Peer, _ string, args []string) {
		value, _ := s.Redis().Get(args[0])
		close(hasRead)
		<-mayReply
		p.WriteBulk(value)
	}, server.ReadOnlyOption()))
	result := make(chan rueidis.RedisResult, 1)
	go func() {
		result <- reader.Do(t.Context(), reader.B().Arbitrary("SLOWGET").Keys("k").Build())
	}()
	<-hasRead
	err := do(t, writer, "SET", "k", "new").Error()
	early := len(keys)
	close(mayReply)
	require.NoError(t, err)
	require.Zero(t, early)
	require.Equal(t, "old", text(<-result))
	told(t, reader, keys, "k")
}
