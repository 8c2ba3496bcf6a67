package reaper_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/reaper"
)

const limit = 2 * time.Second

// try is a call as the server sees it.
type try struct {
	after time.Duration
	token string
}

// server records the tries. What it answers is up to freed, with how many tries there
// were before; nil frees nothing.
type server struct {
	start time.Time
	tries []try
	freed func(item reaper.Item, before int) bool
	takes time.Duration // a call
}

func newServer() *server { return &server{start: time.Now()} }

func (s *server) release(ctx context.Context, items []reaper.Item) []reaper.Result {
	freed := make([]reaper.Result, len(items))
	for i, item := range items {
		freed[i] = reaper.Absent
		if s.freed != nil && s.freed(item, len(s.tries)) {
			freed[i] = reaper.Freed
		}
		s.tries = append(s.tries, try{time.Since(s.start), item.Token})
	}
	if clock.Sleep(ctx, s.takes, nil) != nil {
		clear(freed)
	}
	return freed
}

func (s *server) times(token string) (times []time.Duration) {
	for _, try := range s.tries {
		if try.token == token {
			times = append(times, try.after)
		}
	}
	return times
}

// pass lets d pass and everything be done that is due.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func item(token string, unanswered int) reaper.Item {
	return reaper.Item{Keys: []string{"key of " + token}, Token: token, Unanswered: unanswered}
}

func milliseconds(times ...int) []time.Duration {
	durations := make([]time.Duration, len(times))
	for i, n := range times {
		durations[i] = time.Duration(n) * time.Millisecond
	}
	return durations
}

// The tries are at growing intervals, the last when the lease must be over.
func TestSchedule(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		unanswered int
		ttl        time.Duration
		freed      func(reaper.Item, int) bool
		want       []time.Duration
	}{
		"no command ran":      {1, clock.NoExpiry, nil, milliseconds(0, 25, 125, 525, 2125, 8525, 30000)},
		"a short lease":       {1, 200 * time.Millisecond, nil, milliseconds(0, 25, 125, 200)},
		"no lease":            {1, 0, nil, milliseconds(0)},
		"an answer is enough": {0, time.Hour, nil, milliseconds(0)},
		"the only command had run": {1, time.Hour,
			func(reaper.Item, int) bool { return true }, milliseconds(0)},
		"it arrived after the first try": {1, time.Hour,
			func(_ reaper.Item, before int) bool { return before == 2 }, milliseconds(0, 25, 125)},
		"another may still arrive": {2, 200 * time.Millisecond,
			func(reaper.Item, int) bool { return true }, milliseconds(0, 25, 125, 200)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.freed = c.freed
				reaper.New(s.release).Add(item("a", c.unanswered), c.ttl)
				pass(time.Hour)
				require.Equal(t, c.want, s.times("a"))
			})
		})
	}
}

// A new item does not wait for older ones, nor they for it.
func TestItemsHaveTimesOfTheirOwn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		r := reaper.New(s.release)
		r.Add(item("old", 1), clock.NoExpiry)
		pass(time.Second)
		r.Add(item("new", 1), 100*time.Millisecond)
		pass(time.Hour)
		require.Equal(t, milliseconds(0, 25, 125, 525, 2125, 8525, 30000), s.times("old"))
		require.Equal(t, milliseconds(1000, 1025, 1100), s.times("new"))
	})
}

// One call is under way at a time. What comes meanwhile goes with the next.
func TestOneCallAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.takes = time.Second
		r := reaper.New(s.release)
		r.Add(item("a", 1), 0)
		synctest.Wait()
		r.Add(item("b", 1), 0)
		r.Add(item("c", 1), 0)
		pass(time.Hour)
		require.Equal(t, []try{{0, "a"}, {time.Second, "b"}, {time.Second, "c"}}, s.tries)
	})
	// Nor does the time come of an older item's next try while a call is under way.
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		r := reaper.New(s.release)
		r.Add(item("old", 1), time.Second)
		pass(50 * time.Millisecond)
		s.takes = 500 * time.Millisecond
		r.Add(item("new", 1), 0)
		pass(time.Hour)
		require.Equal(t, milliseconds(0, 25, 550, 1050, 1550), s.times("old"))
	})
}

// A call that gets no answer ends after 2 seconds, and its items are tried again.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.takes = time.Hour
		s.freed = func(reaper.Item, int) bool { return true }
		reaper.New(s.release).Add(item("a", 1), 4025*time.Millisecond)
		pass(time.Hour)
		require.Equal(t, milliseconds(0, 2000, 4000, 6000), s.times("a"))
	})
}

