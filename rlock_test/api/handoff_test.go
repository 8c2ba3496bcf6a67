package api

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A Handoff goes through text to another process, whatever bytes are in the keys.
func TestHandoffAsText(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		here, there := env.NewLocker(t, client), env.NewLocker(t, client)
		keys := []string{"plain", "\x00\xff{ }\n", "日本"}
		lock, err := here.AcquireAll(t.Context(), keys)
		require.NoError(t, err)
		token := lock.Token()
		sent := env.Detach(t, lock)
		require.Equal(t, keys, sent.Keys())
		require.Equal(t, lock.Fence(), sent.Fence())

		text, err := json.Marshal(map[string]any{"lock": sent})
		require.NoError(t, err)
		var got map[string]rlock.Handoff
		require.NoError(t, json.Unmarshal(text, &got))
		again, err := there.Attach(t.Context(), got["lock"])
		require.NoError(t, err)
		require.Equal(t, keys, again.Keys())
		require.Equal(t, lock.Fence(), again.Fence())

		plain, err := sent.MarshalText()
		require.NoError(t, err)
		require.Equal(t, string(env.HandoffText(token, lock.Fence(), keys...)), string(plain),
			"the format of this version is for ever")
		require.NoError(t, sent.UnmarshalText(append(plain, 10)), "a file may end with a line end")
		_, err = rlock.Handoff{}.MarshalText()
		require.ErrorIs(t, err, rlock.ErrInvalid)
	})
}

// What is not the text of a Handoff is refused, and is not in the error.
func TestHandoffOfBadText(t *testing.T) {
	t.Parallel()
	good := env.HandoffText("SECRET", 7, "job")
	huge := binary.AppendUvarint(nil, 1<<62)
	for name, text := range map[string][]byte{
		"nothing":         nil,
		"another version": append([]byte("rlock-handoff-2:"), good[16:]...),
		"only the token":  []byte("SECRET"),
		"cut off":         good[:len(good)-3],
		"with more":       append(bytes.Clone(good), "AAAA"...),
		"no keys":         env.HandoffText("SECRET", 7),
		"an empty key":    env.HandoffText("SECRET", 7, ""),
		"no token":        env.HandoffText("", 7, "job"),
		"a huge list":     env.SealHandoff(append([]byte{7}, huge...)),
		"a huge key":      env.SealHandoff(append([]byte{7, 1}, huge...)),
		"half a number":   env.SealHandoff([]byte{0x80}),
		"more behind":     env.SealHandoff(append([]byte{7, 1, 1, 'a', 1, 1, 'b'}, 1, 'c')),
		"a time of 0":     env.SealHandoff(append([]byte{7, 1, 1, 'a', 1, 1, 'b'}, 0)),
		"another mark":    env.SealHandoff(append([]byte{7, 1, 1, 'a', 1, 1, 'b'}, 1, 2)),
		"behind the mark": env.SealHandoff(append([]byte{7, 1, 1, 'a', 1, 1, 'b'}, 1, 1, 1)),
		"a huge time":     env.SealHandoff(append([]byte{7, 1, 1, 'a', 1, 1, 'b'}, huge...)),
	} {
		t.Run(name, func(t *testing.T) {
			h := env.NewHandoff(t, "kept", 1, "kept")
			err := h.UnmarshalText(text)
			require.ErrorIs(t, err, rlock.ErrInvalid)
			require.NotContains(t, err.Error(), "SECRET")
			require.NotContains(t, err.Error(), base64.RawURLEncoding.EncodeToString([]byte("SECRET")))
			require.Equal(t, []string{"kept"}, h.Keys())
		})
	}
	for at := len("rlock-handoff-1:"); at < len(good); at++ {
		text := bytes.Clone(good)
		text[at] ^= 1
		require.ErrorIs(t, new(rlock.Handoff).UnmarshalText(text), rlock.ErrInvalid, "character %d is another", at)
	}
}

// Nothing that prints a Handoff shows the token.
func TestHandoffIsNotPrinted(t *testing.T) {
	t.Parallel()
	h := env.NewHandoff(t, "SECRET", 7, "job", "other")
	require.Equal(t, `handoff of "job" and 1 more, fence 7`, h.String())
	require.Equal(t, "handoff of no lock", rlock.Handoff{}.String())
	require.Nil(t, rlock.Handoff{}.Keys())
	require.Zero(t, rlock.Handoff{}.Fence())
	var out bytes.Buffer
	type wrap struct {
		H rlock.Handoff
		h rlock.Handoff
		p *rlock.Handoff
	}
	for _, v := range []any{h, &h, []rlock.Handoff{h}, wrap{h, h, &h}, &wrap{h, h, &h},
		map[string]rlock.Handoff{"h": h}, rlock.Handoff{}} {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			fmt.Fprintf(&out, verb, v)
		}
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		log := slog.New(handler)
		log.Info("it", "h", h, "none", rlock.Handoff{})
	}
	require.NotContains(t, out.String(), "SECRET")
	require.NotContains(t, out.String(), fmt.Sprintf("%x", "SECRET"))
	require.Contains(t, out.String(), "h.fence=7")
}
