package waiting

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// The next in line gets the lease that it asked for, not the longer one that its
// predecessor asked for just before, whatever became of that.
func TestAskedLeaseIsNotHandedOn(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, test := range map[string]struct {
			waits bool // for the answer, while the lock is handed over
			lost  bool // the answer
		}{
			"answered":  {},
			"under way": {waits: true},
			"lost":      {lost: true},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f, locker, direct := env.NewFaulty(t, e, rlock.WithTTL(ttl), rlock.WithFence(false))
				first, err := locker.Acquire(t.Context(), "job")
				require.NoError(t, err)
				next := env.NextInLine(t, locker, "job")

				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				gate := env.NewGate(t)
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					reply := run()
					if !env.Calls(words, gen.ExtendSHA1) {
						return reply
					}
					gate.Pass()
					if test.lost {
						cancel() // nobody asks again
						return env.NoReply()
					}
					return reply
				})
				extended := make(chan error, 1)
				go func() { extended <- first.Extend(ctx, time.Hour) }()
				gate.Await(t)
				if !test.waits {
					gate.Open()
					require.Equal(t, test.lost, env.Receive(t, extended) != nil)
				}
				require.NoError(t, first.Release(t.Context()))
				second := env.Receive(t, next)
				left, err := env.Do(t, direct, "PTTL", "job").ToInt64()
				require.NoError(t, err)
				require.LessOrEqual(t, left, ttl.Milliseconds())
				if test.waits {
					gate.Open()
					require.ErrorIs(t, env.Receive(t, extended), rlock.ErrNotHeld)
				}
				require.NoError(t, second.Release(t.Context()))
			})
		}
	})
}

// Of two extensions that overlap, the server may have run the other one last. Then the
// lease is longer than anybody here counts on, and is not handed on either.
func TestOverlappingExtensionsAreNotHandedOn(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e, rlock.WithTTL(ttl), rlock.WithFence(false))
		first, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		released := make(chan error, 1)
		go func() {
			second, err := locker.Acquire(t.Context(), "job")
			if err == nil {
				err = second.Release(t.Context())
			}
			released <- err
		}()
		env.AwaitWaiting(t, locker, 1)
		sent, ran2 := env.NewGate(t), env.NewGate(t)
		handedOver := make(chan int64, 1)
		var first1, first2 atomic.Bool
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			switch {
			case env.IsExtendTo(words, "3600000") && first1.CompareAndSwap(false, true):
				sent.Pass()
			case env.Calls(words, gen.ExtendSHA1) && !env.IsExtendTo(words, "3600000") &&
				first2.CompareAndSwap(false, true):
				reply := run()
				ran2.Pass()
				return reply
			case env.Calls(words, gen.ReleaseSHA1): // of the second holder
				left, _ := env.Do(t, direct, "PTTL", "job").ToInt64()
				handedOver <- left
			}
			return run()
		})
		extended1, extended2 := make(chan error, 1), make(chan error, 1)
		go func() { extended1 <- first.Extend(t.Context(), time.Hour) }()
		sent.Await(t)
		go func() { extended2 <- first.Extend(t.Context(), ttl) }()
		ran2.Await(t)
		sent.Open()
		require.NoError(t, env.Receive(t, extended1))
		ran2.Open()
		require.NoError(t, env.Receive(t, extended2))
		require.NoError(t, first.Release(t.Context()))
		select {
		case left := <-handedOver:
			require.LessOrEqual(t, left, ttl.Milliseconds())
		case err := <-released:
			require.FailNow(t, "the second holder has not released", err)
		}
		require.NoError(t, env.Receive(t, released))
	})
}
