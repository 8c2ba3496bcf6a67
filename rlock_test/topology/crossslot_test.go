package topology

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// spread are keys of three nodes of a cluster, and two of one slot. By slot they
// stand as b (3300), c (7365), {a}2 and a (15495).
var spread = []string{"a", "b", "c", "{a}2"}

// newFaultyCluster returns a faulty client of a cluster, a locker on it that takes
// sets of several slots, and another client.
func newFaultyCluster(t *testing.T, e env.Engine) (*env.Faulty, *rlock.Locker, rueidis.Client) {
	t.Helper()
	c := e.StartCluster(t)
	f := &env.Faulty{Client: c.Client(t)}
	require.NoError(t, gen.New().Load(t.Context(), f.Client))
	return f, env.NewLocker(t, f, rlock.WithCrossSlot(true)), c.Client(t)
}

// of reports whether words call the script for the key first.
func of(words []string, sha, key string) bool { return env.Calls(words, sha) && words[3] == key }

func TestCrossSlot(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := newFaultyCluster(t, e)
		rival := env.NewLocker(t, direct, rlock.WithCrossSlot(true))
		nothing := func(t *testing.T) {
			t.Helper()
			env.Soon(t, func() bool {
				for _, key := range spread {
					if env.Get(t, direct, key) != "" {
						return false
					}
				}
				return true
			}, "nothing is left")
		}

		t.Run("a lock like any other", func(t *testing.T) {
			lock, err := locker.AcquireAll(t.Context(), spread)
			require.NoError(t, err)
			require.Equal(t, spread, lock.Keys())
			for _, key := range spread {
				require.Equal(t, lock.Token(), env.Get(t, direct, key))
			}
			require.NoError(t, lock.Err())
			_, err = rival.TryAcquireAll(t.Context(), []string{"x", "c"})
			require.ErrorIs(t, err, rlock.ErrHeld)
			require.Empty(t, env.Get(t, direct, "x"))

			require.NoError(t, lock.Extend(t.Context(), time.Hour))
			for _, key := range spread {
				require.Greater(t, env.TTL(t, direct, key), 59*time.Minute)
			}
			require.Greater(t, time.Until(lock.Deadline()), 59*time.Minute)
			require.NoError(t, lock.Verify(t.Context()))

			ctx := lock.Context()
			require.NoError(t, lock.Release(t.Context()))
			require.ErrorIs(t, context.Cause(ctx), rlock.ErrReleased)
			require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrReleased)
			nothing(t)
		})
		t.Run("is asked for", func(t *testing.T) {
			_, err := env.NewLocker(t, direct).AcquireAll(t.Context(), spread)
			require.ErrorIs(t, err, rlock.ErrCrossSlot)
			_, err = locker.AcquireAll(t.Context(), spread, rlock.WithToken("mine"))
			require.ErrorIs(t, err, rlock.ErrInvalid)
			lock, err := locker.AcquireAll(t.Context(), []string{"a", "{a}2"}, rlock.WithToken("mine"))
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
		})
		t.Run("taken by slot, freed when one is held", func(t *testing.T) {
			held, err := rival.Acquire(t.Context(), "a", rlock.WithTTL(time.Hour))
			require.NoError(t, err)
			var order []string
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if env.Calls(words, gen.AcquireAllSHA1) {
					order = append(order, words[3])
				}
				return run()
			})
			_, err = locker.TryAcquireAll(t.Context(), spread)
			f.When(nil)
			require.ErrorIs(t, err, rlock.ErrHeld)
			var facts *rlock.AcquireError
			require.ErrorAs(t, err, &facts)
			require.Equal(t, "a", facts.Key)
			require.Greater(t, facts.Remaining, 59*time.Minute)
			require.True(t, slices.IsSortedFunc(order,
				func(a, b string) int { return int(redislua.Slot(a)) - int(redislua.Slot(b)) }), order)
			require.Len(t, order, 3)
			for _, key := range []string{"b", "c", "{a}2"} {
				require.Empty(t, env.Get(t, direct, key), "freed by the time that the call returns")
			}

			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error, 1)
			go func() {
				_, err := locker.AcquireAll(ctx, spread, rlock.WithRetry(rlock.Fixed(time.Hour)))
				failed <- err
			}()
			time.Sleep(200 * time.Millisecond)
			other, err := rival.Acquire(t.Context(), "b")
			require.NoError(t, err, "a waiting set holds nothing")
			require.NoError(t, other.Release(t.Context()))
			cancel()
			require.ErrorIs(t, env.Receive(t, failed), rlock.ErrGaveUp)
			require.NoError(t, held.Release(t.Context()))
			nothing(t)
		})
		t.Run("one lost key ends the lock", func(t *testing.T) {
			lock, err := locker.AcquireAll(t.Context(), spread)
			require.NoError(t, err)
			require.NoError(t, env.Do(t, direct, "SET", "c", "thief").Error())
			err = lock.Extend(t.Context(), time.Hour)
			require.ErrorIs(t, err, rlock.ErrLost)
			var facts *rlock.LockError
			require.ErrorAs(t, err, &facts)
			require.Equal(t, "c", facts.Key)
			require.Error(t, lock.Err())
			require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
			require.Equal(t, "thief", env.Get(t, direct, "c"))
			require.NoError(t, env.Do(t, direct, "DEL", "c").Error())
			nothing(t)

			lock, err = locker.AcquireAll(t.Context(), spread)
			require.NoError(t, err)
			require.NoError(t, env.Do(t, direct, "DEL", "b").Error())
			err = lock.Verify(t.Context())
			require.ErrorIs(t, err, rlock.ErrLost)
			require.ErrorContains(t, err, `"b"`)
			require.Error(t, lock.Err())
			require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
			nothing(t)
		})
		t.Run("lost replies", func(t *testing.T) {
			for _, sha := range []string{gen.AcquireAllSHA1, gen.ReleaseSHA1, gen.ExtendSHA1} {
				f.When(env.Once(sha, func(run func() rueidis.RedisResult) rueidis.RedisResult {
					run()
					return env.NoReply()
				}))
				lock, err := locker.AcquireAll(t.Context(), spread, rlock.WithTTL(time.Minute))
				require.NoError(t, err)
				require.NoError(t, lock.Extend(t.Context(), time.Hour))
				require.NoError(t, lock.Release(t.Context()))
				nothing(t)
			}
			f.When(nil)
		})
		t.Run("a slot that refuses leaves nothing", func(t *testing.T) {
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if of(words, gen.AcquireAllSHA1, "c") {
					return f.Refuse("OOM command not allowed")
				}
				return run()
			})
			_, err := locker.AcquireAll(t.Context(), spread, rlock.WithTTL(rlock.NoExpiry))
			require.ErrorContains(t, err, "OOM")
			require.Empty(t, env.Get(t, direct, "b"))
			f.When(nil)
		})
		t.Run("what cannot be freed at once is freed behind", func(t *testing.T) {
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				switch {
				case of(words, gen.AcquireAllSHA1, "c"):
					return f.Refuse("OOM command not allowed")
				case env.Calls(words, gen.ReleaseSHA1), env.Calls(words, gen.ReleaseManySHA1):
					return env.NoReply()
				}
				return run()
			})
			_, err := locker.AcquireAll(t.Context(), spread, rlock.WithTTL(rlock.NoExpiry))
			require.ErrorContains(t, err, "OOM")
			require.NotEmpty(t, env.Get(t, direct, "b"))
			f.When(nil)
			nothing(t)
		})
		t.Run("a partial extension counts on the shorter lease", func(t *testing.T) {
			lock, err := locker.AcquireAll(t.Context(), spread, rlock.WithTTL(time.Hour))
			require.NoError(t, err)
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if of(words, gen.ExtendSHA1, "c") {
					return f.Refuse("LOADING for now")
				}
				return run()
			})
			err = lock.Extend(t.Context(), time.Minute)
			require.ErrorContains(t, err, "LOADING")
			require.LessOrEqual(t, env.TTL(t, direct, "a"), time.Minute)
			require.LessOrEqual(t, time.Until(lock.Deadline()), time.Minute)
			require.NoError(t, lock.Err())
			f.When(nil)
			require.NoError(t, lock.Release(t.Context()))
		})
		t.Run("a partial release can be called again", func(t *testing.T) {
			lock, err := locker.AcquireAll(t.Context(), spread, rlock.WithTTL(time.Hour))
			require.NoError(t, err)
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if of(words, gen.ReleaseSHA1, "c") {
					return f.Refuse("LOADING for now")
				}
				return run()
			})
			require.ErrorContains(t, lock.Release(t.Context()), "LOADING")
			require.Empty(t, env.Get(t, direct, "a"))
			f.When(nil)
			require.NoError(t, lock.Release(t.Context()))
			nothing(t)
		})
		t.Run("batches take it too", func(t *testing.T) {
			lock, err := locker.AcquireAll(t.Context(), spread)
			require.NoError(t, err)
			one, err := locker.TryAcquire(t.Context(), "x")
			require.NoError(t, err)
			for _, err := range locker.ExtendEach(t.Context(), []*rlock.Lock{lock, one}, time.Hour) {
				require.NoError(t, err)
			}
			require.Greater(t, env.TTL(t, direct, "c"), 59*time.Minute)
			for _, err := range locker.ReleaseEach(t.Context(), []*rlock.Lock{lock, one}) {
				require.NoError(t, err)
			}
			nothing(t)
		})
		t.Run("without a fence", func(t *testing.T) {
			lock, err := locker.AcquireAll(t.Context(), spread, rlock.WithFence(false))
			require.NoError(t, err)
			require.Zero(t, lock.Fence())
			require.NoError(t, lock.Release(t.Context()))
			nothing(t)
		})
		t.Run("handed over", func(t *testing.T) {
			lock, err := locker.AcquireAll(t.Context(), spread)
			require.NoError(t, err)
			again, err := rival.Attach(t.Context(), env.Detach(t, lock))
			require.NoError(t, err)
			require.NoError(t, again.Extend(t.Context(), time.Hour))
			require.NoError(t, again.Release(t.Context()))
			nothing(t)
		})
		t.Run("handed over, and one key is lost", func(t *testing.T) {
			lock, err := locker.AcquireAll(t.Context(), spread)
			require.NoError(t, err)
			h := env.Detach(t, lock)
			require.NoError(t, env.Do(t, direct, "DEL", spread[1]).Error())
			_, err = rival.Attach(t.Context(), h)
			require.ErrorIs(t, err, rlock.ErrLost)
			_, err = rival.Attach(t.Context(), h)
			require.ErrorIs(t, err, rlock.ErrLost)
			for _, key := range spread { // those of slots that were asked later wait for their lease
				require.NoError(t, env.Do(t, direct, "DEL", key).Error())
			}
		})
		t.Run("handed over, and one slot does not answer", func(t *testing.T) {
			lock, err := locker.AcquireAll(t.Context(), spread)
			require.NoError(t, err)
			h := env.Detach(t, lock)
			var asked atomic.Int32
			ctx, exceed := env.Deadline(t.Context())
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if n := asked.Add(1); env.IsAttach(words) && n > 1 {
					run()
					exceed()
					return env.NoReply()
				}
				return run()
			})
			_, err = locker.Attach(ctx, h)
			require.Error(t, err)
			require.NotErrorIs(t, err, rlock.ErrLost)
			f.When(nil)
			again, err := rival.Attach(t.Context(), h)
			require.NoError(t, err)
			require.NoError(t, again.Release(t.Context()))
			nothing(t)
		})
		t.Run("shortened, and one slot does not answer", func(t *testing.T) {
			for how, runs := range map[string]bool{"ran": true, "did not run": false} {
				lock, err := locker.AcquireAll(t.Context(), spread, rlock.WithTTL(time.Hour))
				require.NoError(t, err)
				var asked atomic.Int32
				ctx, exceed := env.Deadline(t.Context())
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					if n := asked.Add(1); env.IsExtend(words) && n > 1 {
						if runs {
							run()
						}
						exceed()
						return env.NoReply()
					}
					return run()
				})
				require.Error(t, lock.Extend(ctx, time.Minute), how)
				f.When(nil)
				if runs {
					require.NoError(t, lock.Extend(t.Context(), 30*time.Second))
					for _, key := range spread {
						require.InDelta(t, 30*time.Second, env.TTL(t, direct, key), float64(5*time.Second))
						require.Equal(t, lock.Token(), env.Get(t, direct, key))
					}
				}
				require.NoError(t, lock.Release(t.Context()), how)
				nothing(t)
			}
		})
		t.Run("extended by itself", func(t *testing.T) {
			err := locker.DoAll(t.Context(), spread, func(ctx context.Context, lock *rlock.Lock) error {
				time.Sleep(4 * time.Second)
				return ctx.Err()
			}, rlock.WithTTL(3*time.Second))
			require.NoError(t, err)
			nothing(t)
		})
	})
}

