package failure

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// The reply to a release that keeps others out is lost: the release is sent again, and confirmed.
func TestLostReplyOnReleaseWithMinHold(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		for _, runs := range []bool{false, true} {
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithMinHold(5*time.Second))
			require.NoError(t, err)
			var calls atomic.Int32
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if !env.IsExtend(words) || calls.Add(1) > 1 {
					return run()
				}
				if runs {
					run()
				}
				return env.NoReply()
			})
			require.NoError(t, lock.Release(t.Context()))
			require.Equal(t, int32(2), calls.Load())
			require.NotEmpty(t, env.Get(t, direct, "job"))
			require.LessOrEqual(t, env.TTL(t, direct, "job"), 5*time.Second)
			require.NoError(t, env.Do(t, direct, "DEL", "job").Error())
		}
	})
}

// No answer comes at all. The caller is told, others are kept out, and this process frees the key when
// the time is over, however long its lease is.
func TestUnansweredReleaseWithMinHold(t *testing.T) {
	t.Parallel()
	const minHold = 4 * time.Second
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, test := range map[string]struct {
			runs  bool // the server runs the command
			again bool // the caller releases again
		}{
			"never arrives":                 {},
			"runs":                          {runs: true},
			"never arrives, released again": {again: true},
			"runs, released again":          {true, true},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f, locker, direct := env.NewFaulty(t, e)
				start := time.Now()
				lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Hour), rlock.WithMinHold(minHold))
				require.NoError(t, err)
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					if env.IsExtend(words) {
						if test.runs {
							run()
						}
						return env.NoReply()
					}
					return run()
				})
				require.Error(t, lock.Release(t.Context()))
				require.Equal(t, uint64(1), locker.Stats().ReleaseFailed)
				f.When(nil)
				if early := env.Get(t, direct, "job"); time.Since(start) < minHold {
					require.NotEmpty(t, early)
				}
				if test.again {
					require.NoError(t, lock.Release(t.Context()), "it may be called again")
					require.Less(t, env.TTL(t, direct, "job"), minHold)
				}
				next, err := env.NewLocker(t, direct).Acquire(t.Context(), "job")
				require.NoError(t, err)
				require.GreaterOrEqual(t, time.Since(start), minHold)
				time.Sleep(200 * time.Millisecond)
				require.NoError(t, next.Err())
				require.NoError(t, next.Release(t.Context()), "the reaper has left the next holder alone")
			})
		}
	})
}

// A Release that is called again when the time is over frees the key, whichever token it has.
func TestReleaseWithMinHoldAgainWhenItIsOver(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		f, locker, direct := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithToken("mine"), rlock.WithTTL(time.Hour),
			rlock.WithMinHold(time.Second))
		require.NoError(t, err)
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if env.IsExtend(words) {
				return env.NoReply()
			}
			return run()
		})
		require.Error(t, lock.Release(t.Context()), "for two seconds")
		require.Equal(t, "mine", env.Get(t, direct, "job"),
			"with a token of the caller's, nothing is freed in the background")
		require.NoError(t, lock.Release(t.Context()))
		require.Empty(t, env.Get(t, direct, "job"))
	})
}

// An extension that arrives after the release does not give the key the long lease back.
func TestLateExtensionAfterAReleaseWithMinHold(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		l := &late{client: direct}
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithMinHold(5*time.Second))
		require.NoError(t, err)
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if env.IsExtendTo(words, "3600000") {
				l.words.CompareAndSwap(nil, &words)
				return env.NoReply()
			}
			return run()
		})
		require.Error(t, lock.Extend(t.Context(), time.Hour))
		require.NoError(t, lock.Release(t.Context()))
		l.deliver(t)
		require.Less(t, env.TTL(t, direct, "job"), 5*time.Second)
	})
}

