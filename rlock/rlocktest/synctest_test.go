package rlocktest_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// In a bubble the server, the client and the locks have one clock, which moves on when
// nobody has anything to do: a lease of an hour costs no time.
func TestInABubble(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		locker, err := rlock.Open(server.Option())
		require.NoError(t, err)
		t.Cleanup(locker.Close)
		start := time.Now()

		fixed, err := locker.Acquire(t.Context(), "fixed", rlock.WithTTL(time.Hour))
		require.NoError(t, err)
		extended, err := locker.Acquire(t.Context(), "extended", rlock.WithTTL(time.Minute),
			rlock.WithAutoExtend(true))
		require.NoError(t, err)
		<-fixed.Context().Done()
		require.ErrorIs(t, context.Cause(fixed.Context()), rlock.ErrExpired)
		require.InDelta(t, time.Hour, time.Since(start), float64(5*time.Second))
		require.NoError(t, extended.Err())
		time.Sleep(5 * time.Second)
		next, err := locker.TryAcquire(t.Context(), "fixed")
		require.NoError(t, err, "it has ended on the server too")
		require.NoError(t, next.Release(t.Context()))

		// A loss is pushed, and no time passes for it but what the monitor gathers for.
		server.Free("extended")
		<-extended.Context().Done()
		require.ErrorIs(t, context.Cause(extended.Context()), rlock.ErrLost)
		require.Less(t, time.Since(start), time.Hour+20*time.Second)

		// Whoever waits for a stranger gets the lock when the stranger's lease ends.
		server.Take("fixed", 30*time.Minute)
		before := time.Now()
		waited, err := locker.Acquire(t.Context(), "fixed")
		require.NoError(t, err)
		require.InDelta(t, 30*time.Minute, time.Since(before), float64(5*time.Second))
		require.NoError(t, waited.Release(t.Context()))

		// Silence is found out by the context.
		lift := server.Silence()
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err = locker.TryAcquire(ctx, "fixed")
		require.True(t, errors.Is(err, context.DeadlineExceeded), "%v", err)
		lift()
		server.Stop()
		_, err = locker.TryAcquire(t.Context(), "fixed")
		require.ErrorContains(t, err, "refused")
		require.NoError(t, server.Restart(rlocktest.LoseData))
		after, err := locker.Acquire(t.Context(), "fixed")
		require.NoError(t, err)
		require.NoError(t, after.Release(t.Context()))
	})
}

// What is left of a lease is 0 in errors and events where nobody knows it, in the clock of a bubble too.
func TestRemainingIsZeroWhereNobodyKnows(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error{
		"refused": func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error {
			s.FailNext(rlocktest.Acquires, "OOM no")
			_, err := l.Acquire(ctx, "job")
			return err
		},
		"silent": func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error {
			defer s.Silence()()
			_, err := l.Acquire(ctx, "job")
			return err
		},
		"stopped": func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error {
			s.Stop()
			_, err := l.Acquire(ctx, "job")
			return err
		},
		"stopped, a set": func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error {
			s.Stop()
			_, err := l.AcquireAll(ctx, []string{"a", "b"})
			return err
		},
		"stopped, a reader": func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error {
			s.Stop()
			_, err := l.AcquireShared(ctx, "job")
			return err
		},
		"stopped, a try": func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error {
			s.Stop()
			_, err := l.TryAcquire(ctx, "job")
			return err
		},
		"ended before": func(ctx context.Context, l *rlock.Locker, _ *rlocktest.Server) error {
			ctx, cancel := context.WithCancel(ctx)
			cancel()
			_, err := l.Acquire(ctx, "job")
			return err
		},
		"closed": func(ctx context.Context, l *rlock.Locker, _ *rlocktest.Server) error {
			l.Close()
			_, err := l.Acquire(ctx, "job")
			return err
		},
		"waits for a stopped one": func(ctx context.Context, l *rlock.Locker, s *rlocktest.Server) error {
			s.Stop()
			return l.WaitFree(ctx, "job")
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				server := rlocktest.StartInMemory(t)
				var told []rlock.Event
				locker, err := rlock.Open(server.Option(),
					rlock.WithObserver(rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
						told = append(told, e)
					})))
				require.NoError(t, err)
				t.Cleanup(locker.Close)
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				err = fail(ctx, locker, server)
				var facts *rlock.AcquireError
				require.ErrorAs(t, err, &facts)
				require.Zero(t, facts.Remaining)
				for _, e := range told {
					require.Zero(t, e.Remaining, e.Kind)
				}
			})
		})
	}
}
