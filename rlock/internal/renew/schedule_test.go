package renew_test

import (
	"context"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/renew"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// item has a lease that is extended by ttl each time, or not at all. The fixture guards it.
type item struct {
	*fixture
	entry    renew.Entry
	ttl      time.Duration
	ends     bool // Begin finds that it has ended
	end      clock.Instant
	extended []time.Time
	answers  []wire.Extended
	over     []time.Time
	settled  int
	quits    string // the method that ends its goroutine, as user code may
}

func (i *item) Entry() *renew.Entry { return &i.entry }

func (i *item) Begin() (terms.Extension, wire.Extension, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.extended = append(i.extended, time.Now())
	i.quit("Begin")
	return terms.Extension{Sent: clock.Now(), TTL: i.ttl}, wire.Extension{TTL: i.ttl}, !i.ends
}

func (i *item) Settle(sent terms.Extension, answer wire.Extended) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answers = append(i.answers, answer)
	i.quit("Settle")
	if answer.Err == nil {
		i.end = sent.Sent.After(i.ttl)
		i.Set(i, sent.Sent.After(i.ttl/3), i.end)
	} else {
		i.Advance(i, clock.Now().After(renew.RetryPause(i.ttl)), i.end)
	}
}

func (i *item) Expire() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.over = append(i.over, time.Now())
	i.quit("Expire")
}

func (i *item) quit(method string) {
	if i.quits == method {
		runtime.Goexit()
	}
}

// fixture is a Schedule with a server that extends all leases at once, unless extend says
// otherwise. It counts rounds and what scripts they are worth. A test holds mu except while it
// sleeps.
type fixture struct {
	*renew.Schedule[*item]
	extend func(ctx context.Context, list []wire.Extension, answered func([]int, []wire.Extended))

	mu              sync.Mutex
	rounds, scripts int
}

func newSchedule(background context.Context) *fixture {
	f := &fixture{}
	f.Schedule = renew.New(background, f, func(items []*item) {
		f.mu.Lock()
		defer f.mu.Unlock()
		for _, i := range items {
			i.settled++
		}
	})
	f.mu.Lock()
	return f
}

// sleep lets time pass, and what happens at its end be done.
func (f *fixture) sleep(d time.Duration) {
	f.mu.Unlock()
	defer f.mu.Lock()
	time.Sleep(d)
	synctest.Wait()
}

// Close closes the Schedule, and ends what is on it. It lets what is under way be done.
func (f *fixture) Close() []*item {
	f.mu.Unlock()
	defer f.mu.Lock()
	defer synctest.Wait()
	items := f.Schedule.Close()
	renew.ExpireAll(items)
	return items
}

func (f *fixture) Extend(ctx context.Context, list []wire.Extension, answered func([]int, []wire.Extended)) {
	f.mu.Lock()
	f.rounds++
	f.scripts += (len(list) + wire.Batch - 1) / wire.Batch
	extend := f.extend
	f.mu.Unlock()
	if extend == nil {
		answer(list, answered, wire.Extended{})
		return
	}
	extend(ctx, list, answered)
}

// answer gives all extensions the same answer.
func answer(list []wire.Extension, answered func([]int, []wire.Extended), same wire.Extended) {
	positions, answers := make([]int, len(list)), make([]wire.Extended, len(list))
	for i := range list {
		positions[i], answers[i] = i, same
	}
	answered(positions, answers)
}

// silent is a server that never answers.
func silent(ctx context.Context, list []wire.Extension, answered func([]int, []wire.Extended)) {
	<-ctx.Done()
	answer(list, answered, wire.Extended{Err: ctx.Err()})
}

func (f *fixture) add(ttl time.Duration) *item {
	i := &item{fixture: f, ttl: ttl, end: in(ttl)}
	f.Add(i, in(ttl/3), i.end)
	return i
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
		s, start := newSchedule(t.Context()), time.Now()
		defer s.Close()
		i := s.add(30 * time.Second)
		require.True(t, s.Add(i, in(time.Minute), i.end), "the earlier plan stays")
		s.sleep(35 * time.Second)
		require.Equal(t, []float64{10, 20, 30}, since(start, i.extended))
		s.Remove(i)
		s.Remove(i)
		s.Set(i, in(time.Second), in(time.Second))
		s.sleep(time.Hour)
		require.Len(t, i.extended, 3)
		require.Empty(t, i.over)
		s.Add(i, in(time.Second), in(time.Minute))
		s.sleep(2 * time.Second)
		require.Len(t, i.extended, 4, "it may be added again")
	})
}

