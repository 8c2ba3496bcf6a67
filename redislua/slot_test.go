package redislua

import (
	"testing"

	"github.com/stretchr/testify/require"
)

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
