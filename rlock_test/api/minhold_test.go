package api

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Released before its time, the key stays until then, however the lock was taken, and no longer.
func TestMinHold(t *testing.T) {
	t.Parallel()
	const minHold = 600 * time.Millisecond
	keys := []string{"{job}:a", "{job}:b"}
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		for name, c := range map[string]struct {
			acquire func(l *rlock.Locker, opts ...rlock.Option) (*rlock.Lock, error)
			opts    []rlock.Option
		}{
			"one key": {acquire: func(l *rlock.Locker, o ...rlock.Option) (*rlock.Lock, error) {
				return l.Acquire(t.Context(), keys[1], o...)
			}},
			"try": {acquire: func(l *rlock.Locker, o ...rlock.Option) (*rlock.Lock, error) {
				return l.TryAcquire(t.Context(), keys[1], o...)
			}},
			"a set": {acquire: func(l *rlock.Locker, o ...rlock.Option) (*rlock.Lock, error) {
				return l.AcquireAll(t.Context(), keys, o...)
			}},
			"endless": {acquire: func(l *rlock.Locker, o ...rlock.Option) (*rlock.Lock, error) {
				return l.Acquire(t.Context(), keys[1], o...)
			}, opts: []rlock.Option{rlock.WithTTL(rlock.NoExpiry)}},
			"extended": {acquire: func(l *rlock.Locker, o ...rlock.Option) (*rlock.Lock, error) {
				return l.Acquire(t.Context(), keys[1], o...)
			}, opts: []rlock.Option{rlock.WithAutoExtend(true), rlock.WithTTL(3 * time.Second)}},
			"own token": {acquire: func(l *rlock.Locker, o ...rlock.Option) (*rlock.Lock, error) {
				return l.Acquire(t.Context(), keys[1], o...)
			}, opts: []rlock.Option{rlock.WithToken("mine")}},
			"an owner": {acquire: func(l *rlock.Locker, o ...rlock.Option) (*rlock.Lock, error) {
				return l.Acquire(t.Context(), keys[1], o...)
			}, opts: []rlock.Option{rlock.WithOwner("web-3")}},
		} {
			t.Run(name, func(t *testing.T) {
				locker, elsewhere := env.NewLocker(t, client, rlock.WithTTL(time.Minute)), env.NewLocker(t, client)
				start := time.Now()
				lock, err := c.acquire(locker, append(c.opts, rlock.WithMinHold(minHold))...)
				require.NoError(t, err)
				token := lock.Token()
				require.NoError(t, lock.Release(t.Context()))
				require.ErrorIs(t, lock.Err(), rlock.ErrReleased)
				require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrReleased)
				require.Equal(t, uint64(1), locker.Stats().Released)
				for _, key := range lock.Keys() {
					require.LessOrEqual(t, env.TTL(t, client, key), minHold, key)
					require.NotEqual(t, token, env.Get(t, client, key), "commands with the former token change nothing")
				}
				if name == "an owner" {
					state := env.HolderOf(t, elsewhere, keys[1])
					require.Equal(t, "web-3", state.Owner)
				}
				if time.Since(start) < minHold {
					_, err = locker.TryAcquire(t.Context(), keys[1])
					if time.Since(start) < minHold {
						require.ErrorIs(t, err, rlock.ErrHeld, "the same process too")
					}
				}
				next, err := elsewhere.Acquire(t.Context(), keys[1])
				require.NoError(t, err)
				require.GreaterOrEqual(t, time.Since(start), minHold)
				require.Less(t, time.Since(start), minHold+30*time.Second, "not when the former lease would have ended")
				require.Greater(t, next.Fence(), lock.Fence())
				require.NoError(t, next.Release(t.Context()))
				require.Empty(t, env.Get(t, client, keys[1]))
			})
		}
	})
}

// Once the time is over, a Release is as any other: it frees the key, or hands it over.
func TestReleaseAfterMinHold(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithMinHold(50*time.Millisecond))
		require.NoError(t, err)
		time.Sleep(50 * time.Millisecond)
		next := env.NextInLine(t, locker, "job")
		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, env.Taken(t, next).Release(t.Context()))
		require.Equal(t, uint64(1), locker.Stats().HandedOver)
		require.Empty(t, env.Get(t, client, "job"))
	})
}

// Who waits gets the lock when the time is over and not before, in the order in which they came: in
// the same process, in another one, and with a lock that has a time of its own.
func TestMinHoldWithWaiters(t *testing.T) {
	t.Parallel()
	const minHold = 4 * time.Second // it must not be over before the Release
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker, elsewhere := env.NewLocker(t, client), env.NewLocker(t, client)
		start := time.Now()
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithMinHold(minHold), rlock.WithTTL(30*time.Second))
		require.NoError(t, err)
		waiters := func() int { return len(env.Inspect(t, elsewhere, "job").Waiters) }
		first := env.Enqueue(t, waiters, elsewhere, "job")
		second := env.NextInLine(t, locker, "job")
		require.NoError(t, lock.Release(t.Context()))

		got := env.Taken(t, first)
		require.GreaterOrEqual(t, time.Since(start), minHold)
		require.Less(t, time.Since(start), minHold+15*time.Second, "it hears of the shorter lease")
		require.Zero(t, locker.Stats().HandedOver, "to nobody")
		require.NoError(t, got.Release(t.Context()))
		require.NoError(t, env.Taken(t, second).Release(t.Context()))
	})
}

