package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// sends is a combiner of numbers, whose scripts a test answers. Others have many calls under way.
type sends struct {
	combiner[int, int]
	scripts chan *sentBatch
}

type sentBatch struct {
	numbers []int
	answer  chan error
}

func newSends() *sends {
	s := &sends{scripts: make(chan *sentBatch, 100)}
	s.pair, s.mu, s.spare = new(pair), new(sync.Mutex), new(sync.Pool)
	s.pair.calls.Store(fewCalls)
	s.send = func(_ context.Context, batch []*member[int, int]) error {
		b := &sentBatch{answer: make(chan error)}
		for _, m := range batch {
			b.numbers = append(b.numbers, m.params)
			m.result = -m.params
		}
		s.scripts <- b
		return <-b.answer
	}
	return s
}

// together makes a call as callers of the server do. If it goes by itself, finished ends it.
func (s *sends) together(ctx context.Context, number int) (result int, err error, shared bool) {
	s.pair.calls.Add(1)
	shared = true
	defer func() {
		if shared { // also if the client has panicked
			s.pair.leave()
		}
	}()
	return s.combiner.together(ctx, number)
}

func (s *sends) finished() {
	s.answered()
	s.pair.leave()
}

// busy has as many scripts under way as keep others from being sent at once. What it returns answers
// one of them.
func (s *sends) busy(t *testing.T) (answer func()) {
	for range enoughScripts {
		_, err, shared := s.together(t.Context(), 0)
		require.NoError(t, err)
		require.False(t, shared, "it goes by itself while few are under way")
	}
	return s.finished
}

// outcome is what share has returned.
type outcome struct {
	number, result int
	err            error
	shared         bool
}

// ask calls share in a goroutine of its own, and returns when that waits.
func (s *sends) ask(ctx context.Context, number int, done chan<- outcome) {
	go func() {
		r, err, shared := s.together(ctx, number)
		done <- outcome{number, r, err, shared}
	}()
	synctest.Wait()
}

func (s *sends) idle(t *testing.T) {
	t.Helper()
	synctest.Wait()
	require.Zero(t, s.underway)
	require.EqualValues(t, fewCalls, s.pair.calls.Load())
	require.Nil(t, s.first)
	require.Nil(t, s.last)
	require.Empty(t, s.scripts)
}

// What comes while scripts are under way goes in the next one, in order, and no more of it than a
// script may hold.
func TestCombinerKeepsTheOrder(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSends()
		answer := s.busy(t)
		done := make(chan outcome, 1000)
		var all []int
		for i := range 2*maxCalls + 10 {
			s.ask(t.Context(), i+1, done)
			all = append(all, i+1)
		}
		require.Empty(t, s.scripts, "all of them wait")
		answer()
		for first := 0; first < len(all); first += maxCalls {
			b := <-s.scripts
			require.Equal(t, all[first:min(first+maxCalls, len(all))], b.numbers)
			synctest.Wait()
			require.Empty(t, s.scripts, "the others wait for the answer")
			b.answer <- nil
		}
		answer()
		for range all {
			o := <-done
			require.Equal(t, outcome{o.number, -o.number, nil, true}, o)
		}
		s.idle(t)
	})
}

// Each of few calls goes by itself, and those of all combiners count. When there are more, the next ones
// wait; when there are fewer again, they do not.
func TestCombinerLeavesFewCallsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, other := newSends(), newSends()
		s.pair.calls.Store(0)
		other.pair = s.pair
		for i := range fewCalls {
			if i%2 == 0 {
				s.busy1(t)
			} else {
				other.busy1(t)
			}
		}
		done := make(chan outcome, 10)
		s.ask(t.Context(), 1, done)
		require.Empty(t, done, "it waits")
		other.finished()
		other.finished()
		s.ask(t.Context(), 2, done)
		require.Empty(t, done, "it does not overtake the first")
		time.Sleep(scriptCost + callCost)
		b := <-s.scripts
		require.Equal(t, []int{1, 2}, b.numbers)
		b.answer <- nil
		require.True(t, (<-done).shared)
		require.True(t, (<-done).shared)
		s.busy1(t)
		other.busy1(t)
		for s.underway > 0 {
			s.finished()
		}
		for other.underway > 0 {
			other.finished()
		}
		require.Zero(t, s.pair.calls.Load())
	})
}

