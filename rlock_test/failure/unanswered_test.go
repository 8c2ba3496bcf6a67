package failure

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A renewal that is sent while an Extend that shortens has no answer yet gives no longer
// lease than that Extend does, however late it arrives.
func TestRenewalBesideAShortening(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, late := range map[string]int32{"the first": 2, "the second": 3} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				testRenewalBesideAShortening(t, e, late)
			})
		}
	})
}

// testRenewalBesideAShortening has the extension with that number arrive late, of which the
// first is an Extend, and the others are renewals.
func testRenewalBesideAShortening(t *testing.T, e env.Engine, late int32) {
	f, locker, direct := env.NewFaulty(t, e)
	shortened, arrived := env.NewGate(t), make(chan struct{})
	var calls atomic.Int32
	f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		if !env.IsExtend(words) {
			return run()
		}
		switch calls.Add(1) {
		case 1: // Extend: its answer comes when the renewal is on its way
			reply := run()
			select {
			case <-shortened.Reached():
			case <-time.After(time.Minute):
				t.Error("no renewal is sent")
			}
			return reply
		case late: // the renewal: it arrives when Extend has returned
			shortened.Pass()
			defer close(arrived)
			return run()
		}
		return run()
	})
	lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(20*time.Second), rlock.WithAutoExtend(true))
	require.NoError(t, err)
	require.NoError(t, lock.Extend(t.Context(), 6*time.Second))
	shortened.Open()
	env.Receive(t, arrived)
	time.Sleep(50 * time.Millisecond) // the Locker takes the answer
	lasts(t, direct, lock, 6*time.Second)
	require.NoError(t, lock.Release(t.Context()))
	require.Empty(t, env.Get(t, direct, "job"))
}

// A lock that expires after an Extend that shortens got no answer, or was refused, leaves
// no key behind with the lease that it had before.
func TestShorteningThatIsNeverAnswered(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, keys := range map[string][]string{"a key": {"job"}, "a set": {"a", "b"}} {
			for how, watched := range map[string]bool{"watched": true, "not watched": false} {
				t.Run(name+", "+how, func(t *testing.T) {
					t.Parallel()
					f, locker, direct := env.NewFaulty(t, e)
					lock, err := locker.AcquireAll(t.Context(), keys, rlock.WithTTL(rlock.NoExpiry))
					require.NoError(t, err)
					if watched {
						_ = lock.Context()
					}
					f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
						if env.IsExtend(words) {
							return env.NoReply()
						}
						return run()
					})
					require.ErrorIs(t, lock.Extend(context.Background(), 300*time.Millisecond), rlock.ErrExpired)
					for _, key := range keys {
						env.Soon(t, func() bool { return env.Get(t, direct, key) == "" }, "it is freed")
					}
				})
			}
		}
	})
}

// anyExtension reports whether a command extends leases, of whole locks or of shares.
func anyExtension(words []string) bool {
	return env.IsExtend(words)
}

// A lock that expires after an Extend that lengthens got no answer leaves no key behind with the longer
// lease, although nobody watches it or calls Release. The key of a lock with a token of the caller's
// stays, because somebody else may hold by it.
func TestLengtheningWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	const ttl = 3 * time.Second
	lengthens := func(t *testing.T, e env.Engine,
		acquire func(l *rlock.Locker) (*rlock.Lock, error)) (*rlock.Locker, rueidis.Client) {
		f, locker, direct := env.NewFaulty(t, e, rlock.WithTTL(ttl))
		lock := env.MustLock(t)(acquire(locker))
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			answer := run()
			if anyExtension(words) {
				return env.NoReply()
			}
			return answer
		})
		ctx, cancel := context.WithTimeout(t.Context(), ttl/10)
		defer cancel()
		require.Error(t, lock.Extend(ctx, time.Hour))
		return locker, direct
	}
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, acquire := range map[string]func(l *rlock.Locker) (*rlock.Lock, error){
			"a key": func(l *rlock.Locker) (*rlock.Lock, error) { return l.Acquire(t.Context(), "a") },
			"a set": func(l *rlock.Locker) (*rlock.Lock,
				error) {
				return l.AcquireAll(t.Context(), []string{"a", "b"})
			},
			"a reader": func(l *rlock.Locker) (*rlock.Lock, error) { return l.AcquireShared(t.Context(), "a") },
			"a permit": func(l *rlock.Locker) (*rlock.Lock, error) { return l.AcquirePermits(t.Context(), "a", 1, 2) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				_, direct := lengthens(t, e, acquire)
				for _, key := range []string{"a", "b"} {
					env.Soon(t, func() bool { return env.Get(t, direct, key) == "" }, "it is freed")
				}
			})
		}
		t.Run("with a token of the caller's", func(t *testing.T) {
			t.Parallel()
			locker, direct := lengthens(t, e, func(l *rlock.Locker) (*rlock.Lock, error) {
				return l.Acquire(t.Context(), "a", rlock.WithToken("mine"))
			})
			time.Sleep(ttl)
			locker.Close() // which frees what is to be freed
			require.Equal(t, "mine", env.Get(t, direct, "a"))
		})
	})
}

