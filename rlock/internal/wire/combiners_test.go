package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// slotSends are the combiners of a cluster, whose scripts that take keys a test answers.
type slotSends struct {
	*combiners
	scripts chan *slotBatch
}

type slotBatch struct {
	keys   []string
	answer chan error
	fail   func() // in place of an answer
}

func newSlotSends() *slotSends {
	s := &slotSends{scripts: make(chan *slotBatch, 1000)}
	s.combiners = newCombiners(true, func(_ context.Context, batch []*member[tryCall, Answer]) error {
		b := &slotBatch{answer: make(chan error)}
		for _, m := range batch {
			b.keys = append(b.keys, m.params.key)
			m.result.Held = m.params.key
		}
		s.scripts <- b
		err := <-b.answer
		if b.fail != nil {
			b.fail()
		}
		return err
	}, nil)
	return s
}

// alone makes a call that goes by itself, and returns what gives it an answer.
func (s *slotSends) alone(t *testing.T, key string) (answer func()) {
	t.Helper()
	p := s.enter(key)
	_, err, shared := p.tries.together(t.Context(), tryCall{key: key})
	require.NoError(t, err)
	require.False(t, shared, key)
	return func() {
		p.tries.answered()
		p.leave()
	}
}

// crowd has so many calls of a slot under way that others wait for company.
func (s *slotSends) crowd(t *testing.T, key string) (answer func()) {
	t.Helper()
	var ends []func()
	for range fewCalls {
		ends = append(ends, s.enter(key).leave)
	}
	for range enoughScripts {
		ends = append(ends, s.alone(t, key))
	}
	return func() {
		for _, end := range ends {
			end()
		}
	}
}

// ask makes a call in a goroutine of its own, and returns when that waits.
func (s *slotSends) ask(ctx context.Context, key string) <-chan error {
	done := make(chan error, 1)
	go func() {
		defer func() {
			if cause := recover(); cause != nil {
				done <- fmt.Errorf("panic: %v", cause)
			}
		}()
		p := s.enter(key)
		defer p.leave()
		result, err, shared := p.tries.together(ctx, tryCall{key: key})
		switch {
		case !shared:
			p.tries.answered()
			err = errAlone
		case err == nil && result.Held != key:
			err = errors.New(result.Held)
		}
		done <- err
	}()
	synctest.Wait()
	return done
}

// errAlone is what ask returns of a call that its caller has to make by itself.
var errAlone = errors.New("it goes by itself")

// remaining is how many pairs there are, without those that are spare.
func (s *slotSends) remaining() (n int) {
	for i := range s.shards {
		h := &s.shards[i]
		h.mu.Lock()
		n += len(h.slots)
		h.mu.Unlock()
	}
	return n
}

// answers answers the next script, which must be that of the calls for keys.
func (s *slotSends) answers(t *testing.T, keys ...string) {
	t.Helper()
	b := <-s.scripts
	require.Equal(t, keys, b.keys)
	b.answer <- nil
}

// idle requires that the combiners have nothing left.
func (s *slotSends) idle(t *testing.T) {
	t.Helper()
	synctest.Wait()
	require.Zero(t, s.remaining(), "what has nothing to do is dropped")
	require.Zero(t, s.used.Load())
	require.Empty(t, s.scripts)
}

// withSlots runs a test in a bubble, with combiners that must have nothing left at its end.
func withSlots(t *testing.T, test func(t *testing.T, s *slotSends)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSlotSends()
		test(t, s)
		s.idle(t)
	})
}

// Only calls of one slot go together, and those of another slot wait for none of them.
func TestCombinersKeepSlotsApart(t *testing.T) {
	t.Parallel()
	withSlots(t, func(t *testing.T, s *slotSends) {
		endA, endB := s.crowd(t, "{a}"), s.crowd(t, "{b}")
		require.Equal(t, 2, s.remaining())
		a1, b1, a2 := s.ask(t.Context(), "{a}1"), s.ask(t.Context(), "{b}1"), s.ask(t.Context(), "{a}2")
		require.Empty(t, s.scripts, "they wait")
		s.alone(t, "{c}")()
		require.Equal(t, 2, s.remaining())
		endA()
		s.answers(t, "{a}1", "{a}2")
		endB()
		s.answers(t, "{b}1")
		for _, done := range []<-chan error{a1, b1, a2} {
			require.NoError(t, <-done)
		}
	})
}

