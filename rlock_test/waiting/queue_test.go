package waiting

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Whoever leaves the line leaves no trace, wherever it stands, and the next is
// served.
func TestLeavingTheLine(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		first, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		const waiters = 9
		type result struct {
			i    int
			lock *rlock.Lock
			err  error
		}
		results := make(chan result, waiters)
		var cancels [waiters]context.CancelFunc
		for i := range waiters {
			ctx, cancel := context.WithCancel(t.Context())
			cancels[i] = cancel
			defer cancel()
			go func() {
				lock, err := locker.Acquire(ctx, "job")
				results <- result{i, lock, err}
			}()
			env.AwaitWaiting(t, locker, int64(i+1))
		}
		for _, i := range []int{0, 4, 8, 3} { // the head, the middle, the tail, and a neighbour
			cancels[i]()
			r := env.Receive(t, results)
			require.Equal(t, i, r.i)
			require.ErrorIs(t, r.err, rlock.ErrGaveUp)
			require.ErrorIs(t, r.err, rlock.ErrHeld)
			require.ErrorIs(t, r.err, context.Canceled)
		}
		require.NoError(t, first.Release(t.Context()))
		for _, i := range []int{1, 2, 5, 6, 7} {
			r := env.Receive(t, results)
			require.NoError(t, r.err)
			require.Equal(t, i, r.i)
			require.NoError(t, r.lock.Release(t.Context()))
		}
	})
}

// Limits of the retry policy hold in the queue of a Locker too. Whoever gives up there has
// asked the server, once.
func TestLimitsInTheQueue(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker := env.OpenOn(t, server)
		first, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		before := server.ScriptCalls(t)
		for name, policy := range map[string]rlock.Retry{
			"attempts": rlock.Fixed(10 * time.Millisecond).MaxAttempts(3),
			"time":     rlock.Fixed(time.Hour).MaxTime(50 * time.Millisecond),
			"function": rlock.RetryFunc(func(a rlock.Attempt) (time.Duration, bool) {
				return time.Millisecond, a.Number < 5 && a.Remaining > 0 && a.Remaining <= 10*time.Second
			}),
		} {
			_, err := locker.Acquire(t.Context(), "job", rlock.WithRetry(policy))
			require.ErrorIs(t, err, rlock.ErrGaveUp, name)
			require.ErrorIs(t, err, rlock.ErrHeld, name)
			var facts *rlock.AcquireError
			require.ErrorAs(t, err, &facts)
			require.Equal(t, 1, facts.Attempts, name)
			require.Contains(t, err.Error(), "(after 1 attempt in ", name)
			require.InDelta(t, 10*time.Second, facts.Remaining, float64(5*time.Second), name)
			before++
			require.Equal(t, before, server.ScriptCalls(t), name)
		}

		// TryAcquire does not wait until the holder's loss is noticed, so it reads the key.
		_, err = locker.TryAcquire(t.Context(), "job")
		require.ErrorIs(t, err, rlock.ErrHeld)
		var facts *rlock.AcquireError
		require.ErrorAs(t, err, &facts)
		require.Positive(t, facts.Remaining)
		require.Equal(t, before+1, server.ScriptCalls(t), "one read")
		require.NoError(t, first.Release(t.Context()))
	})
}

