package failure

import (
	"context"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Whoever waits for a lock outlives a restart of the server: those who come
// meanwhile, and those who wait already, for a holder here or elsewhere.
func TestWaitersOutliveARestart(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t, "--appendonly", "yes", "--appendfsync", "always")
		locker, rival := env.OpenLocker(t, server.Option()), env.NewLocker(t, server.Client(t))
		held, err := locker.Acquire(t.Context(), "held", rlock.WithTTL(time.Minute))
		require.NoError(t, err)

		ended := make(chan error)
		waiters := 0
		start := func(wait func() error) {
			waiters++
			go func() { ended <- wait() }()
		}
		acquire := func(l *rlock.Locker, key string) {
			start(func() error {
				return l.Do(t.Context(), key, func(context.Context, *rlock.Lock) error { return nil })
			})
		}
		for range 5 {
			acquire(locker, "held")
			acquire(rival, "held")
		}
		env.Soon(t, func() bool { return locker.Stats().Waiting == 5 && rival.Stats().Waiting == 5 }, "all wait")
		server.Kill()
		for i := range 5 {
			acquire(locker, fmt.Sprintf("free:%d", i))
		}
		start(func() error {
			set, err := locker.AcquireAll(t.Context(), []string{"a", "b"})
			if err != nil {
				return err
			}
			return set.Release(t.Context())
		})
		start(func() error { return rival.WaitFree(t.Context(), "free") })
		time.Sleep(500 * time.Millisecond) // several attempts fail
		select {
		case err := <-ended:
			require.Fail(t, "it does not wait", "%v", err)
		default:
		}
		server.Restart(t)
		require.NoError(t, held.Release(t.Context()))
		for range waiters {
			require.NoError(t, env.Receive(t, ended))
		}
		env.Soon(t, func() bool { return env.Get(t, server.Client(t), "held") == "" }, "nothing is left behind")
	})
}

// Waiting for a server ends as waiting for a holder does, and says why.
func TestOutageEndsWithThePolicy(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	locker := env.NewLocker(t, client)
	thrice := env.NewLocker(t, client, rlock.WithRetry(rlock.Fixed(time.Millisecond).MaxAttempts(3)))
	server.Kill()

	for name, wait := range map[string]func(context.Context, *rlock.Locker) error{
		"acquire": func(ctx context.Context, l *rlock.Locker) error { _, err := l.Acquire(ctx, "job"); return err },
		"set": func(ctx context.Context, l *rlock.Locker) error {
			_, err := l.AcquireAll(ctx, []string{"a", "b"})
			return err
		},
		"wait": func(ctx context.Context, l *rlock.Locker) error { return l.WaitFree(ctx, "job") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// a busy machine may need half a second for one attempt
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			requireUnanswered(t, wait(ctx, locker), context.DeadlineExceeded)
			facts := requireUnanswered(t, wait(t.Context(), thrice), syscall.ECONNREFUSED)
			require.Equal(t, 3, facts.Attempts)
		})
	}
}

func requireUnanswered(t *testing.T, err, cause error) (facts *rlock.AcquireError) {
	t.Helper()
	require.ErrorIs(t, err, rlock.ErrGaveUp)
	require.NotErrorIs(t, err, rlock.ErrHeld)
	require.ErrorIs(t, err, cause)
	var network *net.OpError
	require.ErrorAs(t, err, &network, "what stood in the way stays in reach")
	require.ErrorAs(t, err, &facts)
	return facts
}

// withClosedClient returns a Locker whose client its owner has closed.
func withClosedClient(t *testing.T) *rlock.Locker {
	t.Helper()
	client, err := rueidis.NewClient(env.Start(t).Option())
	require.NoError(t, err)
	locker := env.NewLocker(t, client)
	client.Close()
	return locker
}

// A client that its owner has closed comes back never.
func TestClosedClientIsNotWaitedFor(t *testing.T) {
	t.Parallel()
	locker := withClosedClient(t)
	_, err := locker.Acquire(t.Context(), "job")
	require.ErrorIs(t, err, rueidis.ErrClosing)
	require.NotErrorIs(t, err, rlock.ErrGaveUp)
	require.ErrorIs(t, locker.WaitFree(t.Context(), "job"), rueidis.ErrClosing)
}

// Nor does whoever looks on at the leaders.
func TestLeadersEndWithAClosedClient(t *testing.T) {
	t.Parallel()
	locker := withClosedClient(t)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var seen []error
	for _, err := range locker.Leaders(ctx, "job") {
		seen = append(seen, err)
	}
	require.Len(t, seen, 1)
	require.ErrorIs(t, seen[0], rueidis.ErrClosing)
}

