package shared

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Readers of a process who share a lease cost the server what one of them costs.
func TestReadersAreExtendedTogether(t *testing.T) {
	t.Parallel()
	const ttl, readers = 3 * time.Second, 100
	f, l, _ := env.NewFaulty(t, env.Engines(t)[0])
	var mu sync.Mutex
	sent := 0
	locks := crowd(t, l, "k", readers, rlock.WithTTL(ttl), rlock.WithAutoExtend(true))
	f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		if env.Calls(words, gen.ExtendSHA1) {
			mu.Lock()
			sent++
			mu.Unlock()
		}
		return run()
	})
	began := time.Now()
	time.Sleep(2 * ttl)
	mu.Lock()
	defer mu.Unlock()
	require.LessOrEqual(t, sent, 2*int(time.Since(began)/(ttl/3)))
	require.Positive(t, sent)
	for _, lock := range locks {
		require.NoError(t, lock.Err())
	}
}

// A lease that one reader has made longer than that of all others ends with the last of them, whether or not
// anybody looks at its lock.
func TestLeaseThatOutlivesItsReaders(t *testing.T) {
	t.Parallel()
	for name, longer := range map[string]time.Duration{"an hour": time.Hour, "for ever": rlock.NoExpiry} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := env.OpenOn(t, env.Start(t))
			locks := crowd(t, l, "k", 2, rlock.WithTTL(2*time.Second), rlock.WithAutoExtend(false))
			require.NoError(t, locks[1].Extend(t.Context(), longer))
			require.NoError(t, locks[1].Release(t.Context()))
			require.Equal(t, 1, held(t, l, "k"))
			env.Soon(t, func() bool { return held(t, l, "k") == 0 }, "nobody has asked the first lock")
			require.ErrorIs(t, locks[0].Err(), rlock.ErrExpired)
		})
	}
}

// A reader that is the only one left may be detached, and one that shares its lease may not.
func TestDetachOfAReader(t *testing.T) {
	t.Parallel()
	l := env.OpenOn(t, env.Start(t))
	locks := crowd(t, l, "k", 2, rlock.WithTTL(time.Hour))
	_, err := locks[0].Detach()
	require.ErrorIs(t, err, rlock.ErrInvalid)
	require.NoError(t, locks[0].Err())
	require.NoError(t, locks[1].Release(t.Context()))
	handoff := env.Detach(t, locks[0])
	attached, err := l.Attach(t.Context(), handoff)
	require.NoError(t, err)
	require.Equal(t, locks[0].Fence(), attached.Fence())
	require.NoError(t, attached.Release(t.Context()))
	require.Zero(t, held(t, l, "k"))
}

// Whatever readers do with a lease at the same time, nothing is left of it at the end.
func TestStormOfReaders(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	l := env.OpenOn(t, server, rlock.WithObserver(rlock.ObserverFunc(func(context.Context, rlock.Event) {})))
	client := server.Client(t)
	var work sync.WaitGroup
	for range 32 {
		work.Go(func() {
			for range 40 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				lock, err := l.AcquireShared(ctx, "k", rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
				if err != nil {
					t.Error(err)
					cancel()
					continue
				}
				switch rand.N(8) {
				case 0:
					_ = lock.Extend(ctx, 30*time.Second)
				case 1:
					_ = lock.Extend(ctx, 2*time.Minute)
				case 2:
					_ = env.Do(t, client, "DEL", "k").Error() // all have lost it
				case 3:
					_ = lock.Verify(ctx)
				case 4:
					lock.Token()
				case 5:
					if handoff, err := lock.Detach(); err == nil {
						if lock, err = l.Attach(ctx, handoff); err != nil {
							require.ErrorIs(t, err, rlock.ErrNotHeld)
							cancel()
							continue
						}
					}
				case 6:
					lock.Context()
				}
				_ = lock.Release(ctx)
				require.Error(t, lock.Err())
				cancel()
			}
		})
	}
	work.Wait()
	require.Empty(t, l.Locks())
	env.Soon(t, func() bool { return held(t, l, "k") == 0 }, "the last has given it back")
}
