package wire

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

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

const limit = 2 * time.Second

// try is a call as the server sees it.
type try struct {
	after time.Duration
	token string
}

// reaped records the tries.
type reaped struct {
	start time.Time
	tries []try
	first func()        // before the first try
	takes time.Duration // a call
}

func newReaped() *reaped { return &reaped{start: time.Now()} }

func (s *reaped) release(ctx context.Context, due []releaseCall) []redislua.Reply[int64] {
	if first := s.first; first != nil {
		s.first = nil
		first()
	}
	for _, call := range due {
		s.tries = append(s.tries, try{time.Since(s.start), call.token})
	}
	if clock.Sleep(ctx, s.takes, nil) != nil {
		return noAnswers(due)
	}
	return make([]redislua.Reply[int64], len(due))
}

func noAnswers(due []releaseCall) []redislua.Reply[int64] {
	return slices.Repeat([]redislua.Reply[int64]{{Err: context.DeadlineExceeded}}, len(due))
}

func newReaper(release releaseFunc) *reaper { return &reaper{release: release} }

func (s *reaped) times(token string) (times []time.Duration) {
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

func call(token string, late bool) releaseCall {
	return releaseCall{keys: []string{"key of " + token}, token: token, late: late}
}

func after(times ...int) []time.Duration {
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
		late bool
		ttl  time.Duration
		want []time.Duration
	}{
		"a command may arrive": {true, clock.NoExpiry, after(0, 25, 125, 525, 2125, 8525, 30000)},
		"a short lease":        {true, 200 * time.Millisecond, after(0, 25, 125, 200)},
		"no lease":             {true, 0, after(0)},
		"an answer is enough":  {false, time.Hour, after(0)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newReaped()
				newReaper(s.release).add(call("a", c.late), c.ttl)
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
		s := newReaped()
		r := newReaper(s.release)
		r.add(call("old", true), clock.NoExpiry)
		pass(time.Second)
		r.add(call("new", true), 100*time.Millisecond)
		pass(time.Hour)
		require.Equal(t, after(0, 25, 125, 525, 2125, 8525, 30000), s.times("old"))
		require.Equal(t, after(1000, 1025, 1100), s.times("new"))
	})
}

// One call is under way at a time. What comes meanwhile goes with the next.
func TestOneCallAtATime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newReaped()
		s.takes = time.Second
		r := newReaper(s.release)
		r.add(call("a", true), 0)
		synctest.Wait()
		r.add(call("b", true), 0)
		r.add(call("c", true), 0)
		pass(time.Hour)
		require.Equal(t, []try{{0, "a"}, {time.Second, "b"}, {time.Second, "c"}}, s.tries)
	})
	// Nor does the time come of an older item's next try while a call is under way.
	synctest.Test(t, func(t *testing.T) {
		s := newReaped()
		r := newReaper(s.release)
		r.add(call("old", true), time.Second)
		pass(50 * time.Millisecond)
		s.takes = 500 * time.Millisecond
		r.add(call("new", true), 0)
		pass(time.Hour)
		require.Equal(t, after(0, 25, 550, 1050, 1550), s.times("old"))
	})
}

// A call that gets no answer ends after 2 seconds, and its items are tried again.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newReaped()
		s.takes = time.Hour
		newReaper(s.release).add(call("a", true), 4025*time.Millisecond)
		pass(time.Hour)
		require.Equal(t, after(0, 2000, 4000, 6000), s.times("a"))
	})
}