// A call whose script is late goes at once: the server is far away, and has nothing to do. Nobody
// waits for longer than a script needs, and there is a bound.
func TestCombinerWaitsForNoDistance(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSends()
		s.busy(t)
		done := make(chan outcome, 1000)
		s.ask(t.Context(), 1, done)
		s.ask(t.Context(), 2, done)
		require.Empty(t, s.scripts)
		time.Sleep(scriptCost + callCost)
		synctest.Wait()
		far := <-s.scripts
		require.Equal(t, []int{1, 2}, far.numbers, "sent without an answer to the others")
		time.Sleep(time.Second)
		_, _, shared := s.together(t.Context(), 3)
		require.False(t, shared, "it goes by itself")
		for range 3 * maxScripts {
			time.Sleep(longestStop / 4 / maxScripts)
			s.ask(t.Context(), 4, done)
		}
		require.Equal(t, maxScripts, s.underway)
		alone := maxScripts - 1 - len(s.scripts) // those that went by themselves
		far.answer <- nil
		for range alone {
			s.finished()
		}
		for synctest.Wait(); len(s.scripts) > 0; synctest.Wait() {
			(<-s.scripts).answer <- nil
		}
		s.idle(t)
	})
}

// Scripts that never get an answer keep nobody waiting: what does not fit in one script is sent too, and
// what came when there were too many scripts is sent after the next answer.
func TestCombinerStrandsNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSends()
		s.busy(t)
		done := make(chan outcome, 10000)
		for i := range 3*maxCalls + 1 {
			s.ask(t.Context(), i, done)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		require.Len(t, s.scripts, 4)
		require.Nil(t, s.first)

		for range maxScripts {
			time.Sleep(longestStop / 4 / maxScripts)
			s.ask(t.Context(), 0, done)
		}
		require.Equal(t, maxScripts, s.underway)
		require.NotNil(t, s.first)
		sent := len(s.scripts)
		(<-s.scripts).answer <- nil
		time.Sleep(longestStop / 4)
		synctest.Wait()
		require.Len(t, s.scripts, sent)
		require.Nil(t, s.first)

		for range maxScripts - len(s.scripts) { // those that went by themselves
			s.finished()
		}
		for synctest.Wait(); len(s.scripts) > 0; synctest.Wait() {
			(<-s.scripts).answer <- nil
		}
		s.idle(t)
	})
}

// So many scripts without an answer as are under way at most keep the next ones waiting, but not for long:
// the server that has them may stand still, and another one may serve now.
func TestCombinerGoesOnAtAnotherServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSends()
		full := func() {
			for synctest.Wait(); s.counted() < maxScripts; {
				time.Sleep(scriptCost + callCost)
				_, _, shared := s.together(t.Context(), 0)
				require.False(t, shared)
			}
		}
		full()
		done := make(chan outcome, 10)
		s.ask(t.Context(), 1, done)
		time.Sleep(longestStop / 2)
		s.ask(t.Context(), 2, done)
		require.Empty(t, s.scripts, "they wait")
		s.finished()
		time.Sleep(scriptCost)
		(<-s.scripts).answer <- nil
		require.NoError(t, (<-done).err)
		require.NoError(t, (<-done).err)
		full()

		s.ask(t.Context(), 3, done)
		time.Sleep(longestStop + scriptCost + callCost)
		(<-s.scripts).answer <- nil
		require.Equal(t, outcome{3, -3, nil, true}, <-done)
		synctest.Wait()
		require.Equal(t, maxScripts, s.underway)
		s.busy(t)
		s.ask(t.Context(), 4, done)
		require.Empty(t, s.scripts, "those that are not stuck count as ever")
		time.Sleep(scriptCost + callCost)
		(<-s.scripts).answer <- nil
		require.Equal(t, outcome{4, -4, nil, true}, <-done)
		synctest.Wait()
		for range s.underway {
			s.finished()
		}
		s.idle(t)
		require.Zero(t, s.stuck)
	})
}

// A caller whose context ends leaves nothing behind before its call is sent. After that, nobody
// knows what came of the call, and the others get their answers.
func TestCombinerContexts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newSends()
		answer := s.busy(t)
		done := make(chan outcome, 10)
		contexts := make([]context.Context, 5)
		cancels := make([]context.CancelFunc, 5)
		for i := range contexts {
			contexts[i], cancels[i] = context.WithCancel(t.Context())
			s.ask(contexts[i], i, done)
		}
		for _, i := range []int{2, 0, 4} { // in the middle, at the front and at the end
			cancels[i]()
			o := <-done
			require.Equal(t, i, o.number)
			require.True(t, o.shared)
			require.ErrorIs(t, o.err, context.Canceled)
			require.True(t, unsent(o.err))
			require.Equal(t, Indeterminate, OutcomeOf(o.err))
		}
		answer()
		b := <-s.scripts
		require.Equal(t, []int{1, 3}, b.numbers)
		cancels[1]()
		o := <-done
		require.Equal(t, 1, o.number)
		require.ErrorIs(t, o.err, context.Canceled)
		require.False(t, unsent(o.err), "it was sent")
		b.answer <- nil
		require.Equal(t, outcome{3, -3, nil, true}, <-done)
		cancels[3]()
		answer()
		s.idle(t)
	})
}

