package failure

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Whatever the options of the client of Open, a call to a silent server ends when its context is
// cancelled, and not at the deadline of the context or by the time-outs of the client.
func TestCancelledCallsOfASilentServer(t *testing.T) {
	t.Parallel()
	calls := map[string]func(ctx context.Context, l *rlock.Locker, held *rlock.Lock) error{
		"Acquire": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
			_, err := l.Acquire(ctx, "a")
			return err
		},
		"TryAcquire": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
			_, err := l.TryAcquire(ctx, "b")
			return err
		},
		"AcquireAll": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
			_, err := l.AcquireAll(ctx, []string{"{s}c", "{s}d"})
			return err
		},
		"TryAcquireEach": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
			results, err := l.TryAcquireEach(ctx, []string{"e", "f"})
			if err == nil {
				err = results[0].Err
			}
			return err
		},
		"AcquireShared": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
			_, err := l.AcquireShared(ctx, "g")
			return err
		},
		"WaitFree": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error { return l.WaitFree(ctx, "h") },
		"Extend": func(ctx context.Context, _ *rlock.Locker,
			held *rlock.Lock) error {
			return held.Extend(ctx, time.Hour)
		},
		"Verify": func(ctx context.Context, _ *rlock.Locker, held *rlock.Lock) error {
			err := held.Verify(ctx)
			return err
		},
		"Release": func(ctx context.Context, _ *rlock.Locker, held *rlock.Lock) error { return held.Release(ctx) },
	}
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		type at struct {
			locker *rlock.Locker
			held   map[string]*rlock.Lock
		}
		lockers := map[string]at{}
		for name, change := range map[string]func(*rueidis.ClientOption){
			"as it comes":                func(*rueidis.ClientOption) {},
			"a connection for each call": func(o *rueidis.ClientOption) { o.DisableAutoPipelining = true },
			"a connection for each call, no cache": func(o *rueidis.ClientOption) {
				o.DisableAutoPipelining,
					o.DisableCache = true, true
			},
			"one connection for all calls": func(o *rueidis.ClientOption) {
				o.DisableAutoPipelining,
					o.BlockingPoolSize = true, 1
			},
			"no cache": func(o *rueidis.ClientOption) { o.DisableCache = true },
		} {
			option := server.Option()
			option.ConnWriteTimeout, option.Dialer.Timeout = time.Minute, time.Minute
			change(&option)
			l := at{env.OpenLocker(t, option, rlock.WithTTL(time.Hour)), map[string]*rlock.Lock{}}
			for call := range calls {
				l.held[call] = env.MustLock(t)(l.locker.Acquire(t.Context(), "held "+name+call))
			}
			lockers[name] = l
		}
		server.Stop()
		defer server.Cont()
		within := map[string]func(context.Context) (context.Context, context.CancelFunc){
			"": context.WithCancel,
			", before a deadline": func(ctx context.Context) (context.Context, context.CancelFunc) {
				return context.WithTimeout(ctx, time.Hour)
			},
		}
		each := func(name string, l at, begin string) {
			for call, do := range calls {
				t.Run(name+"/"+call+begin, func(t *testing.T) {
					ctx, cancel := within[begin](t.Context())
					defer cancel()
					ended := make(chan error, 1)
					began := time.Now()
					go func() { ended <- do(ctx, l.locker, l.held[call]) }()
					time.Sleep(50 * time.Millisecond)
					cancel()
					err := env.Receive(t, ended)
					require.Less(t, time.Since(began), 20*time.Second,
						"a call of the background, which another one may wait for, connects for 2 seconds")
					require.Error(t, err)
					if call != "Release" { // it ends with its own patience
						require.ErrorIs(t, err, context.Canceled)
					}
				})
			}
		}
		for name, l := range lockers {
			for begin := range within {
				each(name, l, begin)
			}
		}
	})
}

// A call is cancelled too while it connects to a silent server, and so are those that wait for its
// connection.
func TestCancelledCallsThatConnect(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		proxy := env.NewProxy(t, server.Addr())
		option := rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, ConnWriteTimeout: time.Minute}
		option.Dialer.Timeout = time.Minute
		locker := env.OpenLocker(t, option)
		lock := env.MustLock(t)(locker.Acquire(t.Context(), "held"))
		server.Stop()
		proxy.Cut()
		began := time.Now()
		ended := make(chan error, 8)
		for range cap(ended) {
			go func() {
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(50*time.Millisecond, cancel)
				_, err := locker.Acquire(ctx, "wanted")
				ended <- err
			}()
		}
		for range cap(ended) {
			require.ErrorIs(t, env.Receive(t, ended), context.Canceled)
		}
		require.Less(t, time.Since(began), 20*time.Second)
		server.Cont()
		require.NoError(t, env.MustLock(t)(locker.Acquire(t.Context(), "wanted")).Release(t.Context()))
		require.NoError(t, lock.Release(t.Context()))
	})
}

// The client may end a cancelled call with what has become of another one, whose deadline has broken the
// connection of both. The error says all the same that the context of the caller was cancelled.
func TestCancelledCallsWithTheErrorOfAnother(t *testing.T) {
	t.Parallel()
	for name, do := range map[string]func(ctx context.Context, l *rlock.Locker, lock *rlock.Lock) error{
		"TryAcquire": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
			return env.ErrorOf(l.TryAcquire(ctx, "b"))
		},
		"Extend": func(ctx context.Context, _ *rlock.Locker,
			lock *rlock.Lock) error {
			return lock.Extend(ctx, time.Hour)
		},
		"Verify": func(ctx context.Context, _ *rlock.Locker, lock *rlock.Lock) error {
			return lock.Verify(ctx)
		},
		"Inspect": func(ctx context.Context, l *rlock.Locker, _ *rlock.Lock) error {
			return env.ErrorOf(env.Admin(l).Inspect(ctx, "b"))
		},
		"ForceRelease": func(ctx context.Context, l *rlock.Locker, lock *rlock.Lock) error {
			return env.Admin(l).ForceRelease(ctx, "a", lock.Token())
		},
		"Attach": func(ctx context.Context, l *rlock.Locker, lock *rlock.Lock) error {
			handoff, err := lock.Detach()
			if err != nil {
				return err
			}
			return env.ErrorOf(l.Attach(ctx, handoff))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, locker, _ := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTTL(time.Hour))
			lock := env.MustLock(t)(locker.Acquire(t.Context(), "a"))
			ctx, cancel := context.WithCancel(t.Context())
			f.When(func([]string, func() rueidis.RedisResult) rueidis.RedisResult {
				cancel()
				return rueidis.NewErrorResult(context.DeadlineExceeded)
			})
			err := do(ctx, locker, lock)
			f.When(nil)
			require.ErrorIs(t, err, context.Canceled)
		})
	}
}
