package rlock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// crashTTL is the lease of a holder that dies.
const crashTTL = 1500 * time.Millisecond

// start runs the test binary as one of programs.
func start(t *testing.T, server *bed.Server, program string) *bed.Program {
	t.Helper()
	return bed.Reexec(t, programName+"="+program, programServer+"="+server.Addr())
}

// A holder that dies without a word blocks others for no longer than its lease, however
// long it has had the lock: the next in line has it within half a second of the lease's
// end. The server is left to itself: among thousands of keys with a lease it takes
// minutes to notice that one is over.
func TestHolderDies(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		t.Parallel()
		server := e.Start(t)
		server.Do(t, "EVAL", "for i = 1, 20000 do redis.call('SET', 'other:' .. i, 'x', 'PX', 3600000) end", "0")
		holder := start(t, server, "hold")
		require.Equal(t, "held", holder.Line())
		waiting := opened(t, server)
		got := make(chan error, 1)
		var next time.Time
		go func() {
			lock, err := waiting.Acquire(t.Context(), "job")
			next = time.Now()
			if err == nil {
				err = lock.Release(t.Context())
			}
			got <- err
		}()
		inLine(t, waiting, 1)
		soon(t, func() bool { return server.CommandStats(t)["pexpire"] > 0 }, "the lease has been extended")

		died := time.Now()
		holder.Kill()
		require.NoError(t, <-got)
		require.Less(t, next.Sub(died), crashTTL+500*time.Millisecond)
	})
}