// While nobody answers, the pause does not grow: what an outage has left is freed soon after it, however long
// it was, and as long as there is something to free.
func TestOutage(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} { // the call ends by its time-out, not by an error at once
		for _, outage := range []time.Duration{time.Second, 3 * time.Second, 9 * time.Second, 11 * time.Second, 29 * time.Second, time.Minute, time.Hour} {
			t.Run(fmt.Sprintf("of %v, silent %v", outage, silent), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newServer()
					r := reaper.New(func(ctx context.Context, items []reaper.Item) []reaper.Result {
						if left := outage - time.Since(s.start); left > 0 {
							if silent {
								_ = clock.Sleep(ctx, left, nil)
							}
							return make([]reaper.Result, len(items))
						}
						return s.release(ctx, items)
					})
					r.Add(item("endless", 0), clock.NoExpiry)
					r.Add(item("long", 0), 2*time.Hour)
					pass(3 * time.Hour)
					for _, token := range []string{"endless", "long"} {
						require.Len(t, s.times(token), 1, token)
						require.LessOrEqual(t, s.times(token)[0], outage+1100*time.Millisecond, token)
					}
				})
			})
		}
	}
}

// A refusal may pass, so the pauses stay short, but nothing is put off for it.
func TestRefused(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Duration
		start := time.Now()
		r := reaper.New(func(context.Context, []reaper.Item) []reaper.Result {
			tries = append(tries, time.Since(start))
			return []reaper.Result{reaper.Refused}
		})
		r.Add(item("a", 0), clock.NoExpiry)
		pass(time.Hour)
		require.Equal(t, milliseconds(0, 25, 125, 525, 1525, 2525), tries[:6])
		require.Equal(t, 30*time.Second, tries[len(tries)-1])
		require.Len(t, tries, 34)
	})
}

// What has a lease ends with it, also while nobody answers.
func TestOutageLongerThanALease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		r := reaper.New(func(_ context.Context, items []reaper.Item) []reaper.Result {
			tries++
			return make([]reaper.Result, len(items))
		})
		r.Add(item("a", 1), time.Minute)
		pass(time.Hour)
		require.InDelta(t, 62, tries, 3, "one a second")
	})
}

// A server that does not answer gets one call a second, however much there is to free, and each item its
// turn: at another server, which answers, they may be free at once.
func TestManyItemsInAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const items = 5000
		var calls atomic.Int32
		var up atomic.Bool
		var mu sync.Mutex
		freed, asked := map[string]bool{}, map[string]bool{}
		count := func(of map[string]bool) int {
			mu.Lock()
			defer mu.Unlock()
			return len(of)
		}
		r := reaper.New(func(_ context.Context, items []reaper.Item) []reaper.Result {
			calls.Add(1)
			mu.Lock()
			defer mu.Unlock()
			results := make([]reaper.Result, len(items))
			for i, item := range items {
				asked[item.Token] = true
				if up.Load() {
					results[i], freed[item.Token] = reaper.Freed, true
				}
			}
			return results
		})
		for i := range items {
			r.Add(item(fmt.Sprint(i), 0), clock.NoExpiry)
		}
		pass(2 * time.Second)
		calls.Store(0)
		pass(20 * time.Second)
		require.LessOrEqual(t, calls.Load(), int32(21))
		require.Equal(t, items, count(asked), "they had a turn")
		up.Store(true)
		pass(1100 * time.Millisecond)
		require.Equal(t, items, count(freed), "they are free")
	})
}

// What is beyond a bound, and finds no answer within half a minute, is left to its lease.
func TestTooManyItemsForAnOutage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls atomic.Int32
		r := reaper.New(func(_ context.Context, items []reaper.Item) []reaper.Result {
			calls.Add(1)
			return make([]reaper.Result, len(items))
		})
		for i := range 1<<14 + 1 {
			r.Add(item(fmt.Sprint(i), 0), clock.NoExpiry)
		}
		pass(time.Minute)
		calls.Store(0)
		pass(time.Hour)
		require.Zero(t, calls.Load())
	})
}

// What cannot be freed because its slot moves is tried again and again until half a minute after the last
// such answer. One answer to an item that needs no more ends it, as always.
func TestItemsOfASlotThatMoves(t *testing.T) {
	t.Parallel()
	const second = time.Second
	for name, c := range map[string]struct {
		unanswered int
		ttl, moves time.Duration // moves: from the beginning on
		want       []time.Duration
	}{
		"a short move":                     {1, clock.NoExpiry, second, milliseconds(0, 25, 125, 525, 2125, 8525, 30525)},
		"longer than a lease":              {1, 0, 20 * second, milliseconds(0, 25, 125, 525, 2125, 7125, 12125, 17125, 22125, 42125, 47125)},
		"an answer is enough":              {0, clock.NoExpiry, 34 * second, milliseconds(0, 25, 125, 525, 2125, 7125, 12125, 17125, 22125, 27125, 32125, 37125)},
		"no lease, and one answer for all": {0, 0, second, milliseconds(0, 25, 125, 525, 2125)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				reaper.New(func(ctx context.Context, items []reaper.Item) []reaper.Result {
					results := s.release(ctx, items)
					if time.Since(s.start) < c.moves {
						results[0] = reaper.Moving
					}
					return results
				}).Add(item("a", c.unanswered), c.ttl)
				pass(time.Hour)
				require.Equal(t, c.want, s.times("a"))
			})
		})
	}
}

