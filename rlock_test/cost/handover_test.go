package cost

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A release with a waiter of the same process behind it costs next to no scripts, and
// one where tokens must differ; fences rise all the same.
func TestHandOverBudget(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker := env.OpenOn(t, server, rlock.WithTurn(time.Hour))
		for name, test := range map[string]struct {
			opts   []rlock.Option
			most   float64 // scripts per hand-over
			shared bool    // tokens
		}{
			"fixed lease":            {nil, 0.1, true},
			"fixed lease, unfenced":  {[]rlock.Option{rlock.WithFence(false)}, 0.1, true},
			"fixed lease, own token": {[]rlock.Option{rlock.WithUniqueToken(true)}, 1.05, false},
			"never expires":          {[]rlock.Option{rlock.WithTTL(rlock.NoExpiry)}, 1.05, true},
			"auto-extended":          {[]rlock.Option{rlock.WithAutoExtend(true)}, 0.1, true},
			"auto-extended, unfenced": {[]rlock.Option{rlock.WithAutoExtend(true), rlock.WithFence(false)}, 0.1,
				true},
			"auto-extended, own token": {[]rlock.Option{rlock.WithAutoExtend(true), rlock.WithUniqueToken(true)}, 1.05,
				false},
		} {
			t.Run(name, func(t *testing.T) {
				const n = 500
				before := server.ScriptCalls(t)
				locks := env.PassOn(t, locker, name, n, test.opts...)
				require.LessOrEqual(t, float64(server.ScriptCalls(t)-before), n*test.most+3)
				shared, tokens := 0, map[string]bool{}
				for i, lock := range locks {
					require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrReleased)
					if token := lock.Token(); token == "" {
						shared++
					} else {
						require.False(t, tokens[token], "a token that is told is nobody else's")
						tokens[token] = true
					}
					if i > 0 && lock.Fence() != 0 {
						require.Greater(t, lock.Fence(), locks[i-1].Fence())
					}
				}
				if test.shared {
					require.Greater(t, shared, n*9/10)
				} else {
					require.Zero(t, shared)
				}
				state := env.HolderOf(t, locker, name)
				require.Empty(t, state.Token())
			})
		}
	})
}

// Callers who hold the lock for long make each of their hand-overs ask the server, because the lease is
// too old to share. The hand-overs after these cost next to no scripts again.
func TestHandOverBudgetAfterLongHolds(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	locker := env.OpenOn(t, server, rlock.WithTurn(time.Hour))
	const long, callers, cycles = 4, 8, 800
	var held atomic.Int32
	var before atomic.Int64
	require.NoError(t, env.Together(callers, func(int) error {
		for held.Load() < cycles { // so that none is left to go on alone
			lock, err := locker.Acquire(t.Context(), "job")
			if err != nil {
				return err
			}
			switch n := held.Add(1); {
			case n <= long:
				time.Sleep(150 * time.Millisecond)
			case n == 2*long:
				before.Store(server.ScriptCalls(t))
			}
			if err := lock.Release(t.Context()); err != nil {
				return err
			}
		}
		return nil
	}))
	require.LessOrEqual(t, server.ScriptCalls(t)-before.Load(), int64(cycles/4))
}
