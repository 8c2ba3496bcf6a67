package failure

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// breakingContext has a method that panics once it is broken, as those of a context do that a
// server uses for another request.
type breakingContext struct {
	context.Context
	method string
	broken atomic.Bool
}

func (c *breakingContext) now() brokenContext {
	if c.broken.Load() {
		return brokenContext{c.Context, c.method}
	}
	return brokenContext{c.Context, ""}
}

func (c *breakingContext) Deadline() (time.Time, bool) { return c.now().Deadline() }
func (c *breakingContext) Done() <-chan struct{}       { return c.now().Done() }
func (c *breakingContext) Err() error                  { return c.now().Err() }
func (c *breakingContext) Value(key any) any           { return c.now().Value(key) }

// inDo calls f in the function of a Do of key, when a method of Do's context has begun to panic.
func inDo(t *testing.T, locker *rlock.Locker, method, key string, f func(lock *rlock.Lock)) {
	t.Helper()
	parent, cancel := context.WithCancel(t.Context())
	defer cancel()
	ctx := &breakingContext{Context: parent, method: method}
	ran := false
	require.False(t, survive(func() {
		_ = locker.Do(ctx, key, func(_ context.Context, lock *rlock.Lock) error {
			ran = true
			ctx.broken.Store(true)
			f(lock)
			return nil
		}, rlock.WithTTL(5*time.Minute))
	}), method)
	require.True(t, ran)
}

// A context that begins to panic while Do's function runs leaves the key free, and lets those
// have it who wait for it.
func TestContextBreaksDuringDo(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Deadline", "Done", "Err", "Value"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			_, locker, direct := env.NewFaulty(t, env.Engines(t)[0])
			next := make(chan error, 1)
			inDo(t, locker, method, "a", func(*rlock.Lock) {
				go func() {
					lock, err := locker.Acquire(t.Context(), "a")
					if err == nil {
						err = lock.Release(t.Context())
					}
					next <- err
				}()
				env.AwaitWaiting(t, locker, 1)
			})
			require.NoError(t, env.Receive(t, next))
			require.Empty(t, env.Get(t, direct, "a"))
			require.Empty(t, locker.Locks())
		})
	}
}

// A Release that panics because of the lock's own context lets a later one in, which does not
// say that the lock was lost.
func TestReleaseOfALockWhoseContextIsBroken(t *testing.T) {
	t.Parallel()
	_, locker, direct := env.NewFaulty(t, env.Engines(t)[0])
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	a, err := locker.Acquire(ctx, "a")
	require.NoError(t, err)
	c, err := locker.Acquire(ctx, "c")
	require.NoError(t, err)
	for name, release := range map[string]func(lock *rlock.Lock){
		"Release":     func(lock *rlock.Lock) { _ = lock.Release(ctx) },
		"ReleaseEach": func(lock *rlock.Lock) { locker.ReleaseEach(ctx, []*rlock.Lock{a, lock, c}) },
	} {
		inDo(t, locker, "Value", "b", func(lock *rlock.Lock) {
			require.False(t, survive(func() { release(lock) }), name)
			env.Soon(t, func() bool { return env.Get(t, direct, "b") == "" }, name)
			err := lock.Release(ctx)
			require.True(t, err == nil || errors.Is(err, rlock.ErrReleased), "%s: %v", name, err)
			panic("so that Do does not return")
		})
	}
	env.Soon(t, func() bool { return env.Get(t, direct, "a") == "" }, "ReleaseEach had begun with it")
	require.NoError(t, a.Release(ctx))
	require.NoError(t, c.Release(ctx))
	require.Empty(t, env.Get(t, direct, "c"))
}