// A waiter that the server told of the holder also ends when the server is gone.
func TestOutageAfterALook(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]func(context.Context, *rlock.Locker) error{
		"acquire": func(ctx context.Context, l *rlock.Locker) error { _, err := l.Acquire(ctx, "job"); return err },
		"wait":    func(ctx context.Context, l *rlock.Locker) error { return l.WaitFree(ctx, "job") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := env.Start(t)
			_, err := env.NewLocker(t, server.Client(t)).Acquire(t.Context(), "job", rlock.WithTTL(time.Minute))
			require.NoError(t, err)
			brief := env.OpenLocker(t, server.Option(),
				rlock.WithRetry(rlock.Fixed(10*time.Millisecond).MaxTime(time.Second)))
			patient := env.OpenLocker(t, server.Option())
			limited, closed := make(chan error, 1), make(chan error, 1)
			go func() { limited <- wait(t.Context(), brief) }()
			go func() { closed <- wait(t.Context(), patient) }()
			server.AwaitTracked(t, 1)
			env.Soon(t, func() bool { return brief.Stats().Attempts+patient.Stats().Attempts > 1 || name == "wait" },
				"both have met the holder")
			server.Kill()
			require.ErrorIs(t, env.Receive(t, limited), rlock.ErrGaveUp)
			time.Sleep(100 * time.Millisecond) // it looks for the server
			patient.Close()
			require.ErrorIs(t, env.Receive(t, closed), rlock.ErrClosed)
		})
	}
}

// Although the server says that it cannot yet, the context's end is told.
func TestContextEndsBeforeARefusal(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, _ := env.NewFaulty(t, e)
		ctx, exceed := env.Deadline(t.Context())
		f.When(func([]string, func() rueidis.RedisResult) rueidis.RedisResult {
			exceed()
			return f.Refuse("TRYAGAIN later")
		})
		_, err := locker.Acquire(ctx, "job")
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		require.ErrorIs(t, err, context.DeadlineExceeded)
	})
}

// Once one waiter has found the client closed, the others need not.
func TestClosedClientEndsTheLine(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	option := server.Option()
	// a client that is closed while it dials another connection goes on to use that one
	option.PipelineMultiplex = -1
	client, err := rueidis.NewClient(option)
	require.NoError(t, err)
	locker := env.NewLocker(t, client)
	_, err = env.NewLocker(t, server.Client(t)).Acquire(t.Context(), "job", rlock.WithTTL(time.Minute))
	require.NoError(t, err)
	const waiters = 100
	ended := make(chan error, waiters)
	for range waiters {
		go func() {
			_, err := locker.Acquire(t.Context(), "job")
			ended <- err
		}()
	}
	env.AwaitWaiting(t, locker, waiters)
	client.Close()
	for range waiters {
		require.ErrorIs(t, env.Receive(t, ended), rueidis.ErrClosing)
	}
}

// A client that works after all is asked as often as before.
func TestClientThatWorksAgainIsAsked(t *testing.T) {
	t.Parallel()
	f, locker, _ := env.NewFaulty(t, env.Engines(t)[0])
	var closings atomic.Int32 // still to come
	f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		if env.IsAcquire(words) && closings.Add(-1) >= 0 {
			return rueidis.NewErrorResult(rueidis.ErrClosing)
		}
		return run()
	})
	take := func() (attempts uint64, err error) {
		before := locker.Stats().Attempts
		lock, err := locker.TryAcquire(t.Context(), "job")
		if err == nil {
			require.NoError(t, lock.Release(t.Context()))
		}
		return locker.Stats().Attempts - before, err
	}
	closings.Store(1_000)
	_, err := locker.Acquire(t.Context(), "job")
	require.ErrorIs(t, err, rueidis.ErrClosing)
	attempts, err := take()
	require.ErrorIs(t, err, rueidis.ErrClosing)
	require.EqualValues(t, 1, attempts, "it is closed")
	closings.Store(0)
	_, err = take()
	require.NoError(t, err)
	closings.Store(1)
	attempts, err = take()
	require.NoError(t, err)
	require.EqualValues(t, 2, attempts, "it was closed for a moment")
}