// Few callers of a slot make their calls by themselves, however many there are of other slots. Those who
// release count for those who take, and the other way round.
func TestCombinersCountTheCallersOfASlot(t *testing.T) {
	t.Parallel()
	withSlots(t, func(t *testing.T, s *slotSends) {
		end := s.crowd(t, "{b}")
		var ends []func()
		for i := range fewCalls {
			if i%2 == 0 {
				ends = append(ends, s.alone(t, "{a}"))
				continue
			}
			p := s.enter("{a}")
			_, _, shared := p.releases.together(t.Context(), releaseCall{keys: []string{"{a}"}})
			require.False(t, shared)
			ends = append(ends, func() {
				p.releases.answered()
				p.leave()
			})
		}
		waits := s.ask(t.Context(), "{a}1")
		require.Empty(t, waits, "it is one too many")
		for _, end := range append(ends, end) {
			end()
		}
		(<-s.scripts).answer <- nil
		require.NoError(t, <-waits)
	})
}

// While calls of many slots are under way, nobody waits for company, except where too many of one slot are.
func TestCombinersOfManySlots(t *testing.T) {
	t.Parallel()
	withSlots(t, func(t *testing.T, s *slotSends) {
		under := []func(){s.crowd(t, "{a}")}
		for n := range fewSlots - 1 {
			under = append(under, s.alone(t, fmt.Sprint("other", n)))
		}
		first := s.ask(t.Context(), "{a}1")
		require.Empty(t, s.scripts, "it waits: there are few slots")
		under = append(under, s.alone(t, "one more"))
		second := s.ask(t.Context(), "{a}2")
		s.answers(t, "{a}1", "{a}2")
		require.NoError(t, <-first)
		require.NoError(t, <-second)
		synctest.Wait()
		for range maxScripts - enoughScripts {
			under = append(under, s.alone(t, "{a}alone"))
		}
		waits := s.ask(t.Context(), "{a}late")
		time.Sleep(longestStop / 2)
		synctest.Wait()
		require.Empty(t, s.scripts, "the unanswered ones have a bound")
		for _, answer := range under {
			answer()
		}
		(<-s.scripts).answer <- nil
		require.NoError(t, <-waits)
	})
}

// While a script has no answer, its slot is not forgotten, although all its callers have left.
func TestCombinersRememberWhatIsUnderWay(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(){"answered": nil, "goexit": runtime.Goexit} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withSlots(t, func(t *testing.T, s *slotSends) {
				end := s.crowd(t, "a")
				ctx, cancel := context.WithCancel(t.Context())
				done := s.ask(ctx, "a")
				end()
				b := <-s.scripts
				cancel()
				require.ErrorIs(t, <-done, context.Canceled)
				synctest.Wait()
				require.Equal(t, 1, s.remaining())
				require.EqualValues(t, 1, s.used.Load())
				b.fail = fail
				b.answer <- nil
			})
		})
	}
}

// That holds for a script that releases too.
func TestCombinersRememberReleasesUnderWay(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		answer := make(chan error)
		s := &slotSends{
			combiners: newCombiners(
				true, nil, func(context.Context, []*member[releaseCall, int64]) error { return <-answer },
			),
		}
		p := s.enter("a")
		for range fewCalls {
			s.enter("a")
		}
		for range enoughScripts {
			_, _, shared := p.releases.together(t.Context(), releaseCall{keys: []string{"a"}})
			require.False(t, shared)
		}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			defer s.enter("a").leave()
			_, _, _ = p.releases.together(ctx, releaseCall{keys: []string{"a"}})
		}()
		synctest.Wait()
		for range enoughScripts {
			p.releases.answered()
		}
		for range fewCalls + 1 {
			p.leave()
		}
		cancel()
		synctest.Wait()
		require.Equal(t, 1, s.remaining())
		answer <- nil
		s.idle(t)
	})
}

// A caller whose call is not under way yet, or no longer, has the same pair as those who come meanwhile.
func TestCombinersRememberWhoHasEntered(t *testing.T) {
	t.Parallel()
	withSlots(t, func(t *testing.T, s *slotSends) {
		p := s.enter("a")
		s.alone(t, "a")()
		require.Equal(t, 1, s.remaining())
		again := s.enter("a")
		require.Same(t, p, again)
		again.leave()
		require.Equal(t, 1, s.remaining())
		p.leave()
	})
}