// A Release whose own context breaks before its first call may be called again, and does not say
// then that the lock was lost.
func TestContextBreaksDuringRelease(t *testing.T) {
	t.Parallel()
	_, locker, direct := env.NewFaulty(t, env.Engines(t)[0])
	lock := env.MustLock(t)(locker.Acquire(t.Context(), "a"))
	require.False(t, survive(func() { _ = lock.Release(&secondErrPanics{Context: t.Context()}) }))
	next := env.MustLock(t)(locker.Acquire(t.Context(), "a", rlock.WithTTL(time.Hour)))
	require.NoError(t, next.Release(t.Context()))
	require.NoError(t, lock.Release(t.Context()))
	require.Empty(t, env.Get(t, direct, "a"))
}

// A context whose methods begin to panic while the client connects for it, or a dial that panics or ends its
// goroutine, keeps nobody waiting who needs that connection later.
func TestConnectingIsInterrupted(t *testing.T) {
	t.Parallel()
	dials := map[string]func(ctx *breakingContext){}
	for _, method := range []string{"Deadline", "Done", "Err", "Value"} {
		dials[method] = func(ctx *breakingContext) {
			ctx.method = method
			ctx.broken.Store(true)
		}
	}
	for ending, end := range endings {
		dials[ending] = func(*breakingContext) { end() }
	}
	for name, breaks := range dials {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := env.NewProxy(t, env.Start(t).Addr())
			ctx := &breakingContext{Context: t.Context()}
			var armed atomic.Bool
			locker := env.OpenLocker(t, rueidis.ClientOption{
				InitAddress:       []string{proxy.Addr()},
				PipelineMultiplex: -1,
				DialCtxFn: func(dialling context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn,
					error) {
					if armed.CompareAndSwap(true, false) {
						breaks(ctx)
					}
					return dialer.DialContext(dialling, "tcp", address)
				},
			})
			armed.Store(true)
			proxy.Cut()
			survive(func() {
				lock, err := locker.Acquire(ctx, "a")
				if err == nil {
					_ = lock.Release(context.Background())
				}
			})
			require.False(t, armed.Load(), "it was dialled")
			ended := make(chan error, 1)
			go func() {
				lock, err := locker.Acquire(t.Context(), "b")
				if err == nil {
					err = lock.Release(t.Context())
				}
				ended <- err
			}()
			require.NoError(t, env.Receive(t, ended))
		})
	}
}

// secondErrPanics is a context whose Err panics from the second call on.
type secondErrPanics struct {
	context.Context
	calls atomic.Int32
}

func (c *secondErrPanics) Err() error {
	if c.calls.Add(1) > 1 {
		panic("context")
	}
	return c.Context.Err()
}

// A hook that panics in the hand-over to a caller leaves no key with the token of that one or of the one
// before: the next in line gets the lock.
func TestHandOverPanics(t *testing.T) {
	t.Parallel()
	for ending, end := range endings {
		for when, runs := range map[string]bool{"before": false, "after": true} {
			t.Run(ending+" "+when, func(t *testing.T) {
				t.Parallel()
				f, locker, direct := env.NewFaulty(t, env.Engines(t)[0],
					rlock.WithUniqueToken(true), rlock.WithTTL(5*time.Minute), rlock.WithTurn(time.Hour))
				lock := env.MustLock(t)(locker.Acquire(t.Context(), "a"))
				survives := make(chan bool, 1)
				go func() { survives <- survive(func() { _, _ = locker.Acquire(t.Context(), "a") }) }()
				env.AwaitWaiting(t, locker, 1)
				got := env.NextInLine(t, locker, "a")
				f.When(env.Once(gen.HandOverSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
					if runs {
						run()
					}
					end()
					return env.NoReply()
				}))
				require.NoError(t, lock.Release(t.Context()))
				require.False(t, env.Receive(t, survives))
				require.NoError(t, env.Taken(t, got).Release(t.Context()))
				env.Soon(t, func() bool { return env.Get(t, direct, "a") == "" }, "nothing stays locked")
			})
		}
	}
}