// Attempts are questions to the server: who is handed the lock has asked nothing.
func TestAttemptsAskTheServer(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		locker := env.OpenOn(t, e.Start(t), rlock.WithTurn(time.Minute))
		first, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.Equal(t, 1, first.Attempts())
		events := make(chan rlock.Event, 10)
		next := make(chan *rlock.Lock, 1)
		go func() {
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithRetry(rlock.Fixed(time.Hour)),
				rlock.WithObserver(rlock.ObserverFunc(func(_ context.Context, e rlock.Event) { events <- e })))
			if err != nil {
				t.Error(err)
			}
			next <- lock
		}()
		contended := env.Receive(t, events)
		require.True(t, contended.Local)
		require.Zero(t, contended.Attempts)
		time.Sleep(5 * time.Millisecond) // a waiter that watches the lease, after 20 ms, may ask
		require.NoError(t, first.Release(t.Context()))
		second := env.Receive(t, next)
		require.Zero(t, second.Attempts())
		require.Zero(t, env.Receive(t, events).Attempts)
		require.NoError(t, second.Release(t.Context()))
		require.Equal(t, rlock.Stats{Acquired: 2, Attempts: 1, Contended: 1, HandedOver: 1, Released: 2},
			env.WithoutTimes(locker.Stats()))
	})
}

// A waiter does not give up on the word of this process alone: if the holder has lost the key
// and nobody has noticed, the waiter's last look notices, and the waiter gets the lock.
func TestGivingUpInTheQueueAsksTheServer(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		for name, policy := range map[string]rlock.Retry{
			"attempts": rlock.Fixed(10 * time.Millisecond).MaxAttempts(2),
			"once":     rlock.Fixed(time.Hour).MaxAttempts(1),
			"time":     rlock.Fixed(time.Hour).MaxTime(20 * time.Millisecond),
		} {
			t.Run(name, func(t *testing.T) {
				locker := env.NewLocker(t, client)
				holder, err := locker.Acquire(t.Context(), name, rlock.WithTTL(rlock.NoExpiry))
				require.NoError(t, err)
				require.NoError(t, env.Do(t, client, "DEL", name).Error())
				next, err := locker.Acquire(t.Context(), name, rlock.WithRetry(policy))
				require.NoError(t, err)
				require.LessOrEqual(t, next.Attempts(), 2, "the last look and the try")
				require.ErrorIs(t, holder.Err(), rlock.ErrLost)
				require.NoError(t, next.Release(t.Context()))
			})
		}
		t.Run("no answer", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, env.Engines(t)[0])
			_, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			f.RefuseAll()
			_, err = locker.Acquire(t.Context(), "job", rlock.WithRetry(rlock.Fixed(time.Hour).MaxAttempts(1)))
			require.ErrorIs(t, err, rlock.ErrGaveUp)
			require.ErrorIs(t, err, rlock.ErrNoAnswer)
			require.NotErrorIs(t, err, rlock.ErrHeld, "nobody knows")
			require.ErrorContains(t, err, "(after 1 attempt")
			require.ErrorContains(t, err, "the server cannot serve yet")
			f.When(nil)
			require.NotEmpty(t, env.Get(t, direct, "job"))
		})
	})
}

// Those who stand behind one that waits for another process know as much as it does
// of the holder's remaining time, or say that they do not know.
func TestWhatTheLineKnows(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		require.NoError(t, env.Do(t, client, "SET", "job", "foreign", "PX", "60000").Error())
		ctx, cancel := context.WithCancel(t.Context())
		first := make(chan error, 1)
		go func() {
			_, err := locker.Acquire(ctx, "job")
			first <- err
		}()
		env.AwaitWaiting(t, locker, 1)
		_, err := locker.Acquire(t.Context(), "job",
			rlock.WithRetry(rlock.RetryFunc(func(a rlock.Attempt) (time.Duration, bool) {
				return 0, false
			})))
		var facts *rlock.AcquireError
		require.ErrorAs(t, err, &facts)
		require.ErrorIs(t, err, rlock.ErrHeld)
		require.Greater(t, facts.Remaining, 30*time.Second)
		require.LessOrEqual(t, facts.Remaining, time.Minute)
		cancel()
		require.ErrorIs(t, env.Receive(t, first), context.Canceled)
	})
}

