package failure

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// askingContext asks something in each of its methods, as one does that logs what it belongs to.
type askingContext struct {
	context.Context
	ask    atomic.Pointer[func()]
	asking atomic.Bool // what it asks may come back to it
	asked  atomic.Int64
}

func (c *askingContext) now() context.Context {
	if ask := c.ask.Load(); ask != nil && c.asking.CompareAndSwap(false, true) {
		defer c.asking.Store(false)
		(*ask)()
		c.asked.Add(1)
	}
	return c.Context
}

func (c *askingContext) Deadline() (time.Time, bool) { return c.now().Deadline() }
func (c *askingContext) Done() <-chan struct{}       { return c.now().Done() }
func (c *askingContext) Err() error                  { return c.now().Err() }
func (c *askingContext) Value(key any) any           { return c.now().Value(key) }

// work is what Do runs.
type work = func(context.Context, *rlock.Lock) error

// A context may ask the lock that was acquired with it, and others of the Locker, whatever calls its methods.
func TestContextAsksItsLock(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, locker *rlock.Locker, lock *rlock.Lock){
		"return": func(*testing.T, *rlock.Locker, *rlock.Lock) {},
		"Release": func(t *testing.T, _ *rlock.Locker, lock *rlock.Lock) {
			require.NoError(t, lock.Release(t.Context()))
		},
		"ReleaseEach": func(t *testing.T, locker *rlock.Locker, lock *rlock.Lock) {
			require.NoError(t, locker.ReleaseEach(t.Context(), []*rlock.Lock{lock})[0])
		},
		"ForceRelease": func(t *testing.T, locker *rlock.Locker, lock *rlock.Lock) {
			require.NoError(t, env.Admin(locker).ForceRelease(t.Context(), lock.Key(), lock.Token()))
			require.ErrorIs(t, lock.Verify(t.Context()), rlock.ErrLost)
		},
		"expiry": func(t *testing.T, _ *rlock.Locker, lock *rlock.Lock) {
			env.Expire(t, lock)
			require.ErrorIs(t, lock.Err(), rlock.ErrExpired)
		},
		"Detach": func(t *testing.T, _ *rlock.Locker, lock *rlock.Lock) { env.Detach(t, lock) },
		"Close":  func(_ *testing.T, locker *rlock.Locker, _ *rlock.Lock) { locker.Close() },
	} {
		for kind, do := range map[string]func(l *rlock.Locker, ctx context.Context, fn work) error{
			"whole": func(l *rlock.Locker, ctx context.Context, fn work) error {
				return l.Do(ctx, "a", fn, rlock.WithAutoExtend(false))
			},
			"reader": func(l *rlock.Locker, ctx context.Context, fn work) error {
				return l.DoShared(ctx, "a", fn, rlock.WithAutoExtend(false))
			},
		} {
			if kind == "reader" && name == "Detach" {
				continue // it is refused
			}
			t.Run(name+" of a "+kind, func(t *testing.T) {
				t.Parallel()
				_, locker, _ := env.NewFaulty(t, env.Engines(t)[0])
				ctx := &askingContext{Context: t.Context()}
				done := make(chan error, 1)
				go func() {
					done <- do(locker, ctx, func(_ context.Context, lock *rlock.Lock) error {
						ask := func() {
							lock.Token()
							_ = lock.Err()
							lock.Context()
							for _, other := range locker.Locks() {
								_, _ = other.Deadline(), other.Err()
							}
							locker.Stats()
						}
						ctx.ask.Store(&ask)
						end(t, locker, lock)
						return nil
					})
				}()
				_ = env.Receive(t, done)
				// The goroutine that ends the lease may still be asking when Do has returned.
				env.Soon(t, func() bool { return ctx.asked.Load() > 0 }, "the context has asked")
			})
		}
	}
}