// A caller who gives up before its call is sent leaves nothing behind.
func TestCombinersForgetWhoGivesUp(t *testing.T) {
	t.Parallel()
	withSlots(t, func(t *testing.T, s *slotSends) {
		end := s.crowd(t, "a")
		ctx, cancel := context.WithCancel(t.Context())
		done := s.ask(ctx, "a")
		cancel()
		require.True(t, unsent(<-done))
		end()
		s.idle(t)
		time.Sleep(time.Second) // the timer that was to send the call is late
	})
}

// A hook of the client that panics, or ends the goroutine, does so for the callers of one slot, and leaves
// nothing behind.
func TestCombinersPanics(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fail func()
		want string
	}{
		"panic":  {func() { panic("hook") }, "panic: hook"},
		"goexit": {runtime.Goexit, errSenderEnded.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			withSlots(t, func(t *testing.T, s *slotSends) {
				endA, endB := s.crowd(t, "{a}"), s.crowd(t, "{b}")
				one, two, other := s.ask(t.Context(), "{a}1"), s.ask(t.Context(), "{a}2"), s.ask(t.Context(), "{b}1")
				endA()
				b := <-s.scripts
				b.fail = test.fail
				b.answer <- nil
				require.EqualError(t, <-one, test.want)
				require.EqualError(t, <-two, test.want)
				endB()
				(<-s.scripts).answer <- nil
				require.NoError(t, <-other)
			})
		})
	}
}

// What a server refuses because of the slot or of a right, each caller asks for by itself, and so do those
// who come in the time that follows, although nobody did meanwhile. Calls of other slots go together as ever.
func TestCombinersAfterARefusal(t *testing.T) {
	t.Parallel()
	for text, lasts := range map[string]bool{
		"NOPERM no": true, "TRYAGAIN the slot moves": true,
		"CLUSTERDOWN nobody has it": false, "NOPERM No permissions to access a key": false,
	} {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			withSlots(t, func(t *testing.T, s *slotSends) {
				end := s.crowd(t, "{a}")
				one, two := s.ask(t.Context(), "{a}1"), s.ask(t.Context(), "{a}2")
				end()
				(<-s.scripts).answer <- serverError(text)
				require.Equal(t, errAlone, <-one)
				require.Equal(t, errAlone, <-two)
				synctest.Wait()
				require.Zero(t, s.used.Load(), "no calls are under way")
				together := func(tag string) bool {
					defer s.crowd(t, tag)()
					done := s.ask(t.Context(), tag+"3")
					select {
					case err := <-done:
						require.ErrorIs(t, err, errAlone)
						return false
					default:
					}
					time.Sleep(scriptCost + callCost) // it waits no longer than a script takes
					(<-s.scripts).answer <- nil
					require.NoError(t, <-done)
					return true
				}
				if lasts {
					require.Equal(t, 1, s.remaining())
					require.False(t, together("{a}"))
					require.False(t, together("{a}"))
					require.True(t, together("{b}"))
					require.Equal(t, 1, s.remaining())
					time.Sleep(Patience)
				}
				s.idle(t)
				require.True(t, together("{b}"))
				require.True(t, together("{a}"))
			})
		})
	}
}

// A slot whose refusal is over while calls are under way stays until these have their answers.
func TestCombinersAfterTwoRefusals(t *testing.T) {
	t.Parallel()
	withSlots(t, func(t *testing.T, s *slotSends) {
		end := s.crowd(t, "a")
		one := s.ask(t.Context(), "a")
		first := <-s.scripts // the timer has sent it
		two := s.ask(t.Context(), "a")
		second := <-s.scripts
		first.answer <- serverError("TRYAGAIN the slot moves")
		require.Equal(t, errAlone, <-one)
		time.Sleep(Patience / 2)
		second.answer <- serverError("TRYAGAIN the slot moves")
		require.Equal(t, errAlone, <-two)
		time.Sleep(Patience/2 + time.Millisecond)
		require.Equal(t, errAlone, <-s.ask(t.Context(), "a"), "the second refusal counts")
		end()
		require.Equal(t, 1, s.remaining())
		end = s.crowd(t, "a")
		time.Sleep(Patience)
		synctest.Wait()
		require.Equal(t, 1, s.remaining(), "calls are under way")
		end()
	})
}

