package failure

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// holders are the locks of one key whose callers have not given them up.
type holders struct {
	mu    sync.Mutex
	locks map[*rlock.Lock]struct{}
}

// two returns a text if two locks of them are valid at one instant: one that is valid
// before and after the other was seen to be so.
func (h *holders) two() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	for a := range h.locks {
		for b := range h.locks {
			if a != b && a.Err() == nil && b.Err() == nil && a.Err() == nil && b.Err() == nil {
				return fmt.Sprintf("%v and %v are both valid", a, b)
			}
		}
	}
	return ""
}

func (h *holders) add(l *rlock.Lock) { h.mu.Lock(); h.locks[l] = struct{}{}; h.mu.Unlock() }

func (h *holders) drop(l *rlock.Lock) { h.mu.Lock(); delete(h.locks, l); h.mu.Unlock() }

// Whatever is done with a lock at once, while replies are lost and commands are refused or
// late: it has one valid holder, and nothing of it stays.
func TestTokensChangeUnderEverything(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, one, direct := env.NewFaulty(t, e, rlock.WithTTL(time.Second))
		two := env.NewLocker(t, f, rlock.WithTTL(time.Second), rlock.WithOwner("two"))
		// commands under way; no WaitGroup, because the reaper may send another while somebody waits
		var late atomic.Int64
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			switch n := rand.IntN(100); {
			case n < 3:
				return env.NoReply()
			case n < 6:
				run()
				return env.NoReply()
			case n < 9 && (words[0] == "EVALSHA" || words[0] == "EVAL"):
				late.Add(1)
				go func() {
					defer late.Add(-1)
					time.Sleep(rand.N(300 * time.Millisecond))
					env.Do(t, direct, words...)
				}()
				return env.NoReply()
			case n < 11:
				return f.Refuse("LOADING for the test")
			case n < 15:
				time.Sleep(rand.N(100 * time.Millisecond))
			}
			return run()
		})
		lockers := []*rlock.Locker{one, two}
		keys := []string{"a", "b"}
		h := map[string]*holders{"a": {locks: map[*rlock.Lock]struct{}{}}, "b": {locks: map[*rlock.Lock]struct{}{}}}
		ctx, cancel := context.WithTimeout(t.Context(), 6*time.Second)
		defer cancel()
		var wrong atomic.Pointer[string]
		var extended, attached atomic.Int64
		var all sync.WaitGroup
		all.Go(func() {
			for ctx.Err() == nil {
				for _, key := range keys {
					if text := h[key].two(); text != "" {
						wrong.CompareAndSwap(nil, &text)
					}
				}
				time.Sleep(200 * time.Microsecond)
			}
		})
		use := func(locker *rlock.Locker, lock *rlock.Lock) {
			var users sync.WaitGroup
			for range 3 {
				users.Go(func() {
					for range rand.IntN(6) {
						short, end := context.WithTimeout(ctx, rand.N(200*time.Millisecond))
						switch rand.IntN(6) {
						case 0, 1:
							if lock.Extend(short, time.Duration(300+rand.IntN(2000))*time.Millisecond) == nil {
								extended.Add(1)
							}
						case 2:
							locker.ExtendEach(short, []*rlock.Lock{lock, lock},
								time.Duration(300+rand.IntN(2000))*time.Millisecond)
						case 3:
							if err := lock.Verify(short); errors.Is(err, rlock.ErrLost) {
								text := "Check: " + err.Error()
								wrong.CompareAndSwap(nil, &text)
							}
						case 4:
							_, _, _ = lock.Token(), lock.Deadline(), lock.Context()
						case 5:
							time.Sleep(rand.N(20 * time.Millisecond))
						}
						end()
					}
				})
			}
			if rand.IntN(2) == 0 {
				users.Wait()
			} else {
				time.Sleep(rand.N(50 * time.Millisecond))
				defer users.Wait()
			}
		}
		for i := range 8 {
			all.Go(func() {
				for ctx.Err() == nil {
					locker, key := lockers[rand.IntN(2)], keys[rand.IntN(2)]
					lock, err := locker.Acquire(ctx, key, rlock.WithAutoExtend(rand.IntN(2) == 0))
					if err != nil {
						continue
					}
					h[key].add(lock)
					use(locker, lock)
					for rand.IntN(3) == 0 {
						handoff, err := lock.Detach()
						if err != nil {
							break
						}
						h[key].drop(lock)
						locker = lockers[rand.IntN(2)]
						next, err := locker.Attach(ctx, handoff, rlock.WithAutoExtend(rand.IntN(2) == 0))
						if err != nil {
							next, err = locker.Attach(ctx, handoff)
						}
						if err != nil {
							break
						}
						attached.Add(1)
						lock = next
						h[key].add(lock)
						use(locker, lock)
					}
					var ends sync.WaitGroup
					for range 2 {
						ends.Go(func() {
							if i%2 == 0 {
								locker.ReleaseEach(ctx, []*rlock.Lock{lock, lock})
							} else {
								_ = lock.Release(ctx)
							}
						})
					}
					ends.Wait()
					h[key].drop(lock)
				}
			})
		}
		all.Wait()
		f.When(nil)
		env.Soon(t, func() bool { return late.Load() == 0 }, "late commands have arrived")
		if text := wrong.Load(); text != nil {
			t.Error(*text)
		}
		require.Positive(t, extended.Load())
		require.Positive(t, attached.Load())
		for _, key := range keys {
			env.Soon(t, func() bool { return env.Get(t, direct, key) == "" }, key+" is free")
		}
		require.Empty(t, one.Locks())
		require.Empty(t, two.Locks())
	})
}
