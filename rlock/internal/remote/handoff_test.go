package remote_test

import (
	"slices"
	"testing"
	"testing/quick"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// Whatever bytes the keys and tokens have, a Handoff is the same after a trip as text.
func TestHandoffText(t *testing.T) {
	t.Parallel()
	same := func(key []byte, keys []string, token string, fence uint64) bool {
		h := remote.Handoff{Keys: []string{"k" + string(key)}, Tokens: []string{"t" + token}, Fence: fence}
		for _, key := range keys {
			h.Keys = append(h.Keys, "k"+key)
		}
		got, err := remote.ParseHandoff(h.Text())
		return err == nil && slices.Equal(h.Keys, got.Keys) && slices.Equal(h.Tokens, got.Tokens) && h.Fence == got.Fence
	}
	require.NoError(t, quick.Check(same, nil))
}

// A text that is not whole is refused, and the error shows nothing of it.
func TestHandoffTextIsDamaged(t *testing.T) {
	t.Parallel()
	text := remote.Handoff{Keys: []string{"job"}, Tokens: []string{"SECRET"}, Fence: 7}.Text()
	for n := range text {
		_, err := remote.ParseHandoff(text[:n])
		require.Error(t, err, n)
		require.NotContains(t, err.Error(), "SECRET")
	}
	for _, h := range []remote.Handoff{{}, {Keys: []string{"job"}}, {Tokens: []string{"token"}}, {Keys: []string{""}, Tokens: []string{"token"}}} {
		_, err := remote.ParseHandoff(h.Text())
		require.EqualError(t, err, "the text is damaged; store it whole, as MarshalText returns it", h)
	}
}