// What is kept for the next slots has a bound.
func TestCombinersKeepFewSpares(t *testing.T) { // counts allocations: not in parallel
	s := newSlotSends()
	var under []func()
	for n := range 10_000 {
		under = append(under, s.alone(t, fmt.Sprint("key", n)))
	}
	require.Greater(t, s.remaining(), 5000)
	for _, answer := range under {
		answer()
	}
	require.Zero(t, s.remaining())
	require.Zero(t, s.used.Load())
	for i := range s.shards {
		require.LessOrEqual(t, len(s.shards[i].spare), sparePairs)
		for _, p := range s.shards[i].spare {
			require.Zero(t, p.calls.Load())
			require.Zero(t, p.tries.underway)
		}
	}
	lone := func() {
		p := s.enter("key")
		_, _, _ = p.tries.together(t.Context(), tryCall{key: "key"})
		p.tries.answered()
		p.leave()
	}
	require.Zero(t, testing.AllocsPerRun(100, lone), "a lone call makes nothing anew")
}

// Many callers of many slots at once, some of whom leave, and whose scripts fail in each way: each gets its
// own answer, no script has keys of two slots, and nothing is left.
func TestCombinersConcurrency(t *testing.T) {
	t.Parallel()
	for _, slots := range []int{1, 3, 6, 40} {
		t.Run(fmt.Sprint(slots), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var scripts, mixed, calls atomic.Int64
				failure := func(keys []string) error {
					n := scripts.Add(1)
					calls.Add(int64(len(keys)))
					for _, key := range keys {
						if slot.Of(key) != slot.Of(keys[0]) {
							mixed.Add(1)
						}
					}
					runtime.Gosched()
					switch n % 7 {
					case 4:
						return io.EOF
					case 5:
						return serverError("CLUSTERDOWN nobody has it")
					}
					if n == 50 {
						return serverError("TRYAGAIN the slot moves")
					}
					return nil
				}
				s := &slotSends{combiners: newCombiners(true,
					func(_ context.Context, batch []*member[tryCall, Answer]) error {
						var keys []string
						for i, m := range batch {
							keys = append(keys, m.params.key)
							m.result.Held, m.alone = m.params.key, i%3 == 0
						}
						return failure(keys)
					}, func(_ context.Context, batch []*member[releaseCall, int64]) error {
						var keys []string
						for i, m := range batch {
							keys = append(keys, m.params.keys[0])
							m.result, m.alone = int64(len(m.params.token)), i%3 == 0
						}
						return failure(keys)
					})}
				known := func(err error) bool {
					return err == nil || errors.Is(err, io.EOF) || errors.Is(err, context.Canceled)
				}
				try := func(ctx context.Context, key string) {
					p := s.enter(key)
					defer p.leave()
					a, err, shared := p.tries.together(ctx, tryCall{key: key})
					if !shared {
						defer p.tries.answered()
						runtime.Gosched()
					} else if !known(err) || err == nil && a.Held != key {
						t.Errorf("%s: %s, %v", key, a.Held, err)
					}
				}
				pass := func(ctx context.Context, key, token string) {
					p := s.enter(key)
					defer p.leave()
					n, err, shared := p.releases.together(ctx, releaseCall{keys: []string{key}, token: token})
					if !shared {
						defer p.releases.answered()
						runtime.Gosched()
					} else if !known(err) || err == nil && n != int64(len(token)) {
						t.Errorf("%s: %d, %v", key, n, err)
					}
				}
				var wg sync.WaitGroup
				for worker := range 256 {
					wg.Go(func() {
						for i := range 30 {
							key := fmt.Sprintf("{%d}%d", (worker+i)%slots, worker)
							ctx, cancel := context.WithCancel(t.Context())
							if i%11 == 0 {
								go cancel()
							}
							try(ctx, key)
							pass(ctx, key, key[:1+i%3])
							cancel()
						}
					})
				}
				wg.Wait()
				t.Logf("%d scripts for %d calls", scripts.Load(), calls.Load())
				require.Zero(t, mixed.Load())
				time.Sleep(2 * Patience)
				s.scripts = nil
				s.idle(t)
			})
		})
	}
}
