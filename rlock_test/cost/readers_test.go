package cost

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Readers of one process share a holder, so that many short reads cost a few scripts. A reader alone
// costs two.
func TestReadersBudget(t *testing.T) {
	server := env.Start(t)
	locker := env.OpenOn(t, server)
	for _, test := range []struct {
		callers, cycles int
		most            float64 // scripts of an acquisition
	}{{1, 200, 2}, {16, 2000, 0.5}, {1024, 200, 0.05}} {
		key, cycles := fmt.Sprint("job", test.callers), test.cycles/loadScale
		before, start := server.ScriptCalls(t), time.Now()
		var wg sync.WaitGroup
		for range test.callers {
			wg.Go(func() {
				for range cycles {
					lock, err := locker.AcquireShared(t.Context(), key)
					if err == nil {
						err = lock.Release(t.Context())
					}
					if err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
		wg.Wait()
		n := float64(test.callers * cycles)
		scripts := float64(server.ScriptCalls(t)-before) / n
		t.Logf("%d callers: %.4f scripts an acquisition, %.0f a second", test.callers, scripts,
			n/time.Since(start).Seconds())
		require.LessOrEqual(t, scripts, test.most+0.005, "%d callers", test.callers)
	}
}