// A call has at most a thousand items.
func TestManyItems(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var calls []int
		r := reaper.New(func(_ context.Context, items []reaper.Item) []reaper.Result {
			calls = append(calls, len(items))
			time.Sleep(time.Millisecond)
			return slices.Repeat([]reaper.Result{reaper.Absent}, len(items))
		})
		r.Add(item("first", 1), 0)
		synctest.Wait() // under way
		for i := range 2500 {
			r.Add(item(fmt.Sprint(i), 1), 0)
		}
		pass(time.Hour)
		require.Equal(t, []int{1, 1000, 1000, 500}, calls)
	})
}

// Code of the user's that runs within a call may end its goroutine.
func TestReleaseEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.freed = func(_ reaper.Item, before int) bool {
			if len(s.tries) == 0 {
				s.tries = append(s.tries, try{token: "ended"})
				runtime.Goexit()
			}
			return true
		}
		r := reaper.New(s.release)
		r.Add(item("a", 1), time.Hour)
		pass(time.Minute)
		require.Equal(t, milliseconds(25), s.times("a"))
		r.Close(limit)
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	t.Run("of nothing", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			reaper.New(s.release).Close(limit)
			require.Equal(t, s.start, time.Now())
			require.Empty(t, s.tries)
		})
	})
	t.Run("one last try for all that is pending", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			r := reaper.New(s.release)
			r.Add(item("a", 1), clock.NoExpiry)
			r.Add(item("b", 2), clock.NoExpiry)
			pass(time.Second)
			s.tries, s.takes = nil, 50*time.Millisecond
			r.Close(limit)
			require.Equal(t, []try{{time.Second, "a"}, {time.Second, "b"}}, s.tries)
			require.Equal(t, time.Second+50*time.Millisecond, time.Since(s.start), "it waits for the answer")
			pass(time.Hour)
			require.Len(t, s.tries, 2)
		})
	})
	t.Run("during a call", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			s.takes = time.Second
			r := reaper.New(s.release)
			r.Add(item("a", 1), clock.NoExpiry)
			synctest.Wait() // the call for a is under way, and is its last
			r.Add(item("b", 1), clock.NoExpiry)
			r.Close(2 * limit)
			require.Equal(t, []try{{0, "a"}, {time.Second, "b"}}, s.tries)
			require.Equal(t, 2*time.Second, time.Since(s.start))
		})
	})
	t.Run("during a call without an answer, of many", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var answers atomic.Bool
			tried := map[string]int{}
			r := reaper.New(func(ctx context.Context, items []reaper.Item) []reaper.Result {
				if !answers.Load() {
					<-ctx.Done()
					return make([]reaper.Result, len(items))
				}
				for _, i := range items {
					tried[i.Token]++
				}
				return slices.Repeat([]reaper.Result{reaper.Absent}, len(items))
			})
			for i := range 2500 {
				r.Add(item(fmt.Sprint(i), 1), clock.NoExpiry)
			}
			pass(3 * time.Second) // a call of the second round is under way, of a thousand
			time.AfterFunc(500*time.Millisecond, func() { answers.Store(true) })
			r.Close(2 * limit)
			require.GreaterOrEqual(t, len(tried), 1500, "the others get their last try")
			pass(time.Hour)
			for _, n := range tried {
				require.Equal(t, 1, n)
			}
		})
	})
	t.Run("of a silent server", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			s.takes = time.Hour
			r := reaper.New(s.release)
			r.Add(item("a", 1), clock.NoExpiry)
			r.Close(time.Second)
			require.Equal(t, time.Second, time.Since(s.start))
			pass(time.Hour)
			require.Len(t, s.tries, 1)
		})
	})
	t.Run("and then one try each", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newServer()
			r := reaper.New(s.release)
			r.Close(limit)
			r.Add(item("late", 2), clock.NoExpiry)
			pass(time.Hour)
			require.Equal(t, milliseconds(0), s.times("late"))
			r.Close(limit)
			require.Equal(t, time.Hour, time.Since(s.start), "nothing is pending")
		})
	})
}

// A place that does not answer keeps no other waiting. Close makes a last try at each.
func TestPlacesAreApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var freed sync.Map
		r := reaper.All(func(ctx context.Context, items []reaper.Item) []reaper.Result {
			results := make([]reaper.Result, len(items))
			for i, item := range items {
				if item.Token == "silent" {
					<-ctx.Done()
				} else {
					freed.Store(item.Token, time.Now())
					results[i] = reaper.Freed
				}
			}
			return results
		})
		start := time.Now()
		r.Add(1, reaper.Item{Keys: []string{"a"}, Token: "silent"}, time.Hour)
		time.Sleep(time.Second)
		r.Add(2, reaper.Item{Keys: []string{"b"}, Token: "b"}, time.Hour)
		synctest.Wait()
		at, _ := freed.Load("b")
		require.Equal(t, time.Second, at.(time.Time).Sub(start))
		r.Close(limit)
		require.LessOrEqual(t, time.Since(start), time.Second+limit)
		r.Add(3, reaper.Item{Keys: []string{"c"}, Token: "c"}, time.Hour)
		synctest.Wait()
		_, last := freed.Load("c")
		require.True(t, last, "what comes after Close has one try")
		time.Sleep(time.Minute)
	})
}