// While nobody answers, the pause does not grow: what an outage has left is freed soon after it, however long
// it was, and as long as there is something to free.
func TestOutage(t *testing.T) {
	t.Parallel()
	for _, silent := range []bool{false, true} { // the call ends by its time-out, not by an error at once
		for _, outage := range []time.Duration{time.Second, 3 * time.Second, 9 * time.Second, 11 * time.Second,
			29 * time.Second, time.Minute, time.Hour} {
			t.Run(fmt.Sprintf("of %v, silent %v", outage, silent), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					s := newReaped()
					r := newReaper(func(ctx context.Context, due []releaseCall) []redislua.Reply[int64] {
						if left := outage - time.Since(s.start); left > 0 {
							if silent {
								_ = clock.Sleep(ctx, left, nil)
							}
							return noAnswers(due)
						}
						return s.release(ctx, due)
					})
					r.add(call("endless", false), clock.NoExpiry)
					r.add(call("long", false), 2*time.Hour)
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
		r := newReaper(func(context.Context, []releaseCall) []redislua.Reply[int64] {
			tries = append(tries, time.Since(start))
			return []redislua.Reply[int64]{{Err: serverError("NOPERM no right")}}
		})
		r.add(call("a", false), clock.NoExpiry)
		pass(time.Hour)
		require.Equal(t, after(0, 25, 125, 525, 1525, 2525), tries[:6])
		require.Equal(t, 30*time.Second, tries[len(tries)-1])
		require.Len(t, tries, 34)
	})
}

// What has a lease ends with it, also while nobody answers.
func TestOutageLongerThanALease(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tries := 0
		r := newReaper(func(_ context.Context, due []releaseCall) []redislua.Reply[int64] {
			tries++
			return noAnswers(due)
		})
		r.add(call("a", true), time.Minute)
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
		r := newReaper(func(_ context.Context, due []releaseCall) []redislua.Reply[int64] {
			calls.Add(1)
			mu.Lock()
			defer mu.Unlock()
			results := noAnswers(due)
			for i, call := range due {
				asked[call.token] = true
				if up.Load() {
					results[i].Err, freed[call.token] = nil, true
				}
			}
			return results
		})
		for i := range items {
			r.add(call(fmt.Sprint(i), false), clock.NoExpiry)
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
		r := newReaper(func(_ context.Context, due []releaseCall) []redislua.Reply[int64] {
			calls.Add(1)
			return noAnswers(due)
		})
		for i := range 1<<14 + 1 {
			r.add(call(fmt.Sprint(i), false), clock.NoExpiry)
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
		late       bool
		ttl, moves time.Duration // moves: from the beginning on
		want       []time.Duration
	}{
		"a short move": {true, clock.NoExpiry, second,
			after(0, 25, 125, 525, 2125, 8525, 30525)},
		"longer than a lease": {true, 0, 20 * second,
			after(0, 25, 125, 525, 2125, 7125, 12125, 17125, 22125, 42125, 47125)},
		"an answer is enough": {false, clock.NoExpiry, 34 * second,
			after(0, 25, 125, 525, 2125, 7125, 12125, 17125, 22125, 27125, 32125, 37125)},
		"no lease, and one answer for all": {false, 0, second, after(0, 25, 125, 525, 2125)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newReaped()
				newReaper(func(ctx context.Context, due []releaseCall) []redislua.Reply[int64] {
					results := s.release(ctx, due)
					if time.Since(s.start) < c.moves {
						results[0].Err = serverError("TRYAGAIN the slot moves")
					}
					return results
				}).add(call("a", c.late), c.ttl)
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
		r := newReaper(func(_ context.Context, due []releaseCall) []redislua.Reply[int64] {
			calls = append(calls, len(due))
			time.Sleep(time.Millisecond)
			return make([]redislua.Reply[int64], len(due))
		})
		r.add(call("first", true), 0)
		synctest.Wait() // under way
		for i := range 2500 {
			r.add(call(fmt.Sprint(i), true), 0)
		}
		pass(time.Hour)
		require.Equal(t, []int{1, 1000, 1000, 500}, calls)
	})
}

// Code of the user's that runs within a call may end its goroutine.
func TestReleaseEndsItsGoroutine(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newReaped()
		s.first = runtime.Goexit
		r := newReaper(s.release)
		r.add(call("a", false), time.Hour)
		pass(time.Minute)
		require.Equal(t, after(25), s.times("a"))
		r.close(limit)
	})
}