// An extension is answered when the lease is over here, while a Release has no answer yet: each has the keys
// freed in the background, and neither minds the other.
func TestLateExtensionBesideAReleaseWithMinHold(t *testing.T) {
	t.Parallel()
	// a machine that stands still for half of it leaves Extend or Release nothing to send
	const ttl = 3 * time.Second
	f, locker, direct := env.NewFaulty(t, env.Engines(t)[0])
	f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		answer := run()
		if env.IsAcquire(words) {
			time.Sleep(ttl / 2) // so that the time of WithMinHold outlasts the lease
		}
		return answer
	})
	lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(ttl), rlock.WithMinHold(ttl))
	require.NoError(t, err)
	var calls atomic.Int32
	gate := env.NewGate(t)
	f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		if !env.IsExtend(words) {
			return run()
		}
		switch calls.Add(1) {
		case 1: // of Extend
			answer := run()
			gate.Pass()
			return answer
		case 2: // of Release
			gate.Open()
			time.Sleep(100 * time.Millisecond)
			return env.NoReply()
		}
		return run()
	})
	extended := make(chan error, 1)
	go func() { extended <- lock.Extend(context.Background(), ttl) }()
	gate.Await(t)
	env.Soon(t, func() bool { return lock.Err() != nil }, "the lease is over")
	require.NoError(t, lock.Release(t.Context()), "the keys had the longer lease")
	require.ErrorIs(t, env.Receive(t, extended), rlock.ErrExpired)
	env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "the key is free")
}

// A process that dies under a lock keeps others out, too.
func TestHolderDiesWithMinHold(t *testing.T) {
	t.Parallel()
	const minHold = 3 * time.Second
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		dies := env.NewLocker(t, server.Client(t))
		start := time.Now()
		_, err := dies.Acquire(t.Context(), "job", rlock.WithTTL(minHold), rlock.WithMinHold(minHold))
		require.NoError(t, err)
		dies.Close()
		next, err := env.NewLocker(t, server.Client(t)).Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), minHold)
		require.NoError(t, next.Release(t.Context()))
	})
}

// However the work ends that was begun, others are kept out: it may have been done.
func TestMinHoldOfWorkThatDoesNotReturn(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.Start(t).Client(t)
		for name, end := range endings {
			locker := env.NewLocker(t, client, rlock.WithMinHold(5*time.Second))
			require.False(t, survive(func() {
				_, _ = locker.TryDo(t.Context(), name, func(context.Context, *rlock.Lock) error {
					end()
					return nil
				})
			}), name)
			require.NotEmpty(t, env.Get(t, client, name), name)
			require.LessOrEqual(t, env.TTL(t, client, name), 5*time.Second, name)
			_, err := locker.TryAcquire(t.Context(), name)
			require.ErrorIs(t, err, rlock.ErrHeld, name)
		}
	})
}

// A Close before the Release, or one that waits for nothing, keeps others out as long, and the Release after
// it shortens a longer lease.
func TestCloseWithMinHold(t *testing.T) {
	t.Parallel()
	const minHold = 5 * time.Second
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.Start(t).Client(t)
		locker := env.NewLocker(t, client)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Hour), rlock.WithMinHold(minHold))
		require.NoError(t, err)
		ran, err := locker.TryDo(t.Context(), "inside", func(context.Context, *rlock.Lock) error {
			locker.Close()
			return nil
		}, rlock.WithTTL(time.Hour), rlock.WithMinHold(minHold))
		require.True(t, ran)
		require.NoError(t, err)
		require.Greater(t, env.TTL(t, client, "job"), time.Minute, "nobody has released it")
		require.NoError(t, lock.Release(t.Context()))
		for _, key := range []string{"job", "inside"} {
			require.NotEmpty(t, env.Get(t, client, key), key)
			require.LessOrEqual(t, env.TTL(t, client, key), minHold, key)
		}
		other := env.NewLocker(t, client)
		next, err := other.Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, next.Release(t.Context()))
	})
}

