package api

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// One of many leads at a time, also while a function takes its time to stop: its term ends when it
// has returned.
func TestLead(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		const candidates = 4
		var leading atomic.Int32
		var last atomic.Uint64
		require.NoError(t, env.Together(candidates, func(int) error {
			ctx, resign := context.WithCancel(t.Context())
			defer resign()
			return env.NewLocker(t, client).Lead(ctx, "leader", func(ctx context.Context, lock *rlock.Lock) error {
				if n := leading.Add(1); n != 1 {
					return errors.New("there are two leaders")
				}
				defer leading.Add(-1)
				if lock.Fence() <= last.Swap(lock.Fence()) {
					return errors.New("the term is no later than the one before")
				}
				resign()
				<-ctx.Done()
				time.Sleep(100 * time.Millisecond) // what it takes to stop
				return nil
			})
		}))
		require.Empty(t, env.Get(t, client, "leader"))
	})
}

// A term that is lost, and one that its leader gives up, is followed by another.
func TestLeadAgain(t *testing.T) {
	t.Parallel()
	mine := errors.New("mine")
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		terms := 0
		var last uint64
		err := locker.Lead(t.Context(), "leader", func(ctx context.Context, lock *rlock.Lock) error {
			require.Greater(t, lock.Fence(), last)
			last = lock.Fence()
			terms++
			switch terms {
			case 1:
				require.NoError(t, env.Do(t, client, "DEL", "leader").Error())
				<-ctx.Done()
				require.ErrorIs(t, context.Cause(ctx), rlock.ErrLost)
				return errors.New("because of the loss")
			case 2:
				require.NoError(t, lock.Release(ctx))
				require.ErrorIs(t, context.Cause(ctx), rlock.ErrReleased)
				return nil
			}
			return mine
		}, rlock.WithTTL(6*time.Second))
		require.Equal(t, mine, err, "it ends with the error of a function that leads")
		require.Equal(t, 3, terms)
		require.Empty(t, env.Get(t, client, "leader"))
	})
}

// Each term has a number, whatever the options of the Locker and of the call say.
func TestLeadIsFenced(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client, rlock.WithFence(false))
		held, err := locker.Acquire(t.Context(), "leader")
		require.NoError(t, err)
		require.Zero(t, held.Fence())
		ended := make(chan error, 1)
		var last uint64
		go func() {
			ended <- locker.Lead(t.Context(), "leader", func(_ context.Context, lock *rlock.Lock) error {
				before := last
				last = lock.Fence()
				switch {
				case last <= before:
					return errors.New("the term has no number of its own")
				case before == 0:
					return lock.Release(t.Context())
				}
				return nil
			}, rlock.WithFence(false))
		}()
		env.AwaitWaiting(t, locker, 1)
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, env.Receive(t, ended))
	})
}

// How Lead ends.
func TestLeadEnds(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		done := func(context.Context, *rlock.Lock) error { return nil }
		require.NoError(t, locker.Lead(t.Context(), "leader", done))
		require.PanicsWithValue(t, "mine", func() {
			_ = locker.Lead(t.Context(), "leader", func(context.Context, *rlock.Lock) error { panic("mine") })
		})
		require.Empty(t, env.Get(t, client, "leader"))
		for _, err := range []error{
			locker.Lead(t.Context(), "leader", nil),
			locker.Lead(t.Context(), "", done),
			locker.Lead(t.Context(), "leader", done, rlock.WithToken("mine")),
			(*rlock.Locker)(nil).Lead(t.Context(), "leader", done),
		} {
			require.ErrorIs(t, err, rlock.ErrInvalid)
		}

		held, err := locker.Acquire(t.Context(), "leader")
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 2)
		lead := func(l *rlock.Locker) {
			ended <- l.Lead(ctx, "leader", func(context.Context, *rlock.Lock) error {
				t.Error("it leads beside another")
				return nil
			})
		}
		go lead(locker)
		env.AwaitWaiting(t, locker, 1)
		cancel()
		err = env.Receive(t, ended)
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		require.ErrorIs(t, err, context.Canceled)

		ctx = t.Context()
		closing := env.NewLocker(t, client)
		go lead(closing)
		env.AwaitWaiting(t, closing, 1)
		closing.Close()
		require.ErrorIs(t, env.Receive(t, ended), rlock.ErrClosed)
		require.NoError(t, held.Release(t.Context()))
	})
}

// Whoever looks on sees nobody, the leader, and nobody again, and the next term of the same process.
func TestLeaders(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker, viewer := env.NewLocker(t, client), env.NewLocker(t, client)
		seen := make(chan rlock.State)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			var last error
			for state, err := range viewer.Leaders(ctx, "leader") {
				if last = err; err == nil {
					seen <- state
				}
			}
			ended <- last
		}()
		require.False(t, env.Receive(t, seen).Held)
		var token string
		for range 2 {
			require.NoError(t, locker.Lead(t.Context(), "leader", func(context.Context, *rlock.Lock) error {
				state := env.Receive(t, seen)
				require.True(t, state.Held)
				require.Equal(t, "web-3", state.Owner)
				require.NotEqual(t, token, state.Token())
				token = state.Token()
				return nil
			}, rlock.WithOwner("web-3")))
			require.False(t, env.Receive(t, seen).Held)
		}
		require.NoError(t, env.Do(t, client, "SET", "leader", "somebody", "PX", "6000").Error())
		require.Equal(t, "somebody", env.Receive(t, seen).Token())
		require.False(t, env.Receive(t, seen).Held, "a lease that ends")
		cancel()
		require.NoError(t, env.Receive(t, ended), "the end of the context is no error")

		for _, err := range (*rlock.Locker)(nil).Leaders(t.Context(), "leader") {
			require.ErrorIs(t, err, rlock.ErrInvalid)
		}
		count := 0
		for state, err := range viewer.Leaders(t.Context(), "leader") {
			if count++; count == 1 {
				require.NoError(t, err)
				require.False(t, state.Held)
				viewer.Close()
				continue
			}
			require.ErrorIs(t, err, rlock.ErrClosed)
		}
		require.Equal(t, 2, count)
	})
}

// Where the client has a cache, a change is seen soon, also right after another one.
func TestLeadersSeeAChangeSoon(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	viewer, leader := env.OpenOn(t, server), env.OpenOn(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	seen, ended := make(chan time.Time, 8), make(chan struct{})
	go func() {
		defer close(ended)
		for range viewer.Leaders(ctx, "leader") {
			seen <- time.Now()
		}
	}()
	env.Receive(t, seen) // nobody leads
	best := time.Hour
	for range 5 { // once it is not kept from running
		lock := env.MustLock(t)(leader.Acquire(t.Context(), "leader"))
		env.Receive(t, seen)
		began := time.Now()
		require.NoError(t, lock.Release(t.Context()))
		best = min(best, env.Receive(t, seen).Sub(began))
	}
	require.Less(t, best, 120*time.Millisecond)
	cancel()
	env.Receive(t, ended)
	for range viewer.Leaders(ctx, "leader") {
		t.Error("its context has ended")
	}
}
