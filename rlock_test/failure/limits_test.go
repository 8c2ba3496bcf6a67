package failure

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// opener opens a Locker of the server.
type opener func(...rlock.LockerOption) *rlock.Locker

// inTime runs a test in a bubble, whose time is exact, with a server and a Locker with leases of 3 seconds.
func inTime(t *testing.T, test func(t *testing.T, server *rlocktest.Server, open opener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		test(t, server, func(opts ...rlock.LockerOption) *rlock.Locker {
			opts = append([]rlock.LockerOption{rlock.WithTTL(3 * time.Second)}, opts...)
			return env.OpenLocker(t, server.Option(), opts...)
		})
	})
}

// within requires that something has taken from least to most since start.
func within(t *testing.T, start time.Time, least, most time.Duration) {
	t.Helper()
	took := time.Since(start)
	require.GreaterOrEqual(t, took, least)
	require.LessOrEqual(t, took, most)
}

// A lock is extended up to its limit and no further, whoever holds it in whatever way.
func TestMaxHold(t *testing.T) {
	t.Parallel()
	const most = 10 * time.Second
	limit := rlock.WithMaxHold(most)
	forget := func(lock *rlock.Lock, err error) error {
		if err != nil {
			return err
		}
		<-lock.Context().Done()
		return lock.Err()
	}
	hang := func(ctx context.Context, lock *rlock.Lock) error { <-ctx.Done(); return context.Cause(ctx) }
	extended := rlock.WithAutoExtend(true)
	for name, hold := range map[string]func(ctx context.Context, l *rlock.Locker) error{
		"Do": func(ctx context.Context, l *rlock.Locker) error {
			return l.Do(ctx, "job", hang, limit)
		},
		"DoPermits": func(ctx context.Context, l *rlock.Locker) error {
			return l.DoPermits(ctx, "job", 1, 2, hang, limit)
		},
		"DoShared": func(ctx context.Context, l *rlock.Locker) error {
			return l.DoShared(ctx, "job", hang, limit)
		},
		"Acquire": func(ctx context.Context, l *rlock.Locker) error {
			return forget(l.Acquire(ctx, "job", limit, extended))
		},
		"AcquireShared": func(ctx context.Context, l *rlock.Locker) error {
			return forget(l.AcquireShared(ctx, "job", limit, extended))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(t *testing.T, server *rlocktest.Server, open opener) {
				locker, other := open(), open()
				start := time.Now()
				held := make(chan error, 1)
				go func() { held <- hold(t.Context(), locker) }()
				time.Sleep(most - time.Second/2)
				require.Equal(t, 1, locker.Stats().Held)
				state := env.Inspect(t, other, "job")
				require.NotEmpty(t, state.Token())
				require.Less(t, state.Remaining, 520*time.Millisecond, "the server has it for no longer")
				err := <-held
				within(t, start, most-20*time.Millisecond, most+20*time.Millisecond)
				require.ErrorIs(t, err, rlock.ErrMaxHold)
				require.ErrorIs(t, err, rlock.ErrExpired)
				require.ErrorIs(t, err, rlock.ErrNotHeld)
				lock, err := other.Acquire(t.Context(), "job")
				require.NoError(t, err)
				within(t, start, most-20*time.Millisecond, most+50*time.Millisecond)
				require.NoError(t, lock.Release(t.Context()))
				require.EqualValues(t, 1, locker.Stats().Expired)
			})
		})
	}
}

// The limit of one reader is not that of another who shares its lease.
func TestMaxHoldOfOneReader(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, _ *rlocktest.Server, open opener) {
		locker, extended := open(), rlock.WithAutoExtend(true)
		took := env.MustLock(t)
		short := took(locker.AcquireShared(t.Context(), "job", extended, rlock.WithMaxHold(5*time.Second)))
		long := took(locker.AcquireShared(t.Context(), "job", extended))
		time.Sleep(20 * time.Second)
		require.ErrorIs(t, short.Err(), rlock.ErrMaxHold)
		require.NoError(t, long.Verify(t.Context()))
		require.NoError(t, long.Release(t.Context()))
	})
}

