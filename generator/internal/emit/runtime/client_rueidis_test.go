package runtime

import (
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// What the other tests need of the client. The module rlock_test/goredis runs them with go-redis.

func newClient(t *testing.T) client {
	t.Helper()
	return rlocktest.Client(t)
}

func sumOf(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

func newScript(source string) luaScript {
	return newLuaScript("Script", sumOf(source), source, true, map[string]error{"STALE": errStale}, nil)
}

func newReadOnly(source string) luaScript {
	return newReadOnlyScript("Script", sumOf(source), source, true, nil, nil)
}

// reply makes a message of what a script returns.
func reply(t *testing.T, client client, lua string) result {
	t.Helper()
	return client.Do(t.Context(), client.B().Eval().Script("return "+lua).Numkeys(0).Build())
}

func isServerError(err error) bool {
	var server *rueidis.RedisError
	return errors.As(err, &server)
}

// readable reports whether the client reads a reply as RESP has it.
func readable(tree) bool { return true }

// newPuppet returns a function that makes a reply of what a server would send.
func newPuppet(t testing.TB) func(ctx context.Context, wire string) result {
	t.Helper()
	answers := make(chan string, 1)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{"puppet:0"}, ForceSingleClient: true, DisableCache: true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			near, far := net.Pipe()
			go serve(far, answers)
			return near, nil
		},
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return func(ctx context.Context, wire string) result {
		answers <- wire
		return client.Do(ctx, client.B().Eval().Script("").Numkeys(0).Build())
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	require.Equal(t, options{retry: true}, newOptions(nil))
	o := newOptions([]Option{nil, WithoutRetry(), WithLuaOptions(rueidis.WithLoadSHA1(true)), WithLuaOptions()})
	require.False(t, o.retry)
	require.Len(t, o.lua, 1)
}

func TestRaw(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	s := &luaScript{name: "Script"}
	m, err := decodeValue(s, reply(t, client, `{1, {'a'}, false}`), decodeRaw)
	require.NoError(t, err)
	values, err := m.ToArray()
	require.NoError(t, err)
	require.Len(t, values, 3)
	m, err = decodeValue(s, reply(t, client, `false`), decodeRaw)
	require.NoError(t, err)
	require.True(t, m.IsNil())
	_, err = decodeValue(s, reply(t, client, `redis.error_reply('OH no')`), decodeRaw)
	require.EqualError(t, err, "runtime: Script: OH no")
}

func TestCached(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	s := newScript(`return redis.call('GET', KEYS[1])`)
	for name, ask := range map[string]func(ttl time.Duration) result{
		"by the text": func(ttl time.Duration) result {
			return s.cached(t.Context(), client, []string{"k"}, nil, ttl)
		},
		"by GET": func(ttl time.Duration) result { return s.cachedGet(t.Context(), client, "k", ttl) },
	} {
		t.Run(name, func(t *testing.T) {
			_, err := decodeValue(&s, ask(time.Microsecond), decodeString)
			require.EqualError(t, err, "runtime: Script: ttl: 1µs is below 1ms, the shortest time for which an answer can be cached")
			before := time.Now().Truncate(time.Millisecond)
			reply := ask(time.Second)
			got, err := decodeValue(&s, reply, nullable(decodeString))
			require.NoError(t, err)
			require.Equal(t, Null[string]{}, got)
			require.False(t, cachedUntil(reply).Before(before.Add(time.Second)))
			require.False(t, cachedUntil(reply).After(time.Now().Add(time.Second)))
		})
	}
}

func TestWithoutACache(t *testing.T) {
	t.Parallel()
	s := newScript(`return redis.call('GET', KEYS[1])`)
	option := rlocktest.Start(t).Option()
	option.DisableCache = true
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	defer client.Close()
	reply := s.cachedGet(t.Context(), client, "k", time.Second)
	require.True(t, rueidis.IsRedisNil(reply.Error()))
	require.Zero(t, cachedUntil(reply))
}
