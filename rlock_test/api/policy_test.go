package api

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// What a policy is told never has a pause that it did not ask for: a policy that doubles
// the one before must not overflow.
func TestAttemptsOfAPolicy(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		answer  time.Duration
		prepare func(t *testing.T, f *env.Faulty, locker *rlock.Locker, direct rueidis.Client)
		left    []time.Duration // at least and at most, after the first attempt
	}{
		"behind a holder here": {time.Millisecond,
			func(t *testing.T, _ *env.Faulty, locker *rlock.Locker, _ rueidis.Client) {
				_, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute))
				require.NoError(t, err)
			}, []time.Duration{time.Second, time.Minute}},
		"behind one here that never expires": {time.Millisecond,
			func(t *testing.T, _ *env.Faulty, locker *rlock.Locker, _ rueidis.Client) {
				_, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
				require.NoError(t, err)
			}, []time.Duration{rlock.NoExpiry, rlock.NoExpiry}},
		"behind a holder elsewhere": {time.Millisecond,
			func(t *testing.T, _ *env.Faulty, _ *rlock.Locker, direct rueidis.Client) {
				require.NoError(t, env.Do(t, direct, "SET", "job", "foreign", "PX", "60000").Error())
			}, []time.Duration{time.Second, time.Minute}},
		"negative pauses": {-time.Hour, func(t *testing.T, _ *env.Faulty, _ *rlock.Locker, direct rueidis.Client) {
			require.NoError(t, env.Do(t, direct, "SET", "job", "foreign").Error())
		}, []time.Duration{rlock.NoExpiry, rlock.NoExpiry}},
		"no answer": {time.Millisecond, func(_ *testing.T, f *env.Faulty, _ *rlock.Locker, _ rueidis.Client) {
			f.When(func([]string, func() rueidis.RedisResult) rueidis.RedisResult { return env.NoReply() })
		}, []time.Duration{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, locker, direct := env.NewFaulty(t, env.Engines(t)[0])
			test.prepare(t, f, locker, direct)
			var attempts []rlock.Attempt
			_, err := locker.Acquire(t.Context(), "job",
				rlock.WithRetry(rlock.RetryFunc(func(a rlock.Attempt) (time.Duration, bool) {
					attempts = append(attempts, a)
					return test.answer, len(attempts) < 4
				})))
			require.ErrorIs(t, err, rlock.ErrGaveUp)
			require.Len(t, attempts, 4)
			for i, a := range attempts {
				require.Equal(t, i+1, a.Number)
				if i == 0 {
					require.Zero(t, a.Previous)
				} else {
					require.Equal(t, max(test.answer, 0), a.Previous)
				}
				require.GreaterOrEqual(t, a.Remaining, test.left[0])
				require.LessOrEqual(t, a.Remaining, test.left[1])
			}
			f.When(nil)
		})
	}
}

// A pause of NoExpiry is a long one, which a policy can still multiply.
func TestLongestPause(t *testing.T) {
	t.Parallel()
	_, locker, direct := env.NewFaulty(t, env.Engines(t)[0])
	lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
	require.NoError(t, err)
	require.NoError(t, env.Do(t, direct, "PING").Error())
	var mu sync.Mutex
	var previous []time.Duration
	ctx, exceed := env.Deadline(t.Context())
	_, err = locker.Acquire(ctx, "job",
		rlock.WithRetry(rlock.RetryFunc(func(a rlock.Attempt) (time.Duration, bool) {
			mu.Lock()
			defer mu.Unlock()
			previous = append(previous, a.Previous)
			time.AfterFunc(100*time.Millisecond, exceed) // it waits by then, and asks no more
			return rlock.NoExpiry, true
		})))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Equal(t, []time.Duration{0}, previous)
	require.NoError(t, lock.Release(t.Context()))
}

// WaitFree asks under the prefix of the Locker and by the policy of the call.
func TestWaitFreeTakesOptions(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client, rlock.WithPrefix("app:"))
		require.NoError(t, env.Do(t, client, "SET", "app:job", "foreign").Error())
		require.NoError(t, env.NewLocker(t, client).WaitFree(t.Context(), "job"))
		err := locker.WaitFree(t.Context(), "job", rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxAttempts(3)))
		var facts *rlock.AcquireError
		require.ErrorAs(t, err, &facts)
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		require.Equal(t, "app:job", facts.Key)
		require.Equal(t, 3, facts.Attempts)
		require.ErrorIs(t, locker.WaitFree(t.Context(), "job", rlock.WithTTL(-1)), rlock.ErrInvalid)
	})
}

func TestClientOfALocker(t *testing.T) {
	t.Parallel()
	locker, err := rlock.Open(env.Start(t).Option())
	require.NoError(t, err)
	defer locker.Close()
	require.NoError(t, env.Do(t, locker.Client(), "SET", "job", "foreign").Error())
	_, err = locker.TryAcquire(t.Context(), "job")
	require.ErrorIs(t, err, rlock.ErrHeld)
}

