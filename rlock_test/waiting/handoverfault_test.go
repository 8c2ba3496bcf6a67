package waiting

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// However a hand-over goes wrong, the holder has released and the waiter gets the
// lock.
func TestHandOverThatGoesWrong(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, fault := range map[string]func(f *env.Faulty, run func() rueidis.RedisResult) rueidis.RedisResult{
			"its reply is lost": func(_ *env.Faulty, run func() rueidis.RedisResult) rueidis.RedisResult {
				run()
				return env.NoReply()
			},
			"it does not arrive": func(*env.Faulty,
				func() rueidis.RedisResult) rueidis.RedisResult {
				return env.NoReply()
			},
			"it is refused": func(f *env.Faulty, _ func() rueidis.RedisResult) rueidis.RedisResult {
				return f.Refuse("OOM command not allowed")
			},
		} {
			for times, often := range map[string]int{"once": 1, "always": 1000} {
				t.Run(name+" "+times, func(t *testing.T) {
					t.Parallel()
					f, locker, direct := env.NewFaulty(t, e, rlock.WithTurn(time.Hour))
					first, err := locker.Acquire(t.Context(), "job")
					require.NoError(t, err)
					waiters := env.NextInLine(t, locker, "job")
					var calls atomic.Int32
					f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
						if env.Calls(words, gen.HandOverSHA1) && int(calls.Add(1)) <= often {
							return fault(f, run)
						}
						return run()
					})
					require.NoError(t, first.Release(t.Context()))
					next := env.Receive(t, waiters)
					require.Positive(t, calls.Load())
					require.NoError(t, next.Err())
					require.Greater(t, next.Fence(), first.Fence())
					require.Equal(t, next.Token(), env.Get(t, direct, "job"))
					require.NoError(t, next.Release(t.Context()))
					require.Empty(t, env.Get(t, direct, "job"))
				})
			}
		}
	})
}

// A next holder that gives up while the lock is being handed to it leaves nothing behind,
// and the next one gets it.
func TestHeirGivesUpDuringTheHandOver(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, lost := range map[string]bool{"answered": false, "not answered": true} {
			t.Run(name, func(t *testing.T) {
				f, locker, direct := env.NewFaulty(t, e, rlock.WithTurn(time.Hour))
				first, err := locker.Acquire(t.Context(), "job")
				require.NoError(t, err)
				ctx, cancel := context.WithCancel(t.Context())
				gaveUp, next := make(chan error, 1), make(chan error, 1)
				go func() {
					lock, err := locker.Acquire(ctx, "job")
					if err == nil { // the answer was here first
						err = lock.Release(t.Context())
					} else if errors.Is(err, rlock.ErrGaveUp) {
						err = nil
					}
					gaveUp <- err
				}()
				env.AwaitWaiting(t, locker, 1)
				go func() {
					lock, err := locker.Acquire(t.Context(), "job")
					if err == nil {
						err = lock.Release(t.Context())
					}
					next <- err
				}()
				env.AwaitWaiting(t, locker, 2)
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					if !env.Calls(words, gen.HandOverSHA1) {
						return run()
					}
					cancel()
					f.When(nil)
					reply := run()
					if lost {
						return env.NoReply()
					}
					return reply
				})
				require.NoError(t, first.Release(t.Context()))
				require.NoError(t, env.Receive(t, gaveUp))
				require.NoError(t, env.Receive(t, next))
				env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "the key is free")
			})
		}
	})
}

// A waiter whose Locker is closed while the lock is being handed to it is told so.
func TestClosedDuringTheHandOver(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, _ := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		got := make(chan error, 1)
		go func() {
			_, err := locker.Acquire(t.Context(), "job")
			got <- err
		}()
		env.AwaitWaiting(t, locker, 1)
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if env.Calls(words, gen.HandOverSHA1) {
				f.When(nil)
				locker.Close()
			}
			return run()
		})
		require.NoError(t, lock.Release(t.Context()))
		err = env.Receive(t, got)
		require.ErrorIs(t, err, rlock.ErrClosed)
		require.NotErrorIs(t, err, rlock.ErrGaveUp)
	})
}

// When the next in line gives up in the moment in which it is handed the lock, the one after it gets the
// lock, or the key is freed.
func TestReleaseToOneWhoGivesUp(t *testing.T) {
	t.Parallel()
	for name, another := range map[string]bool{"nobody else": false, "another behind": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, locker, direct := env.NewFaulty(t, env.Engines(t)[0], rlock.WithUniqueToken(true),
				rlock.WithTTL(time.Minute))
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			ctx, giveUp := context.WithCancel(t.Context())
			gaveUp, got := make(chan error, 1), make(chan *rlock.Lock, 1)
			go func() {
				lock, err := locker.Acquire(ctx, "job")
				if err == nil { // the answer was here first
					err = lock.Release(context.WithoutCancel(ctx))
				}
				gaveUp <- err
			}()
			env.Soon(t, func() bool { return locker.Stats().Waiting == 1 }, "one waits")
			if another {
				go func() {
					lock, err := locker.Acquire(context.Background(), "job")
					if err != nil {
						t.Error(err)
					}
					got <- lock
				}()
				env.Soon(t, func() bool { return locker.Stats().Waiting == 2 }, "two wait")
			}
			var once sync.Once
			f.When(func(_ []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				answer := run()
				once.Do(giveUp) // the lock is its own on the server
				return answer
			})
			require.NoError(t, lock.Release(t.Context()))
			if another {
				next := env.Receive(t, got)
				require.Equal(t, next.Token(), env.Get(t, direct, "job"))
				require.NoError(t, next.Release(t.Context()))
			}
			<-gaveUp
			env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "the key is free")
		})
	}
}

// Once in a turn's time the server is asked whether another process waits. However long that takes and
// however it ends, those who wait in line are served meanwhile and after, with rising fences.
func TestLineGoesOnWhileTheServerIsAsked(t *testing.T) {
	t.Parallel()
	const turn = 400 * time.Millisecond
	for name, answer := range map[string]func(run func() rueidis.RedisResult) rueidis.RedisResult{
		"it answers":         func(run func() rueidis.RedisResult) rueidis.RedisResult { return run() },
		"its reply is lost":  func(run func() rueidis.RedisResult) rueidis.RedisResult { run(); return env.NoReply() },
		"the client panics":  func(func() rueidis.RedisResult) rueidis.RedisResult { panic("of a hook") },
		"its goroutine ends": func(func() rueidis.RedisResult) rueidis.RedisResult { runtime.Goexit(); return env.NoReply() },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, locker, direct := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTurn(turn), rlock.WithAutoExtend(true),
				rlock.WithTTL(time.Minute))
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			pass := func() {
				next := env.NextInLine(t, locker, "job")
				require.NoError(t, lock.Release(t.Context()))
				former := lock
				lock = env.Receive(t, next)
				require.NoError(t, lock.Err())
				require.Greater(t, lock.Fence(), former.Fence())
			}
			pass() // which reserves fences
			var asked atomic.Int32
			gate := env.NewGate(t)
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if !env.Calls(words, gen.HandOverSHA1) || asked.Add(1) > 1 {
					return run()
				}
				gate.Pass()
				return answer(run)
			})
			time.Sleep(turn)
			for range 5 {
				pass()
			}
			env.Soon(t, func() bool { return asked.Load() == 1 }, "the server is asked")
			gate.Open()
			for range 20 { // more than were reserved
				pass()
			}
			require.NoError(t, lock.Release(t.Context()))
			require.Empty(t, env.Get(t, direct, "job"))
		})
	}
}