// Shares wait until the time is over as everybody does. They cannot have one of their own, nor one that
// is an option of the Locker.
func TestSharesAndMinHold(t *testing.T) {
	t.Parallel()
	const minHold = 700 * time.Millisecond
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.Start(t).Client(t)
		locker, elsewhere := env.NewLocker(t, client, rlock.WithMinHold(minHold)), env.NewLocker(t, client)
		err := locker.DoShared(t.Context(), "job",
			func(context.Context, *rlock.Lock) error { return errors.New("it ran") })
		require.ErrorIs(t, err, rlock.ErrInvalid)
		err = locker.DoPermits(t.Context(), "job", 1, 2,
			func(context.Context, *rlock.Lock) error { return errors.New("it ran") })
		require.ErrorIs(t, err, rlock.ErrInvalid)
		require.Empty(t, env.Get(t, client, "job"))

		start := time.Now()
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
		reader, err := elsewhere.AcquireShared(t.Context(), "job")
		require.NoError(t, err)
		require.GreaterOrEqual(t, time.Since(start), minHold)
		require.NoError(t, reader.Release(t.Context()))
		require.NoError(t, locker.DoShared(t.Context(), "job",
			func(context.Context, *rlock.Lock) error { return nil }, rlock.WithMinHold(0)))
	})
}

// A batch keeps each of its keys.
func TestBatchWithMinHold(t *testing.T) {
	t.Parallel()
	const minHold = 5 * time.Second
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.Start(t).Client(t)
		locker := env.NewLocker(t, client, rlock.WithMinHold(minHold))
		keys := []string{"a", "b", "c"}
		results, err := locker.TryAcquireEach(t.Context(), keys)
		require.NoError(t, err)
		var locks []*rlock.Lock
		for _, r := range results {
			require.NoError(t, r.Err)
			locks = append(locks, r.Lock)
		}
		for _, err := range locker.ReleaseEach(t.Context(), locks) {
			require.NoError(t, err)
		}
		for i, key := range keys {
			require.NotEmpty(t, env.Get(t, client, key))
			require.NotEqual(t, locks[i].Token(), env.Get(t, client, key))
			require.LessOrEqual(t, env.TTL(t, client, key), minHold)
		}
		for _, err := range locker.ReleaseEach(t.Context(), locks) {
			require.ErrorIs(t, err, rlock.ErrReleased)
		}
	})
}

// Who waits gets the lock within moments after the time is over and not before: in the same process and
// in another, wherever in the lease the Release comes, and though the lease would have lasted much longer.
// Time is that of a bubble, so that the moments are exact.
func TestMinHoldToTheMoment(t *testing.T) {
	t.Parallel()
	const minHold = 10 * time.Second
	for _, same := range []bool{false, true} {
		for _, works := range []time.Duration{0, time.Millisecond, 3 * time.Second, minHold - time.Millisecond,
			minHold, minHold + time.Second} {
			for _, ttl := range []time.Duration{minHold + 2*time.Second, time.Hour, rlock.NoExpiry} {
				t.Run(fmt.Sprint(same, works, ttl), func(t *testing.T) {
					t.Parallel()
					synctest.Test(t, func(t *testing.T) {
						server := rlocktest.StartInMemory(t)
						open := func() *rlock.Locker {
							locker, err := rlock.Open(server.Option())
							require.NoError(t, err)
							t.Cleanup(locker.Close)
							return locker
						}
						locker := open()
						waits := locker
						if !same {
							waits = open()
						}
						lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(ttl), rlock.WithMinHold(minHold),
							rlock.WithOwner("web-3"))
						require.NoError(t, err)
						start := time.Now()
						got := make(chan time.Duration, 1)
						go func() {
							next, err := waits.Acquire(t.Context(), "job")
							after := time.Since(start)
							if assert.NoError(t, err) {
								assert.NoError(t, next.Release(t.Context()))
							}
							got <- after
						}()
						server.Advance(works)
						require.NoError(t, lock.Release(t.Context()))
						if works < minHold-time.Millisecond {
							state := env.HolderOf(t, waits, "job")
							require.Equal(t, "web-3", state.Owner)
						}
						after := <-got
						require.GreaterOrEqual(t, after, minHold)
						require.Less(t, after, max(works, minHold)+50*time.Millisecond)
					})
				})
			}
		}
	}
}