// Do does not begin its work on a context that ended before the lock was granted: here it
// ends while the answer is on its way, or while the lock is handed over.
func TestDoOfAnEndedContext(t *testing.T) {
	t.Parallel()
	f, locker, direct := env.NewFaulty(t, env.Engines(t)[0])
	keys := []string{"a", "b", "c"}
	for name, run := range map[string]func(ctx context.Context,
		fn func(context.Context, *rlock.Lock) error) error{
		"Do": func(ctx context.Context, fn func(context.Context, *rlock.Lock) error) error {
			return locker.Do(ctx, "job", fn)
		},
		"DoAll": func(ctx context.Context, fn func(context.Context, *rlock.Lock) error) error {
			return locker.DoAll(ctx, keys, fn)
		},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		f.When(func(_ []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			answer := run()
			cancel()
			return answer
		})
		err := run(ctx, func(context.Context, *rlock.Lock) error {
			t.Error(name, "runs")
			return nil
		})
		f.When(nil)
		require.ErrorIs(t, err, rlock.ErrGaveUp, name)
		require.ErrorIs(t, err, context.Canceled, name)
		for _, key := range append([]string{"job"}, keys...) {
			require.Empty(t, env.Get(t, direct, key), name)
		}
	}
}

// The default policy can be written down, and a call can have it in spite of its Locker's: it
// waits to be told, asks hardly ever and does not give up. With a limit it does the same until
// then.
func TestDefaultRetryCanBeWritten(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	for name, policy := range map[string]rlock.Retry{
		"by name":     rlock.DefaultRetry(),
		"fixed":       rlock.Fixed(rlock.NoExpiry),
		"function":    rlock.RetryFunc(func(rlock.Attempt) (time.Duration, bool) { return rlock.NoExpiry, true }),
		"with a time": rlock.DefaultRetry().MaxTime(time.Second),
		"bounded":     rlock.Exponential(time.Hour, 2*time.Hour).MaxAttempts(1000).MaxTime(time.Second),
	} {
		limited := name == "with a time" || name == "bounded"
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			acquire := func(locker *rlock.Locker, key string) <-chan error {
				require.NoError(t, env.Do(t, client, "SET", key, "foreign").Error())
				acquired := make(chan error, 1)
				go func() {
					lock, err := locker.Acquire(t.Context(), key, rlock.WithRetry(policy))
					if err == nil {
						err = lock.Release(t.Context())
					}
					acquired <- err
				}()
				return acquired
			}
			told := env.OpenOn(t, server, rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxAttempts(1)))
			polls := env.NewLocker(t, client)
			start := time.Now()
			// most is how often one asks who does so at first, and then every second. Before it listens, which
			// takes a while on a busy machine, it asks every quarter of a second, and for its place anew after that.
			most := func() uint64 { return uint64(time.Since(start)/(900*time.Millisecond)) + 5 }
			a, b := acquire(told, name+" a"), acquire(polls, name+" b")
			time.Sleep(2 * time.Second)
			require.LessOrEqual(t, told.Stats().Attempts, most(),
				"it waits to be told, and sends a heartbeat every second")
			if limited {
				require.ErrorIs(t, env.Receive(t, a), rlock.ErrGaveUp)
				require.ErrorIs(t, env.Receive(t, b), rlock.ErrGaveUp)
				return
			}
			env.Soon(t, func() bool { return polls.Stats().Attempts >= 4 }, "nobody tells it of a foreign release")
			require.LessOrEqual(t, polls.Stats().Attempts, most())
			require.NoError(t, env.Do(t, client, "DEL", name+" a", name+" b").Error())
			require.NoError(t, env.Receive(t, a))
			require.NoError(t, env.Receive(t, b))
		})
	}
}

// A policy that gives up behind another acquisition of its Locker is not asked again: the server is asked
// once, and the wait ends.
func TestPolicyGivesUpOnce(t *testing.T) {
	t.Parallel()
	for name, acquire := range map[string]func(ctx context.Context, l *rlock.Locker,
		opts ...rlock.Option) (*rlock.Lock, error){
		"lock": func(ctx context.Context, l *rlock.Locker, opts ...rlock.Option) (*rlock.Lock, error) {
			return l.Acquire(ctx, "job", opts...)
		},
		"reader": func(ctx context.Context, l *rlock.Locker, opts ...rlock.Option) (*rlock.Lock, error) {
			return l.AcquireShared(ctx, "job", opts...)
		},
		"permit": func(ctx context.Context, l *rlock.Locker, opts ...rlock.Option) (*rlock.Lock, error) {
			return l.AcquirePermits(ctx, "job", 1, 2, opts...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := env.Start(t)
			locker := env.NewLocker(t, server.Client(t))
			env.MustLock(t)(env.NewLocker(t, server.Client(t)).Acquire(t.Context(), "job", rlock.WithTTL(time.Hour)))
			ctx, cancel := context.WithCancel(t.Context())
			var others sync.WaitGroup
			defer others.Wait()
			defer cancel()
			for range 2 {
				others.Go(func() { _, _ = acquire(ctx, locker) })
			}
			env.AwaitWaiting(t, locker, 2)
			gaveUp := 0
			_, err := acquire(ctx, locker,
				rlock.WithRetry(rlock.RetryFunc(func(a rlock.Attempt) (time.Duration, bool) {
					if a.Number < 3 {
						return 20 * time.Millisecond, true
					}
					gaveUp++
					return 20 * time.Millisecond, gaveUp > 1
				})))
			require.ErrorIs(t, err, rlock.ErrGaveUp)
			require.ErrorIs(t, err, rlock.ErrHeld)
			require.Equal(t, 1, gaveUp)
			var facts *rlock.AcquireError
			require.ErrorAs(t, err, &facts)
			require.Equal(t, 1, facts.Attempts)
		})
	}
}
