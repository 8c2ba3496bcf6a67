package waiting

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A turn has an end. Another process that waits then has the key.
func TestTurnsEnd(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		for name, turn := range map[string]rlock.LockerOption{
			"by time": rlock.WithTurn(5 * time.Millisecond),
			"at once": rlock.WithTurn(0),
		} {
			t.Run(name, func(t *testing.T) {
				// One process has many who want the key all the time, the other has one.
				greedy, modest := env.OpenOn(t, server, turn), env.OpenOn(t, server)
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				var group sync.WaitGroup
				for range 8 {
					group.Go(func() {
						for ctx.Err() == nil {
							err := greedy.Do(ctx, name, func(context.Context, *rlock.Lock) error { return nil })
							if err != nil && ctx.Err() == nil {
								t.Error(err)
							}
						}
					})
				}
				for range 20 {
					require.NoError(t, modest.Do(ctx, name, func(context.Context, *rlock.Lock) error { return nil }))
				}
				cancel()
				group.Wait()
			})
		}
	})
}

// A handle that was released cannot touch its successor, though that may have taken
// over its token.
func TestReleasedHandleLeavesItsSuccessorAlone(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client, rlock.WithAutoExtend(true), rlock.WithTurn(time.Hour),
			rlock.WithFence(false))
		first, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		waiters := make(chan *rlock.Lock, 1)
		go func() {
			lock, err := locker.Acquire(t.Context(), "job")
			if err != nil {
				t.Error(err)
			}
			waiters <- lock
		}()
		ctx := first.Context()
		env.AwaitWaiting(t, locker, 1)
		token := env.Get(t, client, "job")
		require.NoError(t, first.Release(t.Context()))
		next := env.Receive(t, waiters)
		require.Equal(t, token, next.Token())
		require.Empty(t, first.Token(), "it is the next holder's now")

		require.ErrorIs(t, context.Cause(ctx), rlock.ErrReleased)
		require.Error(t, first.Err())
		require.ErrorIs(t, first.Release(t.Context()), rlock.ErrReleased)
		require.ErrorIs(t, first.Extend(t.Context(), time.Millisecond), rlock.ErrReleased)
		require.ErrorIs(t, env.ErrorOf(first.Detach()), rlock.ErrReleased)
		err = first.Verify(t.Context())
		require.ErrorIs(t, err, rlock.ErrReleased)

		require.NoError(t, next.Err())
		require.NoError(t, next.Verify(t.Context()))
		require.NoError(t, next.Release(t.Context()))
	})
}

// A token that a holder was asked for guards nothing that its successor does.
func TestTokenThatWasToldIsNotHandedOn(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client, rlock.WithAutoExtend(true), rlock.WithTurn(time.Hour))
		first, err := locker.Acquire(t.Context(), "job", rlock.WithFence(false))
		require.NoError(t, err)
		told := first.Token()
		waiters := make(chan *rlock.Lock, 1)
		go func() {
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithFence(false))
			if err != nil {
				t.Error(err)
			}
			waiters <- lock
		}()
		env.AwaitWaiting(t, locker, 1)
		require.NoError(t, first.Release(t.Context()))
		next := env.Receive(t, waiters)
		require.NotEqual(t, told, env.Get(t, client, "job"))
		require.Equal(t, told, first.Token())
		require.ErrorIs(t, env.Admin(locker).ForceRelease(t.Context(), "job", told), rlock.ErrLost)
		require.NoError(t, next.Err())
		require.NoError(t, next.Release(t.Context()))
	})
}

// Whoever has lost the lock hands nothing over: the next asks the server.
func TestLostLockIsNotHandedOver(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker := env.OpenOn(t, server, rlock.WithTurn(time.Hour))
		held, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		next := make(chan error, 1)
		go func() {
			lock, err := locker.Acquire(t.Context(), "job")
			if err == nil {
				err = lock.Release(t.Context())
			}
			next <- err
		}()
		env.AwaitWaiting(t, locker, 1)
		server.Do(t, "SET", "job", "another", "PX", "300")
		if err := held.Release(t.Context()); err != nil { // the server may have told this process meanwhile
			require.ErrorIs(t, err, rlock.ErrLost)
		}
		require.NoError(t, env.Receive(t, next), "it waits for the other and takes the lock then")
	})
}