// A holder that ends without a release makes way: by expiry, and by loss.
func TestTheNextIsCalledWhenTheHolderEnds(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		t.Run("expired", func(t *testing.T) {
			_, err := locker.Acquire(t.Context(), "expires", rlock.WithTTL(3*time.Second))
			require.NoError(t, err)
			next, err := locker.Acquire(t.Context(), "expires")
			require.NoError(t, err)
			require.NoError(t, next.Release(t.Context()))
		})
		t.Run("forgotten long ago", func(t *testing.T) {
			_, err := locker.Acquire(t.Context(), "forgotten", rlock.WithTTL(3*time.Second))
			require.NoError(t, err)
			time.Sleep(3100 * time.Millisecond)
			next, err := locker.TryAcquire(t.Context(), "forgotten")
			require.NoError(t, err)
			require.NoError(t, next.Release(t.Context()))
		})
		t.Run("lost", func(t *testing.T) {
			lock, err := locker.Acquire(t.Context(), "lost", rlock.WithTTL(time.Hour))
			require.NoError(t, err)
			got := make(chan error, 1)
			go func() {
				next, err := locker.Acquire(t.Context(), "lost")
				if err == nil {
					err = next.Release(t.Context())
				}
				got <- err
			}()
			env.AwaitWaiting(t, locker, 1)
			require.NoError(t, env.Do(t, client, "DEL", "lost").Error())
			err = lock.Verify(t.Context())
			require.ErrorIs(t, err, rlock.ErrLost)
			require.NoError(t, env.Receive(t, got))
		})
	})
}

// However many callers of a process wait for another process' lock, they send a heartbeat about
// every second together, and one read when the lock is extended.
func TestWaitingCostsNothing(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		holder, waiters := env.OpenOn(t, server), env.OpenOn(t, server)
		held, err := holder.Acquire(t.Context(), "job", rlock.WithTTL(time.Hour))
		require.NoError(t, err)
		done := make(chan error, 100)
		for range cap(done) {
			go func() {
				lock, err := waiters.Acquire(t.Context(), "job")
				if err == nil {
					err = lock.Release(t.Context())
				}
				done <- err
			}()
		}
		env.AwaitWaiting(t, waiters, int64(cap(done)))
		client := server.Client(t)
		env.Soon(t, func() bool {
			keys, err := env.Do(t, client, "KEYS", "rlock:queue:*").AsStrSlice()
			return err == nil && len(keys) == 1
		}, "they have a place in the queue")
		time.Sleep(200 * time.Millisecond)
		began, before := time.Now(), server.ScriptCalls(t)
		time.Sleep(time.Second)
		calls := server.ScriptCalls(t) - before
		require.LessOrEqual(t, calls, heartbeats(began), "a heartbeat every second, however many wait")

		// An extension wakes the one that may ask, which reads once and waits on.
		began, before = time.Now(), server.ScriptCalls(t)
		require.NoError(t, held.Extend(t.Context(), time.Hour))
		time.Sleep(300 * time.Millisecond)
		calls = server.ScriptCalls(t) - before
		require.LessOrEqual(t, calls, 3+heartbeats(began), "the extension, a heartbeat or two, a read")
		require.NoError(t, held.Release(t.Context()))
		for range cap(done) {
			require.NoError(t, env.Receive(t, done))
		}
	})
}

// heartbeats is how many one waiter may have sent since then: each is at least 900 ms after the one before.
func heartbeats(since time.Time) int64 { return 1 + int64(time.Since(since)/(900*time.Millisecond)) }