// Without an answer a lease is extended again half-way to its end, until that.
func TestExtendWithoutAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, start := newSchedule(t.Context()), time.Now()
		defer s.Close()
		s.extend = silent
		i := s.add(30 * time.Second)
		s.sleep(30*time.Second - time.Millisecond)
		require.Equal(t, []float64{10, 20, 25, 27.5, 28.75}, since(start, i.extended)[:5])
		require.Less(t, len(i.extended), 20)
		require.Empty(t, i.answers, "a call has time until the lease ends")
		s.sleep(time.Second)
		require.Equal(t, []float64{30}, since(start, i.over))
		require.Len(t, i.answers, len(i.extended))
	})
}

func TestPlan(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		plan     func(s *fixture, i *item)
		extended []float64
		over     []float64
	}{
		"set later": {func(s *fixture, i *item) { s.Set(i, in(15*time.Second), clock.Never) },
			[]float64{15}, nil},
		"set earlier": {func(s *fixture, i *item) { s.Set(i, in(5*time.Second), clock.Never) },
			[]float64{5}, nil},
		"added again": {func(s *fixture, i *item) { s.Add(i, in(5*time.Second), clock.Never) },
			[]float64{5}, nil},
		"advanced": {func(s *fixture, i *item) { s.Advance(i, in(5*time.Second), clock.Never) },
			[]float64{5}, nil},
		"advanced to what is earlier": {func(s *fixture, i *item) { s.Advance(i, in(15*time.Second), clock.Never) },
			[]float64{10}, nil},
		"over earlier": {func(s *fixture, i *item) { s.Advance(i, clock.Never, in(5*time.Second)) }, nil,
			[]float64{5}},
		"not extended": {func(s *fixture, i *item) { s.Set(i, clock.Never, in(15*time.Second)) }, nil,
			[]float64{15}},
		"over now": {func(s *fixture, i *item) { s.Set(i, clock.Never, in(0)) }, nil, []float64{0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s, start := newSchedule(t.Context()), time.Now()
				defer s.Close()
				i := &item{fixture: s, ttl: time.Hour}
				s.Add(i, in(10*time.Second), in(30*time.Second))
				test.plan(s, i)
				s.sleep(20 * time.Second)
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
		s := newSchedule(t.Context())
		defer s.Close()
		s.extend = func(context.Context, []wire.Extension, func([]int, []wire.Extended)) { <-stop }
		defer close(stop)
		var items []*item
		for range 10 {
			i := &item{fixture: s}
			s.Add(i, in(time.Second), in(10*time.Second))
			items = append(items, i)
			s.sleep(time.Second)
		}
		s.sleep(time.Minute)
		for _, i := range items {
			require.Len(t, i.over, 1)
		}
	})
}

// Leases end at the same time although user code for one of them ends the goroutine.
func TestExpireEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSchedule(t.Context())
		var items []*item
		for range 3 {
			i := &item{fixture: s, quits: "Expire"}
			require.True(t, s.Add(i, in(time.Hour), in(time.Minute)))
			items = append(items, i)
		}
		s.sleep(2 * time.Minute)
		for _, i := range items {
			require.Len(t, i.over, 1)
		}
		s.Close()
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSchedule(t.Context())
		first, second := s.add(time.Minute), s.add(time.Hour)
		require.ElementsMatch(t, []*item{first, second}, s.Close())
		require.False(t, s.Add(first, in(0), in(0)))
		s.Set(first, in(0), in(0))
		s.Remove(first)
		s.sleep(time.Hour)
		require.Empty(t, first.extended)
		require.Len(t, first.over, 1)
		require.Len(t, second.over, 1)
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
				s := newSchedule(t.Context())
				defer s.Close()
				list := make([]*item, items)
				for i := range list {
					list[i] = s.add(ttl)
					s.sleep(pause(interval, items))
				}
				s.sleep(3 * interval)
				for _, i := range list {
					i.extended = nil
				}
				s.rounds, s.scripts = 0, 0
				s.sleep(3 * interval)
				t.Logf("%d rounds and %d scripts in three intervals", s.rounds, s.scripts)
				require.LessOrEqual(t, s.scripts, 7*items/wire.Batch/2)
				require.LessOrEqual(t, s.rounds, s.scripts/3)
				for _, i := range list {
					require.Empty(t, i.over)
					require.LessOrEqual(t, len(i.extended), 5)
				}
			})
		})
	}
}