// Extend goes as far as the limit, and what would go further is refused and changes nothing.
func TestExtendUpToTheLimit(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, _ *rlocktest.Server, open opener) {
		locker := open()
		start := time.Now()
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithMaxHold(10*time.Second))
		require.NoError(t, err)
		require.NoError(t, lock.Extend(t.Context(), 9*time.Second))
		time.Sleep(5 * time.Second)
		require.ErrorIs(t, lock.Extend(t.Context(), 6*time.Second), rlock.ErrInvalid)
		require.ErrorIs(t, lock.Extend(t.Context(), rlock.NoExpiry), rlock.ErrInvalid)
		require.ErrorIs(t, lock.Extend(t.Context(), 11*time.Second), rlock.ErrInvalid)
		require.NoError(t, lock.Extend(t.Context(), 5*time.Second))
		<-lock.Context().Done()
		within(t, start, 9900*time.Millisecond, 10*time.Second)
	})
}

// A longer lease that Extend has asked for is not carried on beyond the limit either.
func TestExtendedLeaseEndsAtTheLimit(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, _ *rlocktest.Server, open opener) {
		locker, other := open(), open()
		limits := []rlock.Option{rlock.WithMaxHold(20 * time.Second), rlock.WithAutoExtend(true)}
		lock, err := locker.Acquire(t.Context(), "job", limits...)
		require.NoError(t, err)
		require.NoError(t, lock.Extend(t.Context(), 15*time.Second))
		time.Sleep(19 * time.Second)
		state := env.Inspect(t, other, "job")
		require.Positive(t, state.Remaining)
		require.Less(t, state.Remaining, 1100*time.Millisecond)
		require.EqualValues(t, 3, locker.Stats().Extended, "by Extend, after a third of it, up to the limit")
		require.NoError(t, lock.Err())
	})
}

// A function that goes on under a long lease keeps it: nothing ends early.
func TestLongLeaseOutlastsAContext(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, _ *rlocktest.Server, open opener) {
		ctx, cancel := context.WithCancel(t.Context())
		require.NoError(t, open().Do(ctx, "job", func(_ context.Context, lock *rlock.Lock) error {
			cancel()
			time.Sleep(50 * time.Minute)
			return lock.Err()
		}, rlock.WithTTL(time.Hour)))
	})
}

// A function that goes on after its context has ended keeps its lock for another minute, not for ever.
func TestFunctionThatDoesNotStop(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(cancel func(), l *rlock.Locker){
		"cancelled": func(cancel func(), _ *rlock.Locker) { cancel() },
		"shut down": func(_ func(), l *rlock.Locker) { _ = l.Shutdown(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inTime(t, func(t *testing.T, _ *rlocktest.Server, open opener) {
				locker, other := open(), open()
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				began, done := make(chan struct{}), make(chan error, 1)
				var returns sync.WaitGroup
				returns.Add(1)
				go func() {
					done <- locker.Do(ctx, "job", func(context.Context, *rlock.Lock) error {
						close(began)
						returns.Wait()
						return nil
					})
				}()
				<-began
				time.Sleep(time.Minute)
				start := time.Now()
				go end(cancel, locker)
				lock, err := other.Acquire(t.Context(), "job")
				require.NoError(t, err)
				within(t, start, time.Minute, time.Minute+3*time.Second)
				require.NoError(t, lock.Release(t.Context()))
				returns.Done()
				require.ErrorIs(t, <-done, rlock.ErrMaxHold)
			})
		})
	}
}