// The fence of a set is above all earlier ones of its keys and below all later ones,
// however far the nodes' counters are apart.
func TestCrossSlotFences(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := newFaultyCluster(t, e)
		last := map[string]uint64{}
		take := func(keys ...string) uint64 {
			t.Helper()
			lock, err := locker.AcquireAll(t.Context(), keys)
			require.NoError(t, err)
			for _, key := range keys {
				require.Greater(t, lock.Fence(), last[key])
				last[key] = lock.Fence()
			}
			require.NoError(t, lock.Release(t.Context()))
			return lock.Fence()
		}
		ahead := func(key string) {
			t.Helper()
			counters, err := direct.Nodes()[nodeOf(t, direct, key)].Do(t.Context(),
				direct.B().Arbitrary("KEYS", "rlock:fence:*").Build()).AsStrSlice()
			require.NoError(t, err)
			for _, counter := range counters {
				if redislua.Slot(counter) == redislua.Slot(key) {
					require.NoError(t, env.Do(t, direct, "INCRBY", counter, "5000000").Error())
				}
			}
		}
		for _, key := range []string{"b", "c", "a"} {
			take(key)
			ahead(key) // a clock or a count that is seconds before the others
			set := take(spread...)
			for _, key := range spread {
				require.Greater(t, take(key), set)
			}
		}

		// A key that is lost before the counters are raised is not acquired.
		ahead("a")
		f.When(env.Once(gen.RaiseFenceSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
			require.NoError(t, env.Do(t, direct, "SET", "b", "thief").Error())
			return run()
		}))
		_, err := locker.TryAcquireAll(t.Context(), spread)
		require.ErrorIs(t, err, rlock.ErrHeld)
		f.When(env.Once(gen.RaiseFenceSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
			run()
			return env.NoReply()
		}))
		require.NoError(t, env.Do(t, direct, "DEL", "b").Error())
		take(spread...)
	})
}

