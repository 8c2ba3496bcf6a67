package wire_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/quick"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Whatever bytes the keys and tokens have, a Handoff is the same after a trip as text.
func TestHandoffText(t *testing.T) {
	t.Parallel()
	same := func(key []byte, keys []string, token string, fence uint64, ms uint16, late bool) bool {
		h := wire.NewHandoff([]string{"k" + string(key)}, []string{"t" + token}, fence)
		for _, key := range keys {
			h.Keys = append(h.Keys, "k"+key)
		}
		h.MinHold, h.Late = time.Duration(ms%3)*time.Millisecond, late
		got, err := wire.ParseHandoff(h.Text())
		return err == nil && h.MinHold == got.MinHold && h.Late == got.Late && slices.Equal(h.Keys, got.Keys) &&
			slices.Equal(h.Tokens(), got.Tokens()) && h.Fence == got.Fence
	}
	require.NoError(t, quick.Check(same, nil))
}

// A text that is not whole is refused, and the error shows nothing of it.
func TestHandoffTextIsDamaged(t *testing.T) {
	t.Parallel()
	text := wire.NewHandoff([]string{"job"}, []string{"SECRET"}, 7).Text()
	for n := range text {
		_, err := wire.ParseHandoff(text[:n])
		require.Error(t, err, n)
		require.NotContains(t, err.Error(), "SECRET")
	}
	for _, h := range []*wire.Handoff{
		wire.NewHandoff(nil, nil, 0), wire.NewHandoff([]string{"job"}, nil, 0),
		wire.NewHandoff(nil, []string{"token"}, 0), wire.NewHandoff([]string{""}, []string{"token"}, 0),
	} {
		_, err := wire.ParseHandoff(h.Text())
		require.EqualError(t, err, "the text is damaged; store it whole, as MarshalText returns it", h)
	}
}

// Of two attempts at a time only one has the token of the Handoff. An attempt without an answer is
// made again with the same token, and a token that is spent is not used again.
func TestHandoffTokens(t *testing.T) {
	t.Parallel()
	h := wire.NewHandoff([]string{"job"}, []string{"former"}, 7)
	first := h.Begin("me")
	require.Equal(t, "me", wire.OwnerIn(first))
	second := h.Begin("you")
	require.Equal(t, "you", wire.OwnerIn(second))
	h.End(second, true)
	third := h.Begin("")
	require.NotContains(t, []string{first, second}, third, "the first has no answer yet")
	h.End(third, false)
	h.End(first, false)
	require.Equal(t, first, h.Begin("you"), "the keys may have it")
	h.End("the caller's", true)
	require.NotEqual(t, first, h.Begin(""), "that changes nothing")
	h.End(first, true)
	fresh := h.Begin("")
	require.NotContains(t, []string{first, second, third}, fresh)
}

// Package fmt shows no token of a Handoff that it finds in an unexported field, where it calls no
// method: with a verb that is not for pointers it follows one pointer.
func TestHandoffShowsNoToken(t *testing.T) {
	t.Parallel()
	type handle struct{ shared *wire.Handoff }
	h := handle{wire.NewHandoff([]string{"job"}, []string{"SECRET"}, 7)}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%d", "%t"} {
		require.NotContains(t, fmt.Sprintf(verb, h), "SECRET")
		require.NotContains(t, fmt.Sprintf(verb, &h), "SECRET")
		require.NotContains(t, fmt.Sprintf(verb, struct{ h handle }{h}), "SECRET")
	}
}
