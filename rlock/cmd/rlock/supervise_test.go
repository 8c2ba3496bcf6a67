package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// All phases with all events. Nothing brings back a command that was told to stop.
func TestPhases(t *testing.T) {
	t.Parallel()
	changes := map[phase]map[event]phase{
		working:   {leaseEnding: stopping, lockLost: stopping, leaseOver: killed, commandEnded: over},
		stopping:  {killDue: killed, leaseOver: killed, commandEnded: remaining},
		remaining: {killDue: over, leaseOver: over, groupEmpty: over},
		killed:    {commandEnded: over},
		over:      {},
	}
	for p, of := range changes {
		for e := leaseEnding; e <= groupEmpty; e++ {
			want, changes := of[e]
			if !changes {
				want = p
			}
			require.Equal(t, want, p.after(e), "phase %d, event %d", p, e)
			require.False(t, p != working && p.after(e) == working)
		}
	}
}
