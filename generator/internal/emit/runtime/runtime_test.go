package runtime

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

var errStale = errors.New("runtime: STALE")

func TestExecFallsBackToTheText(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	s := newScript(`return KEYS[1] .. ARGV[1]`)
	for range 2 {
		got, err := decodeValue(&s, s.exec(t.Context(), client, []string{"a"}, []string{"b"}), decodeString)
		require.NoError(t, err)
		require.Equal(t, "ab", got)
	}
}

// A script whose calls may go to replicas is called so that the server refuses a write, alone and
// in a batch.
func TestReadOnlyScript(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	encode := func(p string, keys, args []string) ([]string, []string, error) { return append(keys, p), args, nil }
	decode := func(s *luaScript, reply result) (string, error) {
		return decodeValue(s, reply, decodeString)
	}
	for source, refused := range map[string]bool{"return KEYS[1]": false, "redis.call('SET', KEYS[1], 1) return KEYS[1]": true} {
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
			reply := batch(t.Context(), client, &s, []string{"k"}, encode, decode)[0]
			check(reply.Value, reply.Err)
			check(decode(&s, s.exec(t.Context(), client, []string{"k"}, nil)))
		}
	}
}

func TestErrorCodes(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	stale := newScript(`return redis.error_reply('STALE the fence is old')`)
	_, err := decodeValue(&stale, stale.exec(t.Context(), client, nil, nil), decodeNothing)
	require.ErrorIs(t, err, errStale)
	require.ErrorContains(t, err, "the fence is old")
	require.True(t, isServerError(err))

	other := newScript(`return redis.error_reply('STALEMATE is another word')`)
	_, err = decodeValue(&other, other.exec(t.Context(), client, nil, nil), decodeNothing)
	require.NotErrorIs(t, err, errStale)
	require.EqualError(t, err, "runtime: Script: STALEMATE is another word")
	require.True(t, isServerError(err))

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = decodeValue(&other, other.exec(ctx, client, nil, nil), decodeNothing)
	require.ErrorIs(t, err, context.Canceled)
}

func TestBatch(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	s := newScript(`if ARGV[1] == 'fail' then return redis.error_reply('STALE') end return ARGV[1]`)
	encode := func(p string, keys, args []string) ([]string, []string, error) {
		if p == "refuse" {
			return nil, nil, &ParamError{"Script", "p", "is refused"}
		}
		return append(keys, "k"), append(args, p), nil
	}
	decode := func(s *luaScript, reply result) (string, error) {
		return decodeValue(s, reply, decodeString)
	}
	for _, state := range []string{"unknown to the server", "known"} {
		replies := batch(t.Context(), client, &s, []string{"a", "refuse", "fail", "b"}, encode, decode)
		require.Len(t, replies, 4, state)
		require.Equal(t, Reply[string]{Value: "a"}, replies[0], state)
		require.EqualError(t, replies[1].Err, "runtime: Script: p: is refused", state)
		require.ErrorIs(t, replies[2].Err, errStale, state)
		require.Equal(t, Reply[string]{Value: "b"}, replies[3], state)
	}
	require.Empty(t, batch(t.Context(), client, &s, nil, encode, decode))
}

func TestLoad(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	s := newScript(`return 1`)
	require.NoError(t, s.load(t.Context(), client))
	reply := s.send(t.Context(), client, []call{{}}, false)[0]
	require.False(t, isUnknown(reply))

	s.sha1 = "0000000000000000000000000000000000000000"
	require.ErrorContains(t, s.load(t.Context(), client), "the server computes the SHA1")
	s.source = "this is not Lua"
	require.ErrorContains(t, s.load(t.Context(), client), "runtime: load Script on ")
}

func TestSlot(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]uint16{
		"":          0,
		"123456789": 0x31C3 & 16383, // the check value of CRC16/XMODEM
		"a":         15495,
		"foo":       12182,
		"{foo}bar":  12182,
		"x{foo}":    12182,
		"{}foo":     9500,
	} {
		require.Equal(t, want, Slot(key), "%q", key)
	}
	require.NotEqual(t, Slot("{foo"), Slot("foo"))
}
