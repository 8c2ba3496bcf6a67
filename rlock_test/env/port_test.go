package env

import (
	"runtime"
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

// The bus of a node listens at a port that no server draws.
func TestPortOfABusIsDrawn(t *testing.T) {
	port, err := freeClusterPort()
	require.NoError(t, err)
	require.True(t, drawn.ports[port+busOffset])
	for range 300 { // of some 880 that a process has
		other, err := freePort()
		require.NoError(t, err)
		require.NotEqual(t, port+busOffset, other)
	}
}

// Processes that run at the same time draw different ports.
func TestProcessesHaveDifferentPlaces(t *testing.T) {
	first, second := claim(), claim()
	for _, p := range []place{first, second} {
		require.NotNil(t, p.listener)
		require.NoError(t, p.listener.Close())
	}
	require.NotEqual(t, first.number, second.number)
	for _, draw := range []func() (int, error){freePort, freeClusterPort} {
		port, err := draw()
		require.NoError(t, err)
		require.Equal(t, claimed().number, (port-firstPort)%processes)
	}
	runtime.GC()
	require.False(t, isFree(firstClaim+claimed().number), "it is kept")
	require.Zero(t, busOffset%processes)
}