func nodeOf(t testing.TB, client rueidis.Client, key string) string {
	t.Helper()
	for addr, node := range client.Nodes() {
		if err := node.Do(t.Context(), node.B().Get().Key(key).Build()).Error(); err == nil ||
			rueidis.IsRedisNil(err) {
			return addr
		}
	}
	require.FailNow(t, "no node has the key")
	return ""
}

// Workers take overlapping sets of many slots in any order, as in TestOverlappingSets.
func TestOverlappingCrossSlotSets(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.StartCluster(t).Client(t)
		env.OverlapSets(t, client, 6, 15, rlock.WithCrossSlot(true))
	})
}

// Without a cluster a set is one call at one instant, with the option or without.
func TestCrossSlotOnOneServer(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker := env.NewLocker(t, server.Client(t), rlock.WithCrossSlot(true))
		before := server.ScriptCalls(t)
		lock, err := locker.AcquireAll(t.Context(), spread, rlock.WithToken("mine"))
		require.NoError(t, err)
		require.NoError(t, lock.Extend(t.Context(), time.Minute))
		require.NoError(t, lock.Release(t.Context()))
		require.LessOrEqual(t, server.ScriptCalls(t)-before, int64(6),
			"three calls, by the SHA1 and then by the text")
	})
}

// A set of several slots gets its keys although the queue of none of them is ever empty.
func TestCrossSlotSetsDoNotStarve(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		stop := make(chan struct{})
		var all sync.WaitGroup
		for range 3 {
			l := openOn(t, cluster)
			for _, key := range spread[:2] {
				all.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if lock, err := l.Acquire(ctx, key); err == nil {
							time.Sleep(time.Millisecond)
							_ = lock.Release(ctx)
						}
					}
				})
			}
		}
		time.Sleep(200 * time.Millisecond)
		began := time.Now()
		set, err := openOn(t, cluster).AcquireAll(ctx, spread[:2], rlock.WithCrossSlot(true))
		close(stop)
		require.NoError(t, err)
		t.Log(time.Since(began))
		require.NoError(t, set.Release(t.Context()))
		all.Wait()
	})
}

