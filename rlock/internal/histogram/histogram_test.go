package histogram_test

import (
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/histogram"
)

// bucketOf returns the only bucket in which a length of time is.
func bucketOf(t *testing.T, d time.Duration) int {
	t.Helper()
	var h histogram.Histogram
	h.Add(d)
	found := -1
	for i, n := range h.Counts() {
		if n == 1 && found < 0 {
			found = i
		} else {
			require.Zero(t, n, "bucket %d", i)
		}
	}
	require.GreaterOrEqual(t, found, 0)
	return found
}

// Each length of time is in the first bucket whose bound is not below it.
func TestBuckets(t *testing.T) {
	t.Parallel()
	lengths := []time.Duration{math.MinInt64, -1, 0, 1, time.Microsecond, time.Millisecond, time.Second,
		time.Minute, time.Hour, 24 * time.Hour, math.MaxInt64}
	for i := range histogram.Size - 1 {
		bound := time.Duration(histogram.Bound(i) * float64(time.Second))
		lengths = append(lengths, bound-1, bound, bound+1)
	}
	for _, d := range lengths {
		want := 0
		for max(d, 0).Seconds() > histogram.Bound(want) {
			want++
		}
		require.Equal(t, want, bucketOf(t, d), d)
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	require.Equal(t, 1.0/16384, histogram.Bound(0))
	require.Equal(t, 1.0, histogram.Bound(14))
	require.Equal(t, 8192.0, histogram.Bound(histogram.Size-2))
	require.True(t, math.IsInf(histogram.Bound(histogram.Size-1), 1))
}

func TestSum(t *testing.T) {
	t.Parallel()
	var h histogram.Histogram
	for _, d := range []time.Duration{-time.Hour, 1500 * time.Nanosecond, 400, 2 * time.Second} {
		h.Add(d)
	}
	require.Equal(t, 2.000002, h.Sum())
	for range 1000 {
		h.Add(10 * 365 * 24 * time.Hour)
	}
	require.InEpsilon(t, 10_000*365*24*3600.0, h.Sum(), 1e-6, "which is more than an int64 has of nanoseconds")
}

func TestManyGoroutines(t *testing.T) {
	t.Parallel()
	var h histogram.Histogram
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for i := range 1000 {
				h.Add(time.Duration(i) * time.Millisecond)
			}
		})
	}
	group.Wait()
	total := uint64(0)
	for _, n := range h.Counts() {
		total += n
	}
	require.EqualValues(t, 8000, total)
	require.Equal(t, 8*999.0*1000/2/1000, h.Sum())
}

func TestAddBudget(t *testing.T) {
	var h histogram.Histogram
	require.Zero(t, testing.AllocsPerRun(100, func() { h.Add(time.Millisecond) }))
}

func BenchmarkAdd(b *testing.B) {
	var h histogram.Histogram
	for b.Loop() {
		h.Add(1234567)
	}
}