// The pause of one caller's policy after the server could not serve keeps nobody waiting who stands behind
// it in this process. Its policy is not asked more often for that.
func TestPauseOfTheCallerInFront(t *testing.T) {
	t.Parallel()
	for name, acquire := range map[string]func(ctx context.Context, l *rlock.Locker,
		opts ...rlock.Option) (*rlock.Lock, error){
		"whole": func(ctx context.Context, l *rlock.Locker, opts ...rlock.Option) (*rlock.Lock, error) {
			return l.Acquire(ctx, "k", opts...)
		},
		"reader": func(ctx context.Context, l *rlock.Locker, opts ...rlock.Option) (*rlock.Lock, error) {
			return l.AcquireShared(ctx, "k", opts...)
		},
		"permit": func(ctx context.Context, l *rlock.Locker, opts ...rlock.Option) (*rlock.Lock, error) {
			return l.AcquirePermits(ctx, "k", 2, 3, opts...)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, l, _ := env.NewFaulty(t, env.Engines(t)[0])
			f.RefuseAll()
			asked := make(chan struct{}, 100)
			got := make(chan error, 1)
			go func() {
				lock, err := acquire(t.Context(), l,
					rlock.WithRetry(rlock.RetryFunc(func(rlock.Attempt) (time.Duration, bool) {
						asked <- struct{}{}
						return time.Minute, true
					})))
				if err == nil {
					err = lock.Release(t.Context())
				}
				got <- err
			}()
			env.Receive(t, asked)
			f.When(nil)
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			lock, err := acquire(ctx, l)
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
			require.NoError(t, env.Receive(t, got))
			require.Empty(t, asked)
		})
	}
}

// A caller who pauses because a heartbeat got no answer has the lock when the server grants it.
func TestGrantDuringThePauseOfAnOutage(t *testing.T) {
	t.Parallel()
	f, l, client := env.NewFaulty(t, env.Engines(t)[0])
	held := env.MustLock(t)(env.NewLocker(t, client).AcquirePermits(t.Context(), "k", 1, 1,
		rlock.WithTTL(time.Hour)))
	lost := make(chan struct{})
	f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		answer := run()
		if env.Calls(words, gen.WaitSHA1) && slices.Contains(words, "heartbeat") {
			f.When(nil)
			close(lost)
			return env.NoReply()
		}
		return answer
	})
	got := make(chan *rlock.Lock, 1)
	go func() {
		got <- env.MustLock(t)(l.AcquirePermits(t.Context(), "k", 1, 1, rlock.WithTTL(5*time.Second),
			rlock.WithRetry(rlock.Fixed(time.Minute))))
	}()
	env.Receive(t, lost)
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, env.Taken(t, got).Release(t.Context()))
}

// lookless is a client whose questions about holders get no answer.
type lookless struct {
	rueidis.Client
	looks chan struct{}
	ended chan error // how the context of each has ended
}

func (c *lookless) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if !env.Calls(command.Commands(), gen.InspectSHA1) {
		return c.Client.Do(ctx, command)
	}
	c.looks <- struct{}{}
	<-ctx.Done()
	c.ended <- ctx.Err()
	return rueidis.NewErrorResult(ctx.Err())
}

// A caller who waits behind a lock of its own Locker asks the server about that lock. While there is no
// answer, it is handed the lock at once, gives up with its policy, and ends with its Locker.
func TestLookHasNoAnswer(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		policy rlock.Retry
		then   func(t *testing.T, locker *rlock.Locker, first *rlock.Lock)
		err    error
	}{
		"handed over": {rlock.DefaultRetry(), func(t *testing.T, _ *rlock.Locker, first *rlock.Lock) {
			require.NoError(t, first.Release(t.Context()))
		}, nil},
		"the policy ends": {rlock.DefaultRetry().MaxTime(1500 * time.Millisecond), nil, rlock.ErrGaveUp},
		"closed": {rlock.DefaultRetry(), func(_ *testing.T, locker *rlock.Locker, _ *rlock.Lock) {
			locker.Close()
		}, rlock.ErrClosed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := env.Start(t)
			require.NoError(t, gen.New().Load(t.Context(), server.Client(t)))
			client := &lookless{server.Client(t), make(chan struct{}, 100), make(chan error, 100)}
			locker := env.NewLocker(t, client)
			first := env.MustLock(t)(locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Hour)))
			ended := make(chan error, 1)
			go func() {
				ended <- env.ErrorOf(locker.Acquire(context.Background(), "job", rlock.WithTTL(time.Minute),
					rlock.WithRetry(c.policy)))
			}()
			env.Receive(t, client.looks)
			if c.then != nil {
				c.then(t, locker, first)
			}
			require.ErrorIs(t, env.Receive(t, ended), c.err)
			if c.then != nil {
				require.ErrorIs(t, env.Receive(t, client.ended), context.Canceled, "the look is not waited out")
			}
		})
	}
}