// A lock that a holder of the same process hands on has a lease of its own, because a part of the
// former one is over: the process may die at once.
func TestMinHoldOfALockThatWasHandedOver(t *testing.T) {
	t.Parallel()
	const minHold = 5 * time.Second
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client, rlock.WithTTL(minHold), rlock.WithAutoExtend(true),
			rlock.WithTurn(time.Minute))
		first, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		second := env.NextInLine(t, locker, "job")
		third := make(chan *rlock.Lock, 1)
		go func() {
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithMinHold(minHold))
			if err != nil {
				t.Error(err)
			}
			third <- lock
		}()
		env.AwaitWaiting(t, locker, 2)
		require.NoError(t, first.Release(t.Context())) // which asks the server, and so has a new lease
		lock := env.Taken(t, second)
		time.Sleep(200 * time.Millisecond) // a part of that; a caller who extends it takes what is left
		before := time.Now()
		require.NoError(t, lock.Release(t.Context()))
		lock = env.Taken(t, third)
		left := env.TTL(t, client, "job")
		require.Equal(t, uint64(2), locker.Stats().HandedOver)
		require.GreaterOrEqual(t, left+time.Since(before), minHold-time.Millisecond)
		require.NoError(t, env.Admin(locker).ForceRelease(t.Context(), "job", lock.Token()))
	})
}

// ForceRelease frees the key at once, before the Release and after it.
func TestForceReleaseOfMinHold(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker, elsewhere := env.NewLocker(t, client), env.NewLocker(t, client)
		for _, released := range []bool{false, true} {
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute), rlock.WithMinHold(time.Minute))
			require.NoError(t, err)
			if released {
				require.NoError(t, lock.Release(t.Context()))
			}
			state := env.HolderOf(t, elsewhere, "job")
			require.NotEmpty(t, state.Token())
			require.NoError(t, env.Admin(elsewhere).ForceRelease(t.Context(), "job", state.Token()))
			require.Empty(t, env.Get(t, client, "job"))
			if !released {
				require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
			}
		}
	})
}

// What is left of the time goes along with a Handoff, as a value and as text.
func TestMinHoldAfterDetach(t *testing.T) {
	t.Parallel()
	const minHold = 800 * time.Millisecond
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker, elsewhere := env.NewLocker(t, client), env.NewLocker(t, client)
		for _, text := range []bool{false, true} {
			start := time.Now()
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute), rlock.WithMinHold(minHold))
			require.NoError(t, err)
			handoff := env.Detach(t, lock)
			if text {
				stored, err := json.Marshal(handoff)
				require.NoError(t, err)
				handoff = rlock.Handoff{}
				require.NoError(t, json.Unmarshal(stored, &handoff))
			}
			attached, err := elsewhere.Attach(t.Context(), handoff)
			require.NoError(t, err)
			require.NoError(t, attached.Release(t.Context()))
			next, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			require.GreaterOrEqual(t, time.Since(start), minHold, text)
			require.Less(t, time.Since(start), minHold+30*time.Second, text)
			require.NoError(t, next.Release(t.Context()))
		}

		// Without one, a Handoff is as it was.
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		attached, err := elsewhere.Attach(t.Context(), env.Detach(t, lock))
		require.NoError(t, err)
		require.NoError(t, attached.Release(t.Context()))
		require.Empty(t, env.Get(t, client, "job"))
	})
}

// A lock under which nothing was done keeps nobody out.
func TestMinHoldOfNothing(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		opts := []rlock.LockerOption{rlock.WithMinHold(10 * time.Second)}
		var fails atomic.Bool
		locker := env.NewLocker(t, client,
			append(opts, rlock.WithObserver(rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
				if e.Kind == rlock.EventAcquired && fails.Load() {
					panic("mine")
				}
			})))...)
		fails.Store(true)
		require.PanicsWithValue(t, "mine", func() { _, _ = locker.Acquire(t.Context(), "job") })
		require.Empty(t, env.Get(t, client, "job"))
		require.PanicsWithValue(t, "mine", func() { _, _ = locker.TryAcquireEach(t.Context(), []string{"job"}) })
		require.Empty(t, env.Get(t, client, "job"))
		fails.Store(false)

		ctx, cancel := context.WithCancel(t.Context())
		canceling := env.NewLocker(t, client,
			append(opts, rlock.WithObserver(rlock.ObserverFunc(func(context.Context, rlock.Event) { cancel() })))...)
		ran, err := canceling.TryDo(ctx, "job", func(context.Context, *rlock.Lock) error { return nil })
		require.ErrorIs(t, err, context.Canceled)
		require.False(t, ran)
		require.Empty(t, env.Get(t, client, "job"), "another machine may run the job")

		ran, err = locker.TryDo(t.Context(), "job", func(context.Context, *rlock.Lock) error { return nil })
		require.NoError(t, err)
		require.True(t, ran)
		require.NotEmpty(t, env.Get(t, client, "job"))
	})
}