// Waiters that give up at any moment, hand-overs of all kinds, two processes: no two
// holders at once, no fence falls, nobody is stranded, nothing is left.
func TestHandOversUnderCancellation(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		lockers := []*rlock.Locker{env.OpenOn(t, server), env.OpenOn(t, server, rlock.WithTurn(time.Millisecond))}
		var (
			inside atomic.Int32
			fence  uint64
			done   atomic.Int64
		)
		kinds := [][]rlock.Option{
			nil,
			{rlock.WithAutoExtend(true)},
			{rlock.WithAutoExtend(true), rlock.WithUniqueToken(true)},
			{rlock.WithAutoExtend(true), rlock.WithTTL(5 * time.Second)},
			{rlock.WithAutoExtend(true), rlock.WithFence(false)},
		}
		require.NoError(t, env.Together(24, func(i int) error {
			random := rand.New(rand.NewPCG(uint64(i), 7))
			for range 60 {
				patience := time.Duration(random.IntN(6000)) * time.Microsecond
				if random.IntN(2) == 0 {
					patience = 10 * time.Second
				}
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				lock, err := lockers[i%2].Acquire(ctx, "job", kinds[random.IntN(len(kinds))]...)
				cancel()
				if err != nil {
					if !errors.Is(err, rlock.ErrGaveUp) {
						return err
					}
					continue
				}
				if inside.Add(1) != 1 {
					return errors.New("two holders at once")
				}
				if f := lock.Fence(); f != 0 && f <= fence {
					return fmt.Errorf("the fence fell from %d to %d", fence, f)
				} else if f != 0 {
					fence = f
				}
				done.Add(1)
				inside.Add(-1)
				if err := lock.Release(t.Context()); err != nil {
					return err
				}
			}
			return nil
		}))
		require.Greater(t, done.Load(), int64(24*60/3))
		lock, err := lockers[0].Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
		env.Soon(t, func() bool {
			state, err := env.Admin(lockers[0]).Inspect(t.Context(), "job")
			return err == nil && state.Mode == rlockadmin.Free
		}, "the key is free")
	})
}

// goesOn returns a lock and the one of the next caller of the process, who has gone on with its lease
// without a command when the first was released.
func goesOn(t *testing.T, locker *rlock.Locker, extended bool) (first, next *rlock.Lock) {
	t.Helper()
	for range 1000 {
		first = env.MustLock(t)(locker.Acquire(t.Context(), "k", rlock.WithAutoExtend(extended)))
		got := env.NextInLine(t, locker, "k")
		require.NoError(t, first.Release(t.Context()))
		next = env.Taken(t, got)
		if next.Attempts() == 0 {
			return first, next
		}
		require.NoError(t, next.Release(t.Context())) // the release came too late for that
	}
	require.FailNow(t, "each hand-over took a command")
	return nil, nil
}

// A lock that its caller does not want extended is not, although the one before it was.
func TestNextIsNotExtended(t *testing.T) {
	t.Parallel()
	locker := env.OpenOn(t, env.Start(t), rlock.WithTTL(3*time.Second), rlock.WithFence(false))
	_, next := goesOn(t, locker, true)
	end := next.Deadline()
	env.Soon(t, func() bool { return next.Err() != nil }, "it ends")
	require.False(t, time.Now().Before(end))
	require.ErrorIs(t, next.Err(), rlock.ErrExpired)
	require.WithinDuration(t, end, next.Deadline(), time.Millisecond, "nobody has extended it")
}

// Token does not tell of a lock that has ended what the next one has.
func TestTokenOfALockThatHasEnded(t *testing.T) {
	t.Parallel()
	locker := env.OpenOn(t, env.Start(t), rlock.WithFence(false))
	first, next := goesOn(t, locker, false)
	require.NoError(t, next.Extend(t.Context(), rlock.NoExpiry))
	require.Empty(t, first.Token())
	token := next.Token()
	require.NotEmpty(t, token)
	require.NoError(t, next.Release(t.Context()))
	require.Equal(t, token, next.Token(), "somebody has it already")
}

// Who goes on with the token of a lock that has expired keeps the key from others of its process.
func TestTokenOfALockThatHasExpired(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	locker, client := env.OpenOn(t, server), server.Client(t)
	for range 5 {
		first := env.MustLock(t)(locker.Acquire(t.Context(), "k", rlock.WithTTL(3*time.Second)))
		env.Soon(t, func() bool { return first.Err() != nil }, "it ends")
		again := env.MustLock(t)(locker.Acquire(t.Context(), "k", rlock.WithToken(first.Token()),
			rlock.WithTTL(time.Hour)))
		require.ErrorIs(t, env.ErrorOf(locker.TryAcquire(t.Context(), "k")), rlock.ErrHeld)
		require.Equal(t, first.Token(), env.Get(t, client, "k"))
		require.NoError(t, again.Release(t.Context()))
	}
}

// A caller who wants a fence has one, whoever had the lease before it.
func TestFenceAfterOneWithoutAFence(t *testing.T) {
	t.Parallel()
	locker := env.OpenOn(t, env.Start(t), rlock.WithTurn(time.Hour))
	for _, owner := range []string{"a", "b"} { // b has the key handed over by a command
		first := env.MustLock(t)(locker.Acquire(t.Context(), "k", rlock.WithOwner("a")))
		second, third := make(chan *rlock.Lock, 1), make(chan *rlock.Lock, 1)
		go func() {
			second <- env.MustLock(t)(locker.Acquire(t.Context(), "k", rlock.WithOwner(owner), rlock.WithFence(false)))
		}()
		env.AwaitWaiting(t, locker, 1)
		go func() { third <- env.MustLock(t)(locker.Acquire(t.Context(), "k", rlock.WithOwner(owner))) }()
		env.AwaitWaiting(t, locker, 2)
		require.NoError(t, first.Release(t.Context()))
		unfenced := env.Taken(t, second)
		require.Zero(t, unfenced.Fence())
		require.NoError(t, unfenced.Release(t.Context()))
		fenced := env.Taken(t, third)
		require.Greater(t, fenced.Fence(), first.Fence(), owner)
		require.NoError(t, fenced.Release(t.Context()))
	}
}
