package renew_test

import (
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/renew"
)

// item has a lease that is extended by ttl each time, or not at all.
type item struct {
	entry  renew.Entry
	ttl    time.Duration
	silent bool // extensions get no answer

	mu       sync.Mutex
	extended []time.Time
	over     []time.Time
}

func (i *item) Entry() *renew.Entry { return &i.entry }

// schedule extends items at once, and counts rounds and what scripts they are worth.
type schedule struct {
	*renew.Schedule[*item]
	mu              sync.Mutex
	rounds, scripts int
}

func newSchedule() *schedule {
	s := &schedule{}
	s.Schedule = renew.New(func(over []*item) {
		for _, i := range over {
			i.mu.Lock()
			i.over = append(i.over, time.Now())
			i.mu.Unlock()
		}
	}, func(due []*item) {
		s.mu.Lock()
		s.rounds++
		s.scripts += (len(due) + renew.Batch - 1) / renew.Batch
		s.mu.Unlock()
		for _, i := range due {
			i.mu.Lock()
			i.extended = append(i.extended, time.Now())
			i.mu.Unlock()
			if !i.silent {
				s.Set(i, in(i.ttl/3), in(i.ttl))
			}
		}
	})
	return s
}

func (s *schedule) add(ttl time.Duration) *item {
	i := &item{ttl: ttl}
	s.Add(i, in(ttl/3), in(ttl))
	return i
}

// sleep lets time pass, and what happens at its end be done.
func sleep(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func in(d time.Duration) clock.Instant { return clock.Now().After(d) }

// since tells times as seconds since start.
func since(start time.Time, times []time.Time) []float64 {
	seconds := make([]float64, len(times))
	for i, at := range times {
		seconds[i] = at.Sub(start).Seconds()
	}
	return seconds
}

func TestExtend(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start := newSchedule(), time.Now()
		defer s.Close()
		i := s.add(30 * time.Second)
		require.True(t, s.Add(i, in(time.Second), in(time.Second)), "it is on the schedule already")
		sleep(35 * time.Second)
		require.Equal(t, []float64{10, 20, 30}, since(start, i.extended))
		s.Remove(i)
		s.Remove(i)
		s.Set(i, in(time.Second), in(time.Second))
		sleep(time.Hour)
		require.Len(t, i.extended, 3)
		require.Empty(t, i.over)
		s.Add(i, in(time.Second), in(time.Minute))
		sleep(2 * time.Second)
		require.Len(t, i.extended, 4, "it may be added again")
	})
}

// Without an answer a lease is extended again half-way to its end, until that.
func TestExtendWithoutAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start := newSchedule(), time.Now()
		defer s.Close()
		i := &item{silent: true}
		s.Add(i, in(10*time.Second), in(30*time.Second))
		sleep(time.Hour)
		require.Equal(t, []float64{10, 20, 25, 27.5, 28.75}, since(start, i.extended)[:5])
		require.Less(t, len(i.extended), 20)
		require.Equal(t, []float64{30}, since(start, i.over))
	})
}

func TestPlan(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		plan     func(s *schedule, i *item)
		extended []float64
		over     []float64
	}{
		"set later":                   {func(s *schedule, i *item) { s.Set(i, in(15*time.Second), clock.Never) }, []float64{15}, nil},
		"set earlier":                 {func(s *schedule, i *item) { s.Set(i, in(5*time.Second), clock.Never) }, []float64{5}, nil},
		"advanced":                    {func(s *schedule, i *item) { s.Advance(i, in(5*time.Second), clock.Never) }, []float64{5}, nil},
		"advanced to what is earlier": {func(s *schedule, i *item) { s.Advance(i, in(15*time.Second), clock.Never) }, []float64{10}, nil},
		"over earlier":                {func(s *schedule, i *item) { s.Advance(i, clock.Never, in(5*time.Second)) }, nil, []float64{5}},
		"not extended":                {func(s *schedule, i *item) { s.Set(i, clock.Never, in(15*time.Second)) }, nil, []float64{15}},
		"over now":                    {func(s *schedule, i *item) { s.Set(i, clock.Never, in(0)) }, nil, []float64{0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, start := newSchedule(), time.Now()
				defer s.Close()
				i := &item{ttl: time.Hour}
				s.Add(i, in(10*time.Second), in(30*time.Second))
				test.plan(s, i)
				sleep(20 * time.Second)
				require.ElementsMatch(t, test.extended, since(start, i.extended))
				require.ElementsMatch(t, test.over, since(start, i.over))
			})
		})
	}
}

// An extension that does not return keeps no lease from its end, nor others from theirs.
func TestNothingWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		stop := make(chan struct{})
		defer close(stop)
		var over atomic.Int64
		s := renew.New(func(items []*item) { over.Add(int64(len(items))) }, func([]*item) { <-stop })
		defer s.Close()
		for range 10 {
			s.Add(&item{}, in(time.Second), in(10*time.Second))
			time.Sleep(time.Second)
		}
		sleep(time.Minute)
		require.Equal(t, int64(10), over.Load())
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSchedule()
		first, second := s.add(time.Minute), s.add(time.Hour)
		require.ElementsMatch(t, []*item{first, second}, s.Close())
		require.False(t, s.Add(first, in(0), in(0)))
		s.Set(first, in(0), in(0))
		s.Remove(first)
		sleep(time.Hour)
		require.Empty(t, first.extended)
		require.Empty(t, s.Close())
	})
}

// However their extensions were spread at first, leases are soon extended in few rounds of
// few scripts, each no more often than it must be.
func TestExtensionsGather(t *testing.T) {
	t.Parallel()
	for name, pause := range map[string]func(interval time.Duration, items int) time.Duration{
		"evenly": func(interval time.Duration, items int) time.Duration { return interval / time.Duration(items) },
		"at any time": func(interval time.Duration, items int) time.Duration {
			return rand.N(2 * interval / time.Duration(items))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				const (
					items    = 4000
					ttl      = 30 * time.Second
					interval = ttl / 3
				)
				s := newSchedule()
				defer s.Close()
				list := make([]*item, items)
				for i := range list {
					list[i] = s.add(ttl)
					time.Sleep(pause(interval, items))
				}
				sleep(3 * interval)
				for _, i := range list {
					i.mu.Lock()
					i.extended = nil
					i.mu.Unlock()
				}
				s.mu.Lock()
				s.rounds, s.scripts = 0, 0
				s.mu.Unlock()
				sleep(3 * interval)
				t.Logf("%d rounds and %d scripts in three intervals", s.rounds, s.scripts)
				require.LessOrEqual(t, s.scripts, 7*items/renew.Batch/2)
				require.LessOrEqual(t, s.rounds, s.scripts/3)
				for _, i := range list {
					require.Empty(t, i.over)
					require.LessOrEqual(t, len(i.extended), 5)
				}
			})
		})
	}
}