// However a waiter's key is freed, and whatever happens to its connection, it
// notices.
func TestPushWakesWaiters(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		for name, free := range map[string]func(held *rlock.Lock){
			"released": func(held *rlock.Lock) { require.NoError(t, held.Release(t.Context())) },
			"deleted":  func(*rlock.Lock) { server.Do(t, "DEL", "job") },
			"flushed":  func(*rlock.Lock) { server.Do(t, "FLUSHALL") },
			"released, after the connection broke": func(held *rlock.Lock) {
				server.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
				time.Sleep(50 * time.Millisecond)
				require.NoError(t, held.Release(t.Context()))
			},
		} {
			t.Run(name, func(t *testing.T) {
				holder, waiter := env.OpenOn(t, server), env.OpenOn(t, server)
				held, err := holder.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
				require.NoError(t, err)
				got := make(chan error, 1)
				go func() {
					lock, err := waiter.Acquire(t.Context(), "job")
					if err == nil {
						err = lock.Release(t.Context())
					}
					got <- err
				}()
				time.Sleep(100 * time.Millisecond)
				free(held)
				require.NoError(t, env.ReceiveWithin(t, 20*time.Second, got))
			})
		}
	})
}

// Many hand-overs between several clients strand nobody and overlap nowhere.
func TestContendedHandOvers(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		for name, open := range map[string]func(t *testing.T) *rlock.Locker{
			"push": func(t *testing.T) *rlock.Locker { return env.OpenOn(t, server) },
			"poll": func(t *testing.T) *rlock.Locker { return env.NewLocker(t, server.Client(t)) },
		} {
			t.Run(name, func(t *testing.T) {
				const clients, workers, rounds, keys = 4, 16, 15, 2
				var inside [keys]atomic.Int32
				var fences [keys]uint64
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				defer cancel()
				lockers := make([]*rlock.Locker, clients)
				for i := range lockers {
					lockers[i] = open(t)
				}
				require.NoError(t, env.Together(clients*workers, func(i int) error {
					for round := range rounds {
						n := (i + round) % keys
						err := lockers[i%clients].Do(ctx, fmt.Sprintf("%s:%d", name, n),
							func(_ context.Context, lock *rlock.Lock) error {
								if inside[n].Add(1) != 1 {
									return fmt.Errorf("two holders of %d", n)
								}
								defer inside[n].Add(-1)
								if lock.Fence() <= fences[n] {
									return fmt.Errorf("the fence of %d fell", n)
								}
								fences[n] = lock.Fence()
								return nil
							})
						if err != nil {
							return err
						}
					}
					return nil
				}))
			})
		}
	})
}

// A waiter behind a holder of its own process gets the lock when the key is gone,
// though the holder does not know and its lease has no end.
func TestWaiterBehindAHolderWhoseKeyIsGone(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		for way, open := range map[string]func(t *testing.T) *rlock.Locker{
			"push": func(t *testing.T) *rlock.Locker { return env.OpenOn(t, server) },
			"poll": func(t *testing.T) *rlock.Locker { return env.NewLocker(t, server.Client(t)) },
		} {
			for what, free := range map[string]func(locker *rlock.Locker, key string, token string) error{
				"deleted": func(_ *rlock.Locker, key, _ string) error {
					server.Do(t, "DEL", key)
					return nil
				},
				"released by force": func(locker *rlock.Locker, key, token string) error {
					return env.Admin(locker).ForceRelease(t.Context(), key, token)
				},
			} {
				for policy, retry := range map[string]rlock.Retry{
					"default": rlock.DefaultRetry(), "fixed": rlock.Fixed(100 * time.Millisecond),
					"slow": rlock.Fixed(time.Hour),
				} {
					t.Run(way+", "+what+", "+policy, func(t *testing.T) {
						locker, key := open(t), way+what+policy
						lock, err := locker.Acquire(t.Context(), key, rlock.WithTTL(rlock.NoExpiry))
						require.NoError(t, err)
						got := make(chan error, 1)
						go func() {
							next, err := locker.Acquire(t.Context(), key, rlock.WithRetry(retry))
							if err == nil {
								err = next.Release(t.Context())
							}
							got <- err
						}()
						env.AwaitWaiting(t, locker, 1)
						require.NoError(t, free(locker, key, lock.Token()))
						require.NoError(t, env.ReceiveWithin(t, 10*time.Second, got))
						require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
					})
				}
			}
		}
	})
}