// ReleaseEach treats each lock as Release does.
func TestReleaseEachMinHold(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		var locks []*rlock.Lock
		for _, key := range []string{"a", "b", "c", "d"} {
			lock, err := locker.Acquire(t.Context(), key,
				rlock.WithMinHold(map[string]time.Duration{"b": 5 * time.Second, "c": 6 * time.Second}[key]))
			require.NoError(t, err)
			locks = append(locks, lock)
		}
		require.NoError(t, env.Do(t, client, "DEL", "c").Error())
		errs := locker.ReleaseEach(t.Context(), locks)
		require.NoError(t, errs[0])
		require.NoError(t, errs[1])
		require.ErrorIs(t, errs[2], rlock.ErrLost)
		require.NoError(t, errs[3])
		require.Empty(t, env.Get(t, client, "a"))
		require.NotEmpty(t, env.Get(t, client, "b"))
		require.Less(t, env.TTL(t, client, "b"), 5001*time.Millisecond)
		require.Empty(t, env.Get(t, client, "c"))
		require.Empty(t, env.Get(t, client, "d"))
	})
}

// Of a set that has lost a key, the others stay for the time, too.
func TestMinHoldOfASetThatLostAKey(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		lock, err := locker.AcquireAll(t.Context(), []string{"{job}:a", "{job}:b", "{job}:c"},
			rlock.WithTTL(time.Hour), rlock.WithMinHold(time.Minute))
		require.NoError(t, err)
		require.NoError(t, env.Do(t, client, "SET", "{job}:b", "theirs").Error())
		require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
		require.Equal(t, "theirs", env.Get(t, client, "{job}:b"))
		for _, key := range []string{"{job}:a", "{job}:c"} {
			require.LessOrEqual(t, env.TTL(t, client, key), time.Minute+time.Second, key)
			require.Greater(t, env.TTL(t, client, key), 30*time.Second, key)
		}
	})
}

// What would break the promise is refused before anything is sent.
func TestMinHoldIsRefused(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		for text, opts := range map[string][]rlock.Option{
			"rlock: WithMinHold: 11s is longer than the lease of 10s, and a process that dies leaves only the lease; " +
				"use a WithTTL of 11s or more": {rlock.WithMinHold(11 * time.Second)},
			"rlock: WithMinHold: 2s is longer than the lease of 1s, and a process that dies leaves only the lease; " +
				"use a WithTTL of 2s or more": {rlock.WithMinHold(2 * time.Second), rlock.WithTTL(time.Second)},
			"rlock: WithMinHold: want 0 or more": {rlock.WithMinHold(
				-time.Second)},
			"rlock: WithMinHold: 1.5ms is not a whole number of milliseconds; truncate it": {rlock.WithMinHold(
				1500 * time.Microsecond)},
			"rlock: WithMinHold: it must end; for a lock without an end, use WithTTL(NoExpiry) and do not " +
				"release the lock": {rlock.WithMinHold(rlock.NoExpiry)},
		} {
			_, err := locker.Acquire(t.Context(), "job", opts...)
			require.EqualError(t, err, text)
			require.ErrorIs(t, err, rlock.ErrInvalid)
		}
		_, err := rlock.New(client, rlock.WithMinHold(time.Minute))
		require.ErrorIs(t, err, rlock.ErrInvalid)
		_, err = locker.AcquireShared(t.Context(), "job", rlock.WithMinHold(time.Second))
		require.ErrorIs(t, err, rlock.ErrInvalid)
		require.Zero(t, locker.Stats().Attempts)

		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Hour), rlock.WithMinHold(time.Minute))
		require.NoError(t, err)
		require.ErrorIs(t, lock.Extend(t.Context(), 50*time.Second), rlock.ErrInvalid)
		require.NoError(t, lock.Extend(t.Context(), 2*time.Minute), "that is long enough")
		require.ErrorIs(t, lock.Extend(t.Context(), 50*time.Second), rlock.ErrInvalid)
		require.NoError(t, lock.Err())
		require.NoError(t, lock.Release(t.Context()))
		require.Greater(t, env.TTL(t, client, "job"), 50*time.Second)
	})
}

// Where WithMinHold has no effect, no lease is too short for that of the Locker.
func TestMinHoldWhereItHasNoEffect(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client, rlock.WithTTL(time.Minute), rlock.WithMinHold(time.Minute))
		require.NoError(t, locker.WaitFree(t.Context(), "job", rlock.WithTTL(10*time.Second)))
		handoff, err := env.MustLock(
			t)(env.NewLocker(t, client).Acquire(t.Context(), "job", rlock.WithTTL(time.Hour))).Detach()
		require.NoError(t, err)
		lock, err := locker.Attach(t.Context(), handoff, rlock.WithTTL(10*time.Second))
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
		require.Empty(t, env.Get(t, client, "job"))
		_, err = locker.Acquire(t.Context(), "job", rlock.WithTTL(10*time.Second))
		require.ErrorIs(t, err, rlock.ErrInvalid)
	})
}
