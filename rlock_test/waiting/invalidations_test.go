package waiting

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// waits has a stranger hold a key until locker has waited for held, and returns how long after that
// locker has it, for 20 seconds at most.
func waits(t *testing.T, server *env.Server, locker *rlock.Locker, key string,
	held time.Duration) (late time.Duration, lock *rlock.Lock) {
	t.Helper()
	server.Do(t, "SET", key, "stranger", "PX", "60000")
	got := env.NextInLine(t, locker, key)
	time.Sleep(held)
	freed := time.Now()
	server.Do(t, "DEL", key)
	lock = env.Taken(t, got)
	late = time.Since(freed)
	require.NoError(t, lock.Release(t.Context()))
	return late, lock
}

// Invalidations that Open is given is the one that its client tells.
func TestOpenWithInvalidations(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		hook := rlock.NewInvalidations()
		var seen atomic.Int64
		option := server.Option()
		option.OnInvalidations = func([]rueidis.RedisMessage) { seen.Add(1) }
		locker := env.OpenLocker(t, option, rlock.WithInvalidations(hook))
		_, lock := waits(t, server, locker, "job", time.Second)
		require.LessOrEqual(t, lock.Attempts(), 3, "it was told")
		lossIsNoticed(t, server, locker, "lost", true)
		env.Soon(t, func() bool { return seen.Load() > 0 }, "so was the option's own function")
		report, err := locker.Probe(t.Context())
		require.NoError(t, err)
		require.NoError(t, report.Err())

		// The client of Open is no worse with the Invalidations of another Locker as well.
		other := env.OpenLocker(t, server.Option(), rlock.WithInvalidations(hook))
		_, lock = waits(t, server, other, "other", time.Second)
		require.LessOrEqual(t, lock.Attempts(), 3)
	})
}

// Invalidations that hears nothing makes waiting no slower than none: whoever waits looks now
// and then, until a message has come.
func TestInvalidationsThatHearNothing(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		for name, open := range map[string]func(t *testing.T) *rlock.Locker{
			"given to no client": func(t *testing.T) *rlock.Locker {
				return env.NewLocker(t, server.Client(t), rlock.WithInvalidations(rlock.NewInvalidations()))
			},
			"given to another client": func(t *testing.T) *rlock.Locker {
				hook := rlock.NewInvalidations()
				env.NewLocker(t, server.Client(t,
					func(o *rueidis.ClientOption) { o.OnInvalidations = hook.OnInvalidations }),
					rlock.WithInvalidations(hook))
				return env.NewLocker(t, server.Client(t), rlock.WithInvalidations(hook))
			},
			"of a client that is closed": func(t *testing.T) *rlock.Locker {
				hook := rlock.NewInvalidations()
				option := server.Option()
				option.OnInvalidations = hook.OnInvalidations
				client, err := rueidis.NewClient(option)
				require.NoError(t, err)
				client.Close()
				return env.NewLocker(t, server.Client(t), rlock.WithInvalidations(hook))
			},
			"whose messages are left out": func(t *testing.T) *rlock.Locker {
				hook := rlock.NewInvalidations()
				client := server.Client(t, func(o *rueidis.ClientOption) {
					o.OnInvalidations = func(messages []rueidis.RedisMessage) {
						if messages == nil {
							hook.OnInvalidations(nil)
						}
					}
				})
				return env.NewLocker(t, client, rlock.WithInvalidations(hook))
			},
			"of a client without a cache": func(t *testing.T) *rlock.Locker {
				hook := rlock.NewInvalidations()
				client := server.Client(t,
					func(o *rueidis.ClientOption) { o.DisableCache, o.OnInvalidations = true, hook.OnInvalidations })
				return env.NewLocker(t, client, rlock.WithInvalidations(hook))
			},
			"of a client that tracks other keys, after Probe": func(t *testing.T) *rlock.Locker {
				option := server.Option()
				option.ClientTrackingOptions = []string{"BCAST", "PREFIX", "other"}
				locker := env.OpenLocker(t, option)
				report, err := locker.Probe(t.Context())
				require.NoError(t, err)
				require.ErrorContains(t, report.Err(), "polls every 250ms")
				return locker
			},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				late, lock := waits(t, server, open(t), "job:"+name, 2*time.Second)
				t.Logf("%v late, %d attempts", late, lock.Attempts())
				require.Less(t, late, 3*time.Second, "a quarter of a second, on a machine with nothing else to do")
				require.LessOrEqual(t, lock.Attempts(), 40, "it polls slowly")
			})
		}
		// One that hears stops polling with the first message.
		t.Run("that hears", func(t *testing.T) {
			hook := rlock.NewInvalidations()
			client := server.Client(t, func(o *rueidis.ClientOption) { o.OnInvalidations = hook.OnInvalidations })
			locker := env.NewLocker(t, client, rlock.WithInvalidations(hook))
			waits(t, server, locker, "first", time.Second)
			late, lock := waits(t, server, locker, "second", 2*time.Second)
			t.Logf("%v late, %d attempts", late, lock.Attempts())
			require.LessOrEqual(t, lock.Attempts(), 3, "it was told")
		})
	})
}

