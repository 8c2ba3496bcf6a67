package fuzz

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// FuzzHandoff: whatever the text is, it is refused or is what MarshalText makes.
func FuzzHandoff(f *testing.F) {
	f.Add(env.HandoffText("t", 7, "job"))
	f.Add(env.SealHandoff([]byte{7, 1, 1, 'a', 1, 1, 'b'}))
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, text := range [][]byte{text, env.SealHandoff(text)} {
			var h rlock.Handoff
			if err := h.UnmarshalText(text); err != nil {
				require.ErrorIs(t, err, rlock.ErrInvalid)
				continue
			}
			require.NotEmpty(t, h.Keys())
			again, err := h.MarshalText()
			require.NoError(t, err)
			var same rlock.Handoff
			require.NoError(t, same.UnmarshalText(again))
			require.Equal(t, h.Keys(), same.Keys())
			require.Equal(t, h.Fence(), same.Fence())
		}
	})
}
