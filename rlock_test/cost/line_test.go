//go:build unix

package cost

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// BenchmarkLine has callers of one process take turns with one lock and release it at once. Beside
// the time, it reports the processor time of the process, which a busy machine changes less, and
// the 99th percentile of the wait as a multiple of the fair share.
func BenchmarkLine(b *testing.B) {
	server := env.Start(b)
	for _, callers := range []int{1, 4, 64} {
		b.Run(fmt.Sprint(callers), func(b *testing.B) {
			locker := env.OpenOn(b, server)
			ctx := b.Context()
			var left atomic.Int64
			left.Store(int64(b.N))
			waits := make([][]time.Duration, callers)
			b.ReportAllocs()
			b.ResetTimer()
			before := processorTime(b)
			var group sync.WaitGroup
			for i := range callers {
				group.Go(func() {
					for left.Add(-1) >= 0 {
						start := time.Now()
						lock, err := locker.Acquire(ctx, "bench")
						if err != nil {
							b.Error(err)
							return
						}
						waits[i] = append(waits[i], time.Since(start))
						if err := lock.Release(ctx); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.StopTimer()
			b.ReportMetric(float64(processorTime(b)-before)/float64(b.N), "cpu-ns/op")
			all := slices.Sorted(slices.Values(slices.Concat(waits...)))
			fair := b.Elapsed() / time.Duration(b.N) * time.Duration(callers)
			b.ReportMetric(float64(all[len(all)*99/100])/float64(max(fair, 1)), "p99/fair")
		})
	}
}

// processorTime is what the process has used so far.
func processorTime(b *testing.B) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