// What a script says of all its calls.
func TestCombinerErrors(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name   string
		err    error
		shared bool
		paused bool
	}{
		{"no answer", fmt.Errorf("lost: %w", io.EOF), true, false},
		{"refused", serverError("LOADING it loads"), false, false},
		{"forbidden", serverError("NOPERM no"), false, true},
		{"while the slot moves", serverError("TRYAGAIN it moves"), false, true},
		{"of a forbidden key", serverError("NOPERM No permissions to access a key"), false, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSends()
				answer := s.busy(t)
				done := make(chan outcome, 10)
				for i := range 3 {
					s.ask(t.Context(), i, done)
				}
				answer()
				(<-s.scripts).answer <- test.err
				for range 3 {
					o := <-done
					require.Equal(t, test.shared, o.shared)
					if test.shared {
						require.ErrorIs(t, o.err, test.err)
					} else {
						require.NoError(t, o.err, "the caller asks for itself")
						defer s.finished()
					}
				}
				if !test.shared { // the three are under way
					s.ask(t.Context(), 1, done)
					if test.paused {
						require.False(t, (<-done).shared, "nobody waits for scripts that are refused")
						s.finished()
					} else {
						require.Empty(t, s.scripts, "calls go together again, so it waits")
						time.Sleep(scriptCost + callCost)
						(<-s.scripts).answer <- nil
						require.True(t, (<-done).shared)
					}
				}
				answer()
			})
		})
	}
}

// A hook of the client that panics, or ends the goroutine, does so for each of the calls, and for
// nobody else.
func TestCombinerPanics(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(){"panic": func() { panic("hook") }, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := newSends()
				failing := true
				s.send = func(_ context.Context, batch []*member[int, int]) error {
					if failing {
						fail()
					}
					return nil
				}
				answer := s.busy(t)
				var got []any
				var mu sync.Mutex
				ask := func() {
					go func() {
						defer func() {
							mu.Lock()
							defer mu.Unlock()
							got = append(got, recover())
						}()
						_, err, shared := s.together(t.Context(), 1)
						if shared && err != nil {
							panic(err)
						}
					}()
				}
				ask()
				ask()
				synctest.Wait()
				answer()
				synctest.Wait()
				if name == "panic" {
					require.Equal(t, []any{"hook", "hook"}, got)
				} else {
					require.Equal(t, []any{errSenderEnded, errSenderEnded}, got)
				}
				failing, got = false, nil
				s.busy1(t)
				ask()
				synctest.Wait()
				answer()
				synctest.Wait()
				require.Equal(t, []any{nil}, got, "the next ones go as ever")
				answer()
				s.idle(t)
			})
		})
	}
}

// busy1 adds one script to those under way.
func (s *sends) busy1(t *testing.T) {
	_, _, shared := s.together(t.Context(), 0)
	require.False(t, shared)
}

// Many callers at once, some of whom leave: each gets its own answer, and nothing is left.
func TestCombinerConcurrency(t *testing.T) {
	t.Parallel()
	c := newSends()
	c.pair.calls.Store(0)
	c.send = func(_ context.Context, batch []*member[int, int]) error {
		for i, m := range batch {
			m.result, m.alone = m.params*2, m.params%7 == 0
			if i%3 == 0 {
				runtime.Gosched()
			}
		}
		if len(batch)%5 == 4 {
			return io.EOF
		}
		return nil
	}
	var wg sync.WaitGroup
	for worker := range 64 {
		wg.Go(func() {
			for i := range 500 {
				n := worker*1000 + i
				ctx, cancel := context.WithCancel(t.Context())
				if i%11 == 0 {
					go cancel()
				}
				r, err, shared := c.together(ctx, n)
				switch {
				case !shared:
					c.finished()
				case err == nil && (r != 2*n || n%7 == 0):
					t.Errorf("%d: %d", n, r)
				case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, context.Canceled):
					t.Error(err)
				}
				cancel()
			}
		})
	}
	wg.Wait()
	require.Eventually(t, func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.underway == 0 },
		10*time.Second, time.Millisecond)
	require.Zero(t, c.pair.calls.Load())
	require.Nil(t, c.first)
	require.Nil(t, c.last)
}
