package luaimpl

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"math/big"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// What the other tests need of the client.

func connect(t testing.TB, options *redis.Options) Client {
	c := redis.NewClient(options)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func newClient(t *testing.T) Client {
	t.Helper()
	return connect(t, &redis.Options{Addr: rlocktest.Start(t).Option().InitAddress[0]})
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
func reply(t *testing.T, c Client, lua string) Result {
	t.Helper()
	return c.Eval(t.Context(), "return "+lua, nil)
}

func isServerError(err error) bool {
	var server redis.Error
	return errors.As(err, &server)
}

// readable reports whether the client reads a reply as RESP has it: it refuses a whole reply with a
// number that it cannot read, and takes a verbatim text for a string and a nil among the keys of a
// map for the end of the reply. No script makes such a reply.
func readable(m tree) bool {
	if strings.ContainsAny(m.wire, "|=") {
		return false
	}
	switch m.kind {
	case ',':
		_, err := strconv.ParseFloat(strings.TrimPrefix(m.text, "-"), 64)
		return err == nil
	case '(':
		_, ok := new(big.Int).SetString(m.text, 10)
		return ok
	}
	for i, item := range m.items {
		if !readable(item) || m.kind == '%' && i%2 == 0 && item.kind != '+' && item.kind != '$' {
			return false
		}
	}
	return true
}

// newPuppet returns a function that makes a reply of what a server would send.
func newPuppet(t testing.TB) func(ctx context.Context, wire string) Result {
	t.Helper()
	answers := make(chan string, 1)
	c := connect(t, &redis.Options{
		MaxRetries: -1, DisableIdentity: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			near, far := net.Pipe()
			go serve(far, answers)
			return near, nil
		},
	})
	return func(ctx context.Context, wire string) Result {
		answers <- wire
		return c.Eval(ctx, "", nil)
	}
}

func TestRaw(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	s := &Lua{pkg: "bindings", name: "Script"}
	for lua, want := range map[string]any{
		`{1, {'a'}, false}`:            []any{int64(1), []any{"a"}, nil},
		`false`:                        nil,
		`redis.status_reply('A')`:      "A",
		`{redis.error_reply('OH no')}`: []any{reply(t, c, `redis.error_reply('OH no')`).Err()},
	} {
		got, err := DecodeReply(s, reply(t, c, lua), DecodeRaw)
		require.NoError(t, err)
		require.Equal(t, want, got, lua)
	}
	_, err := DecodeReply(s, reply(t, c, `redis.error_reply('OH no')`), DecodeRaw)
	require.EqualError(t, err, "bindings: Script: OH no")
}

// A pipeline that a hook refuses has answered no call: none of them may count as answered with nil.
func TestRefusedPipeline(t *testing.T) {
	t.Parallel()
	c := newClient(t)
	c.AddHook(refusing{})
	s := newScript(`return false`)
	encode := func(p string, call *Call) { call.Arg(p) }
	decode := func(s *Lua, reply Result) (struct{}, error) { return DecodeReply(s, reply, DecodeNothing) }
	for _, reply := range Batch(t.Context(), c, &s, []string{"a", "b"}, encode, decode) {
		require.ErrorIs(t, reply.Err, errRefused)
	}
	_, err := decode(&s, s.Exec(t.Context(), c, called(nil)))
	require.ErrorIs(t, err, errRefused)
}

var errRefused = errors.New("refused")

type refusing struct{}

func (refusing) DialHook(next redis.DialHook) redis.DialHook { return next }

func (refusing) ProcessHook(redis.ProcessHook) redis.ProcessHook {
	return func(context.Context, redis.Cmder) error { return errRefused }
}

func (refusing) ProcessPipelineHook(redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(context.Context, []redis.Cmder) error { return errRefused }
}