// A lock that expires because its automatic extensions got no answer leaves no key behind with the lease
// that they have given it.
func TestRenewalsWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		const ttl = 6 * time.Second
		f, locker, direct := env.NewFaulty(t, e, rlock.WithTTL(ttl), rlock.WithAutoExtend(true))
		lock := env.MustLock(t)(locker.Acquire(t.Context(), "job"))
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			answer := run()
			if anyExtension(words) {
				return env.NoReply()
			}
			return answer
		})
		env.AwaitEnd(t, lock, rlock.ErrExpired)
		asked := time.Now()
		if left := env.TTL(t, direct, "job"); left > 0 { // it is about to be freed
			env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "the key is free")
			require.Less(t, time.Since(asked), left, "its lease has ended")
		}
	})
}

// exploding is a client with a hook that panics, while it is armed, for every extension.
type exploding struct {
	rueidis.Client
	armed atomic.Bool
}

func (c *exploding) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if c.armed.Load() && env.IsExtend(command.Commands()) {
		panic("hook")
	}
	return c.Client.Do(ctx, command)
}

func (c *exploding) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	if c.armed.Load() && slices.ContainsFunc(commands,
		func(one rueidis.Completed) bool { return env.IsExtend(one.Commands()) }) {
		panic("hook")
	}
	return c.Client.DoMulti(ctx, commands...)
}

// An Extend that a hook of the client ends by a panic is not waited for: a lease that
// somebody else shortens later is found all the same.
func TestPanicDuringAnExtension(t *testing.T) {
	t.Parallel()
	for name, extend := range map[string]func(ctx context.Context, locker *rlock.Locker, lock *rlock.Lock){
		"Extend": func(ctx context.Context, _ *rlock.Locker,
			lock *rlock.Lock) {
			_ = lock.Extend(ctx, 2*time.Minute)
		},
		"ExtendEach": func(ctx context.Context, locker *rlock.Locker, lock *rlock.Lock) {
			locker.ExtendEach(ctx, []*rlock.Lock{lock}, 2*time.Minute)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := env.Engines(t)[0].Start(t)
			hook := rlock.NewInvalidations()
			client := &exploding{Client: server.Client(t,
				func(o *rueidis.ClientOption) { o.OnInvalidations = hook.OnInvalidations })}
			locker := env.NewLocker(t, client, rlock.WithInvalidations(hook), rlock.WithTTL(time.Minute))
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			ctx := lock.Context()
			server.AwaitTracked(t, 1)
			client.armed.Store(true)
			require.False(t, survive(func() { extend(context.Background(), locker, lock) }))
			client.armed.Store(false)
			server.Do(t, "PEXPIRE", "job", "2500")
			time.Sleep(200 * time.Millisecond)
			server.Do(t, "PEXPIRE", "job", "2500")
			env.Receive(t, ctx.Done())
			// a busy machine may hear first that the key is gone
			require.ErrorIs(t, context.Cause(ctx), rlock.ErrNotHeld)
		})
	}
}

// In an ExtendEach, one lock is found lost, and its context panics then. The other lock was extended all the
// same.
func TestContextBreaksDuringExtendEach(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	// One connection, which is open already; see env.NewFaulty.
	client := server.Client(t, func(o *rueidis.ClientOption) { o.PipelineMultiplex = -1 })
	// which learns of the loss by the answer alone
	locker := env.NewLocker(t, client, rlock.WithTTL(time.Minute))
	kept := env.MustLock(t)(locker.Acquire(t.Context(), "kept"))
	inDo(t, locker, "Value", "lost", func(lost *rlock.Lock) {
		server.Do(t, "DEL", "lost")
		locker.ExtendEach(t.Context(), []*rlock.Lock{lost, kept}, 2*time.Minute)
	})
	require.Greater(t, time.Until(kept.Deadline()), 90*time.Second)
}