func TestClose(t *testing.T) {
	t.Parallel()
	t.Run("of nothing", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newReaped()
			newReaper(s.release).close(limit)
			require.Equal(t, s.start, time.Now())
			require.Empty(t, s.tries)
		})
	})
	t.Run("one last try for all that is pending", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newReaped()
			r := newReaper(s.release)
			r.add(call("a", true), clock.NoExpiry)
			r.add(call("b", true), clock.NoExpiry)
			pass(time.Second)
			s.tries, s.takes = nil, 50*time.Millisecond
			r.close(limit)
			require.Equal(t, []try{{time.Second, "a"}, {time.Second, "b"}}, s.tries)
			require.Equal(t, time.Second+50*time.Millisecond, time.Since(s.start), "it waits for the answer")
			pass(time.Hour)
			require.Len(t, s.tries, 2)
		})
	})
	t.Run("during a call", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newReaped()
			s.takes = time.Second
			r := newReaper(s.release)
			r.add(call("a", true), clock.NoExpiry)
			synctest.Wait() // the call for a is under way, and is its last
			r.add(call("b", true), clock.NoExpiry)
			r.close(2 * limit)
			require.Equal(t, []try{{0, "a"}, {time.Second, "b"}}, s.tries)
			require.Equal(t, 2*time.Second, time.Since(s.start))
		})
	})
	t.Run("during a call without an answer, of many", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			var answers atomic.Bool
			tried := map[string]int{}
			r := newReaper(func(ctx context.Context, due []releaseCall) []redislua.Reply[int64] {
				if !answers.Load() {
					<-ctx.Done()
					return noAnswers(due)
				}
				for _, i := range due {
					tried[i.token]++
				}
				return make([]redislua.Reply[int64], len(due))
			})
			for i := range 2500 {
				r.add(call(fmt.Sprint(i), true), clock.NoExpiry)
			}
			pass(3 * time.Second) // a call of the second round is under way, of a thousand
			time.AfterFunc(500*time.Millisecond, func() { answers.Store(true) })
			r.close(2 * limit)
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
			s := newReaped()
			s.takes = time.Hour
			r := newReaper(s.release)
			r.add(call("a", true), clock.NoExpiry)
			r.close(time.Second)
			require.Equal(t, time.Second, time.Since(s.start))
			pass(time.Hour)
			require.Len(t, s.tries, 1)
		})
	})
	t.Run("and then one try each", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := newReaped()
			r := newReaper(s.release)
			r.close(limit)
			r.add(call("late", true), clock.NoExpiry)
			pass(time.Hour)
			require.Equal(t, after(0), s.times("late"))
			r.close(limit)
			require.Equal(t, time.Hour, time.Since(s.start), "nothing is pending")
		})
	})
}

// A place that does not answer keeps no other waiting. Close makes a last try at each.
func TestPlacesAreApart(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var freed sync.Map
		r := &reapers{of: map[uint16]*reaper{},
			release: func(ctx context.Context, due []releaseCall) []redislua.Reply[int64] {
				results := noAnswers(due)
				for i, call := range due {
					if call.token == "silent" {
						<-ctx.Done()
					} else {
						freed.Store(call.token, time.Now())
						results[i].Err = nil
					}
				}
				return results
			}}
		start := time.Now()
		r.add(1, call("silent", false), time.Hour)
		time.Sleep(time.Second)
		r.add(2, call("b", false), time.Hour)
		synctest.Wait()
		at, _ := freed.Load("b")
		require.Equal(t, time.Second, at.(time.Time).Sub(start))
		r.close(limit)
		require.LessOrEqual(t, time.Since(start), time.Second+limit)
		r.add(3, call("c", false), time.Hour)
		synctest.Wait()
		_, last := freed.Load("c")
		require.True(t, last, "what comes after Close has one try")
		time.Sleep(time.Minute)
	})
}