// The context ends early by what was asked for, and the lock is held until the lease is over.
func TestStopBefore(t *testing.T) {
	t.Parallel()
	const early = 700 * time.Millisecond
	inTime(t, func(t *testing.T, server *rlocktest.Server, open opener) {
		locker := open(rlock.WithStopBefore(early))
		extended, err := locker.Acquire(t.Context(), "extended", rlock.WithAutoExtend(true))
		require.NoError(t, err)
		left, err := locker.Acquire(t.Context(), "left")
		require.NoError(t, err)
		untouched, err := locker.Acquire(t.Context(), "untouched", rlock.WithStopBefore(0))
		require.NoError(t, err)
		for name, c := range map[string]struct {
			lock  *rlock.Lock
			early time.Duration
			why   error
		}{
			"extended": {extended, early, rlock.ErrLeaseEnding}, "left": {left, early, rlock.ErrLeaseEnding},
			"untouched": {untouched, 0, rlock.ErrExpired},
		} {
			go func() {
				ctx := c.lock.Context()
				<-ctx.Done()
				left := time.Until(c.lock.Deadline())
				if left > c.early || left < c.early-10*time.Millisecond {
					t.Errorf("%s: %v before the end of the lease", name, left)
				}
				if why := context.Cause(ctx); why != c.why {
					t.Errorf("%s: ended with %v", name, why)
				}
				if late := c.lock.Context(); late.Err() == nil || context.Cause(late) != c.why {
					t.Errorf("%s: a context that is asked for later is another", name)
				}
			}()
		}
		time.Sleep(time.Minute)
		require.NoError(t, extended.Context().Err(), "extensions keep it away")
		start := time.Now()
		lift := server.Silence()
		defer lift()
		<-extended.Context().Done()
		require.NoError(t, extended.Err())
		within(t, start, 1200*time.Millisecond, 2400*time.Millisecond)
		for extended.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		within(t, start, 2*time.Second-10*time.Millisecond, 3*time.Second)
		require.ErrorIs(t, extended.Err(), rlock.ErrExpired)
	})
}

// Leaders that need a while to stop, and say so, never overlap, though the network is away again and again.
func TestLeadersThatStopEarly(t *testing.T) {
	t.Parallel()
	const stops = 700 * time.Millisecond
	inTime(t, func(t *testing.T, server *rlocktest.Server, open opener) {
		ctx, cancel := context.WithCancel(t.Context())
		var mu sync.Mutex
		working, terms, early := 0, 0, 0
		var candidates sync.WaitGroup
		for range 3 {
			locker := open(rlock.WithStopBefore(stops))
			candidates.Go(func() {
				err := locker.Lead(ctx, "leader", func(ctx context.Context, _ *rlock.Lock) error {
					mu.Lock()
					working, terms = working+1, terms+1
					if working > 1 {
						t.Error("two are at work")
					}
					mu.Unlock()
					<-ctx.Done()
					if errors.Is(context.Cause(ctx), rlock.ErrLeaseEnding) {
						mu.Lock()
						early++
						mu.Unlock()
					}
					time.Sleep(stops - 5*time.Millisecond)
					mu.Lock()
					working--
					mu.Unlock()
					return ctx.Err()
				})
				if !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			})
		}
		for range 10 {
			time.Sleep(5 * time.Second)
			lift := server.Silence()
			time.Sleep(5 * time.Second)
			lift()
		}
		cancel()
		candidates.Wait()
		require.GreaterOrEqual(t, terms, 5)
		require.GreaterOrEqual(t, early, 5)
	})
}

// Leases that leave no room, and limits that are none, are refused before anything is sent.
func TestLimitsThatDoNotFit(t *testing.T) {
	t.Parallel()
	inTime(t, func(t *testing.T, _ *rlocktest.Server, open opener) {
		locker := open()
		for name, opts := range map[string][]rlock.Option{
			"no room":           {rlock.WithStopBefore(751 * time.Millisecond)},
			"a shorter lease":   {rlock.WithStopBefore(time.Second), rlock.WithTTL(time.Second)},
			"less than a lease": {rlock.WithMaxHold(2 * time.Second)},
			"negative":          {rlock.WithMaxHold(-1)},
			"negative too":      {rlock.WithStopBefore(-1)},
			"no lease":          {rlock.WithTTL(rlock.NoExpiry), rlock.WithMaxHold(2 * time.Second)},
		} {
			_, err := locker.Acquire(t.Context(), "job", opts...)
			require.ErrorIs(t, err, rlock.ErrInvalid, name)
		}
		most, early := rlock.WithMaxHold(3*time.Second), rlock.WithStopBefore(700*time.Millisecond)
		lock, err := locker.Acquire(t.Context(), "job", most, early)
		require.NoError(t, err)
		require.ErrorIs(t, lock.Extend(t.Context(), 2*time.Second), rlock.ErrInvalid)
		require.NoError(t, lock.Err())
	})
}
