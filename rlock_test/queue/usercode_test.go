package queue

import (
	"context"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// endings are how a hook of the client ends a call without a return.
var endings = map[string]func(){
	"panic":  func() { panic("hook") },
	"Goexit": runtime.Goexit,
}

// ended calls f, which does not return, in a goroutine of its own.
func ended(t *testing.T, f func()) {
	t.Helper()
	returned, done := false, make(chan struct{})
	go func() {
		defer close(done)
		defer func() { _ = recover() }()
		f()
		returned = true
	}()
	env.Receive(t, done)
	require.False(t, returned)
}

// A Release that user code ends while it passes the lock on leaves it to the next of its process,
// whether or not the server has run the command.
func TestInterruptedPass(t *testing.T) {
	t.Parallel()
	for name, end := range endings {
		for when, runs := range map[string]bool{"before": false, "after": true} {
			t.Run(name+" "+when, func(t *testing.T) {
				t.Parallel()
				f, l, client := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTurn(0), rlock.WithTTL(rlock.NoExpiry))
				require.NoError(t, env.Do(t, client, "SET", "first", "stranger").Error())
				first := waits(t, client, l, "first")
				require.NoError(t, env.Do(t, client, "DEL", "first").Error())
				require.NoError(t, env.Taken(t, first).Release(t.Context())) // it is told of grants now
				held := env.MustLock(t)(l.Acquire(t.Context(), "k"))
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					if !env.Calls(words, gen.RequeueSHA1) {
						return run()
					}
					f.When(nil)
					if runs {
						run()
					}
					end()
					return rueidis.RedisResult{}
				})
				released := make(chan error, 1)
				go func() {
					env.AwaitWaiting(t, l, 1)
					released <- held.Release(t.Context())
				}()
				ended(t, func() { _, _ = l.Acquire(context.WithoutCancel(t.Context()), "k") })
				require.NoError(t, env.Receive(t, released))
				idle(t, client, "k")
			})
		}
	}
}

// A join that user code has ended, and that arrives afterwards, leaves nothing.
func TestInterruptedJoinArrivesLate(t *testing.T) {
	t.Parallel()
	for name, end := range endings {
		for at, held := range map[string]bool{"free": false, "held": true} {
			t.Run(name+", "+at, func(t *testing.T) {
				t.Parallel()
				f, l, client := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTTL(rlock.NoExpiry))
				require.NoError(t, env.Do(t, client, "SET", "k", "stranger").Error())
				arrived := make(chan rueidis.RedisResult, 1)
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					if !env.Calls(words, gen.WaitSHA1) || !slices.Contains(words, "join") {
						return run()
					}
					f.When(nil)
					time.AfterFunc(300*time.Millisecond, func() {
						if !held {
							_ = env.Do(t, client, "DEL", "k").Error()
						}
						arrived <- run()
					})
					end()
					return rueidis.RedisResult{}
				})
				ended(t, func() { _, _ = l.Acquire(context.WithoutCancel(t.Context()), "k") })
				require.NoError(t, env.Receive(t, arrived).Error())
				if held {
					require.Equal(t, "stranger", env.Get(t, client, "k"))
					env.Soon(t, func() bool { return queueOf(t, client, "k") == "" }, "the place is gone")
					require.NoError(t, env.Do(t, client, "DEL", "k").Error())
				}
				idle(t, client, "k")
			})
		}
	}
}

// User code ends the call with which a set that waits renews what it has, and which has just taken all keys.
// None of them stays locked.
func TestInterruptedRenewalOfASet(t *testing.T) {
	t.Parallel()
	for name, end := range endings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, l, client := env.NewFaulty(t, env.Engines(t)[0])
			held := env.MustLock(t)(env.NewLocker(t, client).Acquire(t.Context(), "i"))
			over := make(chan struct{})
			go func() {
				defer close(over)
				ended(t, func() {
					_, _ = l.AcquireAll(context.WithoutCancel(t.Context()), []string{"i", "j"}, rlock.WithTTL(time.Hour))
				})
			}()
			env.Soon(t, func() bool { return len(queued(t, client, "i")) == 1 }, "the set waits for the first name")
			f.When(env.Once(gen.AcquireAllSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
				_ = held.Release(context.Background()) // the server grants the set its first key
				run()
				end()
				return rueidis.RedisResult{}
			}))
			env.Receive(t, over)
			idle(t, client, "i")
			idle(t, client, "j")
		})
	}
}
