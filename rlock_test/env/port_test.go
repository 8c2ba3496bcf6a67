package env

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// A port that was drawn lately is not drawn, however many have been drawn.
func TestPortsAreNotDrawnAgainSoon(t *testing.T) {
	for name, draw := range map[string]func() (int, error){"servers": freePort, "nodes": freeClusterPort} {
		t.Run(name, func(t *testing.T) {
			var lately []int
			for range 3000 {
				port, err := draw()
				require.NoError(t, err)
				require.NotContains(t, lately, port)
				lately = append(lately, port)
				lately = slices.Delete(lately, 0, max(0, len(lately)-100))
			}
		})
	}
}
