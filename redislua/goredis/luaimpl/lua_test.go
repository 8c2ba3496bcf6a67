package luaimpl

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
)

// called has the words of a call.
func called(keys []string, args ...string) *Call {
	var call Call
	call.Key("key", keys...)
	call.Arg(args...)
	return &call
}

var errStale = errors.New("bindings: STALE")

func TestExecFallsBackToTheText(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	s := newScript(`return KEYS[1] .. ARGV[1]`)
	for range 2 {
		got, err := DecodeReply(&s, s.Exec(t.Context(), client, called([]string{"a"}, "b")), DecodeString)
		require.NoError(t, err)
		require.Equal(t, "ab", got)
	}
}

// A script whose calls may go to replicas is called so that the server refuses a write, alone and
// in a batch.
func TestReadOnlyScript(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	encode := func(p string, call *Call) { call.Key("key", p) }
	decode := func(s *Lua, reply Result) (string, error) {
		return DecodeReply(s, reply, DecodeString)
	}
	for source, refused := range map[string]bool{
		"return KEYS[1]": false,
		"redis.call('SET', KEYS[1], 1) return KEYS[1]": true,
	} {
		s := newReadOnly(source)
		check := func(got string, err error) {
			t.Helper()
			if refused {
				require.ErrorContains(t, err, "read-only")
				return
			}
			require.NoError(t, err)
			require.Equal(t, "k", got)
		}
		for range 2 { // before the server knows the script, and after
			reply := Batch(t.Context(), client, &s, []string{"k"}, encode, decode)[0]
			check(reply.Value, reply.Err)
			check(decode(&s, s.Exec(t.Context(), client, called([]string{"k"}))))
		}
	}
}

func TestErrorCodes(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	stale := newScript(`return redis.error_reply('STALE the fence is old')`)
	_, err := DecodeReply(&stale, stale.Exec(t.Context(), client, called(nil)), DecodeNothing)
	require.ErrorIs(t, err, errStale)
	require.ErrorContains(t, err, "the fence is old")
	require.True(t, isServerError(err))

	other := newScript(`return redis.error_reply('STALEMATE is another word')`)
	_, err = DecodeReply(&other, other.Exec(t.Context(), client, called(nil)), DecodeNothing)
	require.NotErrorIs(t, err, errStale)
	require.EqualError(t, err, "bindings: Script: STALEMATE is another word")
	require.True(t, isServerError(err))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = DecodeReply(&other, other.Exec(ctx, client, called(nil)), DecodeNothing)
	require.ErrorIs(t, err, context.Canceled)
}

func TestBatch(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	s := newScript(`if ARGV[1] == 'fail' then return redis.error_reply('STALE') end return ARGV[1]`)
	encode := func(p string, call *Call) {
		call.Key("key", "k")
		call.Channel("p", p)
	}
	decode := func(s *Lua, reply Result) (string, error) {
		return DecodeReply(s, reply, DecodeString)
	}
	for _, state := range []string{"unknown to the server", "known"} {
		replies := Batch(t.Context(), client, &s, []string{"a", "", "fail", "b"}, encode, decode)
		require.Len(t, replies, 4, state)
		require.Equal(t, redislua.Reply[string]{Value: "a"}, replies[0], state)
		require.EqualError(t, replies[1].Err, "bindings: Script: p: it is an empty channel; give its name", state)
		require.ErrorIs(t, replies[2].Err, errStale, state)
		require.Equal(t, redislua.Reply[string]{Value: "b"}, replies[3], state)
	}
	require.Empty(t, Batch(t.Context(), client, &s, nil, encode, decode))
}

func TestLoad(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	s := newScript(`return 1`)
	require.NoError(t, Load(t.Context(), client, &s))
	reply := s.send(t.Context(), client, called(nil), false)
	require.False(t, isUnknown(reply))

	s.sha1 = "0000000000000000000000000000000000000000"
	require.ErrorContains(t, Load(t.Context(), client, &s), "the server computes the SHA1")
	s.source = "this is not Lua"
	require.ErrorContains(t, Load(t.Context(), client, &s), "bindings: load Script on ")
}

// Of the three kinds of scripts, the client may send two again, unless the options say otherwise.
func TestBindings(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		opts  []redislua.Option
		again bool
	}{{nil, true}, {[]redislua.Option{{}}, true}, {[]redislua.Option{{}, redislua.WithoutRetry()}, false}} {
		b := NewBindings("bindings", c.opts)
		once, retryable := b.Once("A", "a", "", nil), b.Retryable("A", "a", "", nil)
		replicated := b.Replicated("A", "a", "", nil)
		require.Equal(
			t, []bool{false, c.again, c.again}, []bool{once.retryable, retryable.retryable, replicated.retryable},
		)
		require.Equal(t, []bool{false, false, true}, []bool{once.readOnly, retryable.readOnly, replicated.readOnly})
	}
}
