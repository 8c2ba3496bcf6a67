package rlock_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// However many want a lock, a release wakes one of each process at most, and most
// releases pass the lock on within theirs: a crowd costs the server a few scripts an
// acquisition, not one for everybody who waits.
func TestCrowdIsNotAHerd(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		const processes = 8
		server := e.Start(t)
		var crowd []*bed.Program
		for range processes {
			crowd = append(crowd, start(t, server, "crowd"))
		}
		for _, p := range crowd {
			require.Equal(t, "ready", p.Line())
		}
		before := scripts(t, server)
		for _, p := range crowd {
			p.Send("go")
		}
		for _, p := range crowd {
			require.Equal(t, "done", p.Line())
			p.Wait()
		}
		perRelease := float64(scripts(t, server)-before) / (processes * crowdSize)
		t.Logf("%.2f scripts a release", perRelease)
		require.LessOrEqual(t, perRelease, float64(processes))
	})
}
