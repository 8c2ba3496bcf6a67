package luaimpl

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

	"github.com/rlock-go/toolkit/redislua"
)

// What the other tests need of the client. The module redislua/goredis runs them with go-redis.

// Option is set by a package of tests that may import the embedded server, which imports this package.
var Option func(t *testing.T) rueidis.ClientOption

func connect(t *testing.T, option rueidis.ClientOption) Client {
	t.Helper()
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	t.Cleanup(client.Close)
	return client
}

func newClient(t *testing.T) Client {
	t.Helper()
	return connect(t, Option(t))
}

func sumOf(source string) string {
	sum := sha1.Sum([]byte(source))
	return hex.EncodeToString(sum[:])
}

func newScript(source string) Lua {
	return NewBindings("bindings", nil).Retryable(
		"Script", sumOf(source), source, map[string]error{"STALE": errStale},
	)
}

func newReadOnly(source string) Lua {
	return NewBindings("bindings", nil).Replicated("Script", sumOf(source), source, nil)
}

// reply makes a message of what a script returns.
func reply(t *testing.T, client Client, lua string) Result {
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
func newPuppet(t testing.TB) func(ctx context.Context, wire string) Result {
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
	return func(ctx context.Context, wire string) Result {
		answers <- wire
		return client.Do(ctx, client.B().Eval().Script("").Numkeys(0).Build())
	}
}

func TestRaw(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	s := &Lua{pkg: "bindings", name: "Script"}
	m, err := DecodeReply(s, reply(t, client, `{1, {'a'}, false}`), DecodeRaw)
	require.NoError(t, err)
	values, err := m.ToArray()
	require.NoError(t, err)
	require.Len(t, values, 3)
	m, err = DecodeReply(s, reply(t, client, `false`), DecodeRaw)
	require.NoError(t, err)
	require.True(t, m.IsNil())
	_, err = DecodeReply(s, reply(t, client, `redis.error_reply('OH no')`), DecodeRaw)
	require.EqualError(t, err, "bindings: Script: OH no")
}

func TestCached(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	s := newScript(`return redis.call('GET', KEYS[1])`)
	decode := func(s *Lua, reply Result) (redislua.Null[string], error) {
		return DecodeReply(s, reply, DecodeNull(DecodeString))
	}
	for name, ask := range map[string]func(ctx context.Context, c Client, call *Call, ttl time.Duration) Result{
		"by the text": s.Cached,
		"by GET":      s.CachedGet,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := DecodeCached(&s, ask(t.Context(), client, called([]string{"k"}), time.Microsecond), decode)
			require.EqualError(t, err, "bindings: Script: ttl: "+
				"1µs is below 1ms, the shortest time for which an answer can be cached")
			_, err = DecodeCached(&s, ask(t.Context(), client, called([]string{""}), time.Second), decode)
			require.EqualError(t, err, "bindings: Script: key: it is an empty key; give its name")
			before := time.Now().Truncate(time.Millisecond)
			got, err := DecodeCached(&s, ask(t.Context(), client, called([]string{"k"}), time.Second), decode)
			require.NoError(t, err)
			require.Equal(t, redislua.Null[string]{}, got.Value)
			require.False(t, got.Until.Before(before.Add(time.Second)))
			require.False(t, got.Until.After(time.Now().Add(time.Second)))
		})
	}
}

func TestWithoutACache(t *testing.T) {
	t.Parallel()
	s := newScript(`return redis.call('GET', KEYS[1])`)
	option := Option(t)
	option.DisableCache = true
	client := connect(t, option)
	answer := s.CachedGet(t.Context(), client, called([]string{"k"}), time.Second)
	got, err := DecodeCached(&s, answer, func(s *Lua, reply Result) (redislua.Null[string], error) {
		return DecodeReply(s, reply, DecodeNull(DecodeString))
	})
	require.NoError(t, err)
	require.Zero(t, got)
}
