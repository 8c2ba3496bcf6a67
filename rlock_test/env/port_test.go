package env

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A port is drawn once, until nearly all have been drawn.
func TestPortsAreDrawnOnce(t *testing.T) {
	seen := map[int]bool{}
	for range 300 {
		port, err := freePort()
		require.NoError(t, err)
		require.False(t, seen[port])
		seen[port] = true
	}
	for range 2000 {
		_, err := freeClusterPort()
		require.NoError(t, err)
	}
}