// A set of several slots that takes its keys in order, which is that of the slots, gives back what it has
// got after a while, also when it gives up.
func TestCrossSlotSetGivesBack(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		direct := cluster.Client(t)
		locker := openOn(t, cluster)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		failed := make(chan error, 1)
		waiters := func(key string) int {
			node := cluster.Nodes[map[string]int{"b": 0, "c": 1}[key]]
			return len(queuedAt(t, node, key))
		}
		collects := func() {
			failed <- env.ErrorOf(locker.AcquireAll(ctx, []string{"b", "c", "a"}, rlock.WithCrossSlot(true),
				rlock.WithTTL(time.Minute)))
		}
		c := env.CollectsInOrder(t, waiters, collects, openOn(t, cluster), "b", "c")
		require.NotEmpty(t, env.Get(t, direct, "b"))
		require.Empty(t, env.Get(t, direct, "a"), "in the order of slots")
		for env.Get(t, direct, "b") != "" { // which it gives back after ten seconds
			time.Sleep(10 * time.Millisecond)
		}
		env.Soon(t, func() bool { return waiters("c") == 1 }, "it waits again")
		cancel()
		require.ErrorIs(t, env.Receive(t, failed), context.Canceled)
		env.Soon(
			t, func() bool { return env.Get(t, direct, "b") == "" && waiters("c") == 0 }, "it has left nothing",
		)
		require.Equal(t, c.Token(), env.Get(t, direct, "c"))
	})
}