// A caller asks about the lock that it waits behind where the server tells nothing. A hook that panics then
// ends that caller alone.
func TestLookPanics(t *testing.T) {
	t.Parallel()
	f, locker, direct := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTTL(time.Hour))
	lock := env.MustLock(t)(locker.Acquire(t.Context(), "a"))
	f.When(env.Once(gen.InspectSHA1, func(func() rueidis.RedisResult) rueidis.RedisResult { panic("hook") }))
	require.False(t, survive(func() { _, _ = locker.Acquire(t.Context(), "a") }))
	require.NoError(t, lock.Err())
	got := env.NextInLine(t, locker, "a")
	require.NoError(t, lock.Release(t.Context()))
	require.NoError(t, env.Taken(t, got).Release(t.Context()))
	require.Empty(t, env.Get(t, direct, "a"))
}

// breaksAt is a context of which a method panics when it is called for the nth time.
type breaksAt struct {
	context.Context
	method string
	left   atomic.Int32
}

func (c *breaksAt) count(method string) {
	if method == c.method && c.left.Add(-1) == 0 {
		panic("the context is broken")
	}
}

func (c *breaksAt) Deadline() (time.Time, bool) { c.count("Deadline"); return c.Context.Deadline() }
func (c *breaksAt) Done() <-chan struct{}       { c.count("Done"); return c.Context.Done() }
func (c *breaksAt) Err() error                  { c.count("Err"); return c.Context.Err() }
func (c *breaksAt) Value(key any) any           { c.count("Value"); return c.Context.Value(key) }

// connects has the client of a Locker dial all its connections: it takes one at random for each command, and
// a context that breaks while the client dials is another matter.
func connects(t *testing.T, locker *rlock.Locker) {
	t.Helper()
	for range 50 {
		require.NoError(t, env.MustLock(t)(locker.Acquire(t.Context(), "connects")).Release(t.Context()))
	}
}

// A context may break at any call of any of its methods: the next caller gets the lock, over the same
// connections.
func TestContextBreaksAnywhere(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	for kind, open := range map[string]func(t *testing.T) *rlock.Locker{
		"New":  func(t *testing.T) *rlock.Locker { return env.NewLocker(t, server.Client(t)) },
		"Open": func(t *testing.T) *rlock.Locker { return env.OpenOn(t, server) },
	} {
		for _, method := range []string{"Deadline", "Done", "Err", "Value"} {
			t.Run(kind+" "+method, func(t *testing.T) {
				t.Parallel()
				locker, key := open(t), kind+method
				connects(t, locker)
				for n, ended := int32(1), true; ended; n++ {
					parent, cancel := context.WithCancel(t.Context())
					ctx := &breaksAt{Context: parent, method: method}
					ctx.left.Store(n)
					var lock *rlock.Lock
					ended = !survive(func() {
						lock, _ = locker.Acquire(ctx, key)
						_ = lock.Release(ctx)
					})
					if lock != nil {
						_ = lock.Release(t.Context()) // if that was what has ended
					}
					got := make(chan *rlock.Lock, 1)
					go func() { got <- env.MustLock(t)(locker.Acquire(t.Context(), key)) }()
					require.NoError(t, env.Taken(t, got).Release(t.Context()), "after call %d", n)
					cancel()
				}
			})
		}
	}
}

// So may one with a deadline where calls are made on the goroutine of the client's caller.
func TestContextBreaksWithoutAPipeline(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	open := func(t *testing.T) *rlock.Locker {
		option := server.Option()
		option.DisableCache, option.PipelineMultiplex = true, -1
		return env.OpenLocker(t, option)
	}
	for _, method := range []string{"Deadline", "Done", "Err", "Value"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			for n, ended := int32(1), true; ended; n++ {
				locker := open(t)
				parent, cancel := context.WithTimeout(t.Context(), time.Hour)
				ctx := &breaksAt{Context: parent, method: method}
				ctx.left.Store(n)
				ended = !survive(func() { _, _ = locker.TryAcquire(ctx, fmt.Sprint(method, n)) })
				limited, stop := context.WithTimeout(t.Context(), time.Minute)
				for i := range 3 {
					lock, err := locker.TryAcquire(limited, fmt.Sprint(method, n, "other", i))
					require.NoError(t, err, "after call %d", n)
					require.NoError(t, lock.Release(limited))
				}
				stop()
				cancel()
			}
		})
	}
}

