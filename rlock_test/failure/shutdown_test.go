package failure

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Whatever calls are under way when a Shutdown begins, nothing is left at the server, and no function runs.
func TestShutdownAmongCalls(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		client := server.Client(t)
		for round := range 20 {
			locker := env.OpenOn(t, server, rlock.WithTTL(time.Minute))
			key := func(i int) string { return fmt.Sprintf("%d:%d", round, i%3) }
			nothing := func(context.Context, *rlock.Lock) error { return nil }
			calls := []func(i int) error{
				func(i int) error { // and forgets it
					return env.ErrorOf(locker.TryAcquire(t.Context(), key(i)))
				},
				func(i int) error { return locker.Do(t.Context(), key(i), nothing) },
				func(i int) error { return locker.DoShared(t.Context(), "shared:"+key(i), nothing) },
				func(i int) error { return locker.DoPermits(t.Context(), "permits:"+key(i), 1, 2, nothing) },
				func(i int) error {
					lock, err := locker.Acquire(t.Context(), "own:"+key(i))
					if err != nil {
						return err
					}
					return lock.Release(t.Context())
				},
				func(i int) error {
					keys := []string{"each:" + key(i), "each:" + key(i+1)}
					each, err := locker.TryAcquireEach(t.Context(), keys)
					if err != nil {
						return err
					}
					return each[0].Err
				},
				func(i int) error {
					lock, err := locker.AcquireAll(t.Context(), []string{"all:" + key(i), "all:" + key(i+1)})
					if err != nil {
						return err
					}
					handoff, err := lock.Detach()
					if err != nil {
						return err
					}
					if lock, err = locker.Attach(t.Context(), handoff); err != nil { // the lock is nobody's
						return errors.Join(err, client.Do(context.WithoutCancel(t.Context()),
							client.B().Del().Key("all:"+key(i), "all:"+key(i+1)).Build()).Error())
					}
					return lock.Release(t.Context())
				},
			}
			var callers sync.WaitGroup
			for c, call := range calls {
				for range 2 {
					callers.Go(func() {
						for i := c; ; i++ {
							if errors.Is(call(i), rlock.ErrClosed) {
								return
							}
						}
					})
				}
			}
			time.Sleep(time.Duration(round) * time.Millisecond)
			require.NoError(t, locker.Shutdown(t.Context()))
			callers.Wait()
			held, err := client.Do(t.Context(), client.B().Keys().Pattern("*").Build()).AsStrSlice()
			require.NoError(t, err)
			for _, key := range held { // fence counters and queues stay for a while
				require.True(t, strings.HasPrefix(key, "rlock:"), "round %d: %s", round, key)
			}
		}
	})
}

// A grant that comes after a Shutdown has begun is given back, and the function is not called.
func TestGrantDuringShutdown(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		shut := make(chan error, 1)
		f.When(env.Once(gen.AcquireSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
			answer := run()
			go func() { shut <- locker.Shutdown(t.Context()) }()
			for !errors.Is(env.ErrorOf(locker.TryAcquire(t.Context(), "other")), rlock.ErrClosed) {
				time.Sleep(time.Millisecond)
			}
			return answer
		}))
		err := locker.Do(t.Context(), "job", func(context.Context, *rlock.Lock) error {
			t.Error("it is called")
			return nil
		})
		require.ErrorIs(t, err, rlock.ErrClosed)
		require.NoError(t, env.Receive(t, shut))
		env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "nothing is left")
	})
}

// What the server does not confirm, the error names, and Shutdown ends all the same.
func TestShutdownWithoutAServer(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		proxy := env.NewProxy(t, server.Addr())
		option := rueidis.ClientOption{InitAddress: []string{proxy.Addr()}}
		locker := env.OpenLocker(t, option, rlock.WithTTL(time.Minute))
		for i := range 7 {
			_, err := locker.Acquire(t.Context(), fmt.Sprint("job:", i))
			require.NoError(t, err)
		}
		proxy.BlackHole(true)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		start := time.Now()
		err := locker.Shutdown(ctx)
		require.ErrorIs(t, err, rlock.ErrNoAnswer)
		left := new(rlock.ShutdownError)
		require.ErrorAs(t, err, &left)
		require.Len(t, left.Unsure, 7)
		require.Empty(t, left.Running)
		require.ErrorContains(t, err, "the server may still have ")
		require.ErrorContains(t, err, "2 more")
		require.NotContains(t, err.Error(), "\n")
		require.Less(t, time.Since(start), time.Minute)
	})
}

// A context that panics when it ends keeps nobody's lock.
func TestShutdownEndsABrokenContext(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		client := server.Client(t)
		locker := env.OpenOn(t, server)
		_, err := locker.Acquire(t.Context(), "handle")
		require.NoError(t, err)
		broken := &breaking{Context: t.Context()}
		began := make(chan struct{})
		go func() {
			defer func() { _ = recover() }()
			_ = locker.Do(broken, "job", func(ctx context.Context, _ *rlock.Lock) error {
				broken.on.Store(true)
				close(began)
				<-ctx.Done()
				broken.on.Store(false)
				return nil
			})
		}()
		env.Receive(t, began)
		func() {
			defer func() { _ = recover() }()
			_ = locker.Shutdown(t.Context())
		}()
		require.Empty(t, env.Get(t, client, "handle"))
		require.Empty(t, env.Get(t, client, "job"))
	})
}

// breaking is a context whose values panic once it is on.
type breaking struct {
	context.Context
	on atomic.Bool
}

func (b *breaking) Value(key any) any {
	if b.on.Load() {
		panic("context")
	}
	return b.Context.Value(key)
}

// An observer that panics does not keep the others' locks, and the Locker is closed.
func TestShutdownWithAPanic(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		client := server.Client(t)
		locker := env.OpenOn(t, server)
		panics := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
			if e.Kind == rlock.EventReleased {
				panic("observer")
			}
		})
		_, err := locker.Acquire(t.Context(), "panics", rlock.WithObserver(panics))
		require.NoError(t, err)
		_, err = locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.PanicsWithValue(t, "observer", func() { _ = locker.Shutdown(t.Context()) })
		require.Empty(t, env.Get(t, client, "panics"))
		require.Empty(t, env.Get(t, client, "job"))
		require.ErrorIs(t, env.ErrorOf(locker.Check(t.Context(), "job")), rlock.ErrClosed)
	})
}
