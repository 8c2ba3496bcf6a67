package cost

import (
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Calls of many callers go together, and those of few callers do not: a cycle of one of few callers is two
// scripts, and one of many callers is a fraction of that. On a machine that has time for it, it is a third
// with 64 callers and a fifth with 256. Under the race detector callers are so slow that fewer are under
// way at the same time.
func TestManyCallersBudget(t *testing.T) {
	server := env.Start(t)
	locker := env.NewLocker(t, server.Client(t))
	for _, test := range []struct {
		callers int
		least   float64 // scripts of a cycle
		most    float64
	}{{1, 2, 2}, {8, 2, 2}, {16, 2, 2}, {64, 0, 1.75}, {256, 0, 1.5}} {
		const cycles = 100
		before := server.ScriptCalls(t)
		var wg sync.WaitGroup
		for caller := range test.callers {
			key := fmt.Sprint("job", caller)
			wg.Go(func() {
				for range cycles {
					lock, err := locker.Acquire(t.Context(), key)
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
		scripts := float64(server.ScriptCalls(t)-before) / float64(test.callers*cycles)
		t.Logf("%d callers: %.3f scripts a cycle", test.callers, scripts)
		require.GreaterOrEqual(t, scripts, test.least, "%d callers", test.callers)
		require.LessOrEqual(t, scripts, test.most+0.05, "%d callers", test.callers)
	}
}