// While a caller asks about the lock that it waits behind, its context breaks, and the lock is released.
// What it was given goes to the next, whether the question has its answer before that or after.
func TestContextBreaksDuringALook(t *testing.T) {
	t.Parallel()
	for _, method := range []string{"Done", "Err", "Value"} {
		for _, answered := range []bool{true, false} {
			t.Run(fmt.Sprint(method, answered), func(t *testing.T) {
				t.Parallel()
				f, locker, direct := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTTL(time.Hour))
				connects(t, locker)
				lock := env.MustLock(t)(locker.Acquire(t.Context(), "a"))
				looks := env.NewGate(t)
				f.When(env.Once(gen.InspectSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
					looks.Pass()
					return run()
				}))
				ctx := &breakingContext{Context: t.Context(), method: method}
				over := make(chan struct{})
				go func() {
					defer close(over)
					survive(func() {
						if lock, err := locker.Acquire(ctx, "a"); err == nil {
							_ = lock.Release(context.Background())
						}
					})
				}()
				looks.Await(t)
				next := env.NextInLine(t, locker, "a")
				ctx.broken.Store(true)
				if answered {
					looks.Open()
				}
				require.NoError(t, lock.Release(t.Context()))
				env.Receive(t, over)
				looks.Open()
				require.NoError(t, env.Taken(t, next).Release(t.Context()))
				env.Soon(t, func() bool { return env.Get(t, direct, "a") == "" }, "nothing stays locked")
			})
		}
	}
}

// A hook that panics after the server has freed the key may be followed by another Release, which
// does not say that the lock was lost, whoever chose the token.
func TestReleaseAfterOneThatPanics(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]rlock.Option{"own token": nil, "WithToken": {rlock.WithToken("mine")}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for how, release := range map[string]func(locker *rlock.Locker, lock *rlock.Lock){
				"Release": func(_ *rlock.Locker, lock *rlock.Lock) { _ = lock.Release(t.Context()) },
				"ReleaseEach": func(locker *rlock.Locker,
					lock *rlock.Lock) {
					locker.ReleaseEach(t.Context(), []*rlock.Lock{lock})
				},
			} {
				f, locker, direct := env.NewFaulty(t, env.Engines(t)[0]) // of its own: the reaper repeats the release
				lock, err := locker.Acquire(t.Context(), "a", opts...)
				require.NoError(t, err)
				f.When(env.Once(gen.ReleaseSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
					run()
					panic("hook")
				}))
				require.False(t, survive(func() { release(locker, lock) }), how)
				require.Empty(t, env.Get(t, direct, "a"), how)
				require.NoError(t, lock.Release(t.Context()), how)
			}
		})
	}
}

// Close ends all locks and tells their observer, even if it is ended itself by a method of the context of
// one of them.
func TestCloseEndsAllDespiteABrokenContext(t *testing.T) {
	t.Parallel()
	told := make(chan string, 5)
	_, locker, _ := env.NewFaulty(t, env.Engines(t)[0],
		rlock.WithObserver(rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
			if e.Kind == rlock.EventClosed {
				told <- e.Key
			}
		})))
	var contexts []context.Context
	for _, key := range []string{"a", "b", "c", "d"} {
		lock, err := locker.Acquire(t.Context(), key, rlock.WithTTL(time.Hour)) // that of e comes first
		require.NoError(t, err)
		contexts = append(contexts, lock.Context())
	}
	inDo(t, locker, "Value", "e", func(*rlock.Lock) { locker.Close() })
	for _, ctx := range contexts {
		require.ErrorIs(t, context.Cause(ctx), rlock.ErrClosed)
	}
	require.Len(t, told, 5)
	var keys []string
	for range 5 {
		keys = append(keys, env.Receive(t, told))
	}
	require.ElementsMatch(t, []string{"a", "b", "c", "d", "e"}, keys)
}