// Each slot of a set keeps its keys for the time of WithMinHold, and the next set gets them after it; also
// if the reply of one slot is lost.
func TestCrossSlotMinHold(t *testing.T) {
	t.Parallel()
	const minHold = time.Second
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := newFaultyCluster(t, e)
		rival := env.NewLocker(t, direct, rlock.WithCrossSlot(true))
		for _, loses := range []bool{false, true} {
			start := time.Now()
			lock, err := locker.AcquireAll(t.Context(), spread, rlock.WithTTL(time.Minute), rlock.WithMinHold(minHold))
			require.NoError(t, err)
			if loses {
				f.When(env.Once(gen.ExtendSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
					run()
					return env.NoReply()
				}))
			}
			require.NoError(t, lock.Release(t.Context()))
			f.When(nil)
			for _, key := range spread {
				value := env.Get(t, direct, key)
				if time.Since(start) < minHold {
					require.NotEmpty(t, value, key)
					require.NotEqual(t, lock.Token(), value, key)
				}
			}
			next, err := rival.AcquireAll(t.Context(), spread)
			require.NoError(t, err)
			require.GreaterOrEqual(t, time.Since(start), minHold)
			require.Less(t, time.Since(start), minHold+30*time.Second, "not when the former lease would have ended")
			require.NoError(t, next.Release(t.Context()))
		}
	})
}

// Terms of leaders on a cluster follow each other, and who looks on sees them.
func TestLeadOnACluster(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		c := e.StartCluster(t)
		viewer := env.NewLocker(t, c.Client(t))
		var leading atomic.Int32
		var last atomic.Uint64
		var seen sync.Map
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		looked := make(chan struct{})
		go func() {
			defer close(looked)
			for state, err := range viewer.Leaders(ctx, "leader") {
				if err == nil && state.Held {
					seen.Store(state.Owner, true)
				}
			}
		}()
		owners := []string{"a", "b", "c"}
		require.NoError(t, env.Together(len(owners), func(i int) error {
			return env.NewLocker(t, c.Client(t)).Lead(t.Context(), "leader",
				func(_ context.Context, lock *rlock.Lock) error {
					defer leading.Add(-1)
					if leading.Add(1) > 1 || lock.Fence() <= last.Swap(lock.Fence()) {
						t.Error("two leaders, or a term that is not later")
					}
					for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
						if _, saw := seen.Load(owners[i]); saw {
							return nil
						}
					}
					t.Errorf("who looks on has not seen %q", owners[i])
					return nil
				}, rlock.WithOwner(owners[i]))
		}))
		cancel()
		env.Receive(t, looked)
	})
}
