package rlock_test

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
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// passes has n acquisitions of key go from one to the next, with all of them waiting
// before the first is released, and returns their locks in order.
func passes(t *testing.T, locker *rlock.Locker, key string, n int, opts ...rlock.Option) []*rlock.Lock {
	t.Helper()
	first, err := locker.Acquire(t.Context(), key, opts...)
	require.NoError(t, err)
	var (
		group sync.WaitGroup
		mu    sync.Mutex
		locks = []*rlock.Lock{first}
	)
	for range n - 1 {
		group.Go(func() {
			lock, err := locker.Acquire(t.Context(), key, opts...)
			if err != nil {
				t.Error(err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			locks = append(locks, lock)
			if err := lock.Release(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
	time.Sleep(100 * time.Millisecond) // most are in line by now; whoever is not acquires later
	require.NoError(t, first.Release(t.Context()))
	group.Wait()
	require.Len(t, locks, n)
	return locks
}

// A release with a waiter of the same process behind it costs at most one script,
// and next to none where leases are extended; fences rise all the same.
func TestHandOverBudget(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		server := e.Start(t)
		locker := opened(t, server, rlock.WithTurn(1000, time.Hour))
		for name, test := range map[string]struct {
			opts   []rlock.Option
			most   float64 // scripts per hand-over
			shared bool    // tokens
		}{
			"fixed lease":              {nil, 1.05, false},
			"fixed lease, unfenced":    {[]rlock.Option{rlock.WithFence(false)}, 1.05, false},
			"never expires":            {[]rlock.Option{rlock.WithTTL(rlock.NoExpiry)}, 1.05, false},
			"auto-extended":            {[]rlock.Option{rlock.WithAutoExtend(true)}, 0.1, true},
			"auto-extended, unfenced":  {[]rlock.Option{rlock.WithAutoExtend(true), rlock.WithFence(false)}, 0.1, true},
			"auto-extended, own token": {[]rlock.Option{rlock.WithAutoExtend(true), rlock.WithUniqueToken()}, 1.05, false},
		} {
			t.Run(name, func(t *testing.T) {
				const n = 500
				before := scripts(t, server)
				locks := passes(t, locker, name, n, test.opts...)
				require.LessOrEqual(t, float64(scripts(t, server)-before), n*test.most+3)
				tokens := map[string]bool{}
				for i, lock := range locks {
					require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrReleased)
					tokens[lock.Token()] = true
					if i > 0 && lock.Fence() != 0 {
						require.Greater(t, lock.Fence(), locks[i-1].Fence())
					}
				}
				if test.shared {
					require.Less(t, len(tokens), n/10)
				} else {
					require.Len(t, tokens, n)
				}
				state, err := locker.Inspect(t.Context(), name)
				require.NoError(t, err)
				require.False(t, state.Held)
			})
		}
	})
}

// A turn has an end: by count, and by time. The key is then free for a moment.
func TestTurnsEnd(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		server := e.Start(t)
		for name, turn := range map[string]rlock.Option{
			"by count": rlock.WithTurn(10, time.Hour),
			"by time":  rlock.WithTurn(1<<30, 5*time.Millisecond),
			"at once":  rlock.WithTurn(0, time.Hour),
		} {
			t.Run(name, func(t *testing.T) {
				// One process has many who want the key all the time, the other has one.
				greedy, modest := opened(t, server, turn), opened(t, server)
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

// A handle that was released cannot touch its successor, though they may have the
// same token.
func TestReleasedHandleLeavesItsSuccessorAlone(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := newLocker(t, client, rlock.WithAutoExtend(true), rlock.WithTurn(100, time.Hour), rlock.WithFence(false))
		first, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		heirs := make(chan *rlock.Lock, 1)
		go func() {
			lock, err := locker.Acquire(t.Context(), "job")
			if err != nil {
				t.Error(err)
			}
			heirs <- lock
		}()
		ctx := first.Context()
		time.Sleep(50 * time.Millisecond)
		require.NoError(t, first.Release(t.Context()))
		heir := <-heirs
		require.Equal(t, first.Token(), heir.Token())

		require.ErrorIs(t, context.Cause(ctx), rlock.ErrReleased)
		require.False(t, first.Valid())
		require.ErrorIs(t, first.Release(t.Context()), rlock.ErrReleased)
		require.ErrorIs(t, first.Extend(t.Context(), time.Millisecond), rlock.ErrReleased)
		require.ErrorIs(t, first.Detach(), rlock.ErrReleased)
		_, err = first.Check(t.Context())
		require.ErrorIs(t, err, rlock.ErrReleased)

		require.True(t, heir.Valid())
		state, err := heir.Check(t.Context())
		require.NoError(t, err)
		require.True(t, state.HeldBy(heir.Token()))
		require.Greater(t, state.Left, 5*time.Second)
		require.NoError(t, heir.Release(t.Context()))
	})
}

// Whoever has lost the lock hands nothing over: the next asks the server.
func TestLostLockIsNotHandedOver(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		server := e.Start(t)
		locker := opened(t, server, rlock.WithTurn(100, time.Hour))
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
		time.Sleep(50 * time.Millisecond)
		server.Do(t, "SET", "job", "another", "PX", "300")
		require.ErrorIs(t, held.Release(t.Context()), rlock.ErrLost)
		require.NoError(t, <-next, "it waits for the other and takes the lock then")
	})
}

// Waiters that give up at any moment, hand-overs of all kinds, two processes: no two
// holders at once, no fence falls, nobody is stranded, nothing is left.
func TestHandOversUnderCancellation(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		server := e.Start(t)
		lockers := []*rlock.Locker{opened(t, server), opened(t, server, rlock.WithTurn(5, time.Hour))}
		var (
			inside atomic.Int32
			fence  uint64
			done   atomic.Int64
		)
		kinds := [][]rlock.Option{
			nil,
			{rlock.WithAutoExtend(true)},
			{rlock.WithAutoExtend(true), rlock.WithUniqueToken()},
			{rlock.WithAutoExtend(true), rlock.WithTTL(5 * time.Second)},
			{rlock.WithAutoExtend(true), rlock.WithFence(false)},
		}
		require.NoError(t, together(24, func(i int) error {
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
		soon(t, func() bool {
			state, err := lockers[0].Inspect(t.Context(), "job")
			return err == nil && !state.Held
		}, "the key is free")
	})
}