// Lockers may share Invalidations: of one client, and of clients of different servers, where
// keys of the same name have nothing to do with each other.
func TestLockersShareAHook(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		hook := rlock.NewInvalidations()
		wire := func(o *rueidis.ClientOption) { o.OnInvalidations = hook.OnInvalidations }
		one, other := e.Start(t), e.Start(t)
		client := one.Client(t, wire)
		first, second := env.NewLocker(t, client, rlock.WithInvalidations(hook)),
			env.NewLocker(t, client, rlock.WithInvalidations(hook))
		elsewhere := env.NewLocker(t, other.Client(t, wire), rlock.WithInvalidations(hook))
		for i, locker := range []*rlock.Locker{first, second, elsewhere} { // each hears something
			waits(t, []*env.Server{one, one, other}[i], locker, "warm", time.Second)
		}

		// Whoever waits longest elsewhere keeps nobody here from being told.
		one.Do(t, "SET", "job", "stranger", "PX", "60000")
		ctx, cancel := context.WithCancel(t.Context())
		given := make(chan error, 1)
		go func() {
			_, err := first.Acquire(ctx, "job")
			given <- err
		}()
		env.AwaitWaiting(t, first, 1)
		time.Sleep(50 * time.Millisecond)
		_, lock := waits(t, other, elsewhere, "job", time.Second)
		require.LessOrEqual(t, lock.Attempts(), 3, "it was told")
		cancel()
		require.ErrorIs(t, env.Receive(t, given), context.Canceled)
		one.Do(t, "DEL", "job")

		// Both handles of one client are told of a loss, and nobody elsewhere is.
		kept, err := elsewhere.Acquire(t.Context(), "held", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		keeps := kept.Context()
		var locks []*rlock.Lock
		for _, locker := range []*rlock.Locker{first, second} {
			lock, err := locker.Acquire(t.Context(), "held", rlock.WithTTL(time.Minute), rlock.WithToken("mine"))
			require.NoError(t, err)
			lock.Context()
			locks = append(locks, lock)
		}
		time.Sleep(200 * time.Millisecond) // all have been read
		one.Do(t, "DEL", "held")
		for _, lock := range locks {
			env.AwaitEnd(t, lock, rlock.ErrLost)
		}
		time.Sleep(100 * time.Millisecond)
		require.NoError(t, keeps.Err())
	})
}

// The hook can be chained into a client that is built elsewhere.
func TestNewWithInvalidations(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		hook := rlock.NewInvalidations()
		var seen atomic.Int64
		client := server.Client(t, func(o *rueidis.ClientOption) {
			o.OnInvalidations = func(messages []rueidis.RedisMessage) {
				seen.Add(1)
				hook.OnInvalidations(messages)
			}
		})
		locker := env.NewLocker(t, client, rlock.WithInvalidations(hook))
		held, err := env.OpenOn(t, server).Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
		require.NoError(t, err)
		got := env.NextInLine(t, locker, "job")
		server.AwaitTracked(t, 1) // so the waiter has read the key, and the release is told to its client
		require.NoError(t, held.Release(t.Context()))
		lock := env.Taken(t, got)
		require.NoError(t, lock.Release(t.Context()))
		env.Soon(t, func() bool { return seen.Load() > 0 },
			"its own function is told, though the grant may come before")
		require.LessOrEqual(t, lock.Attempts(), 3)
	})
}
