package failure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// lostWhenForgotten holds extended locks by several Lockers, and has their connections die silently, at other
// moments between two extensions for each Locker. It returns how many of how many locks are lost within a
// lease and a half.
func lostWhenForgotten(t *testing.T, ttl time.Duration, lockers, locks int, option rueidis.ClientOption,
	opts ...rlock.LockerOption) (lost, all int) {
	t.Helper()
	server := env.Start(t)
	var (
		mu      sync.Mutex
		running sync.WaitGroup
	)
	for i := range lockers {
		proxy := env.NewProxy(t, server.Addr())
		option.InitAddress = []string{proxy.Addr()}
		locker := env.OpenLocker(t, option, opts...)
		keys := env.Keys(locks)
		for n := range keys {
			keys[n] = fmt.Sprint(i, ":", keys[n])
		}
		held := env.TakeEach(t, locker, keys, rlock.WithTTL(ttl), rlock.WithAutoExtend(true))
		running.Go(func() {
			time.Sleep(ttl/3 + ttl/3*time.Duration(i)/time.Duration(lockers))
			proxy.Forget()
			time.Sleep(ttl * 3 / 2)
			mu.Lock()
			defer mu.Unlock()
			for _, lock := range held {
				all++
				if lock.Err() != nil {
					lost++
				}
			}
		})
	}
	running.Wait()
	return lost, all
}

// Locks that are extended outlast connections that die silently: a client of Open notices that soon enough.
func TestSilentDeathOfConnections(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{5 * time.Second, rlock.DefaultTTL, 30 * time.Second} {
		t.Run(ttl.String(), func(t *testing.T) {
			t.Parallel()
			if ttl > 5*time.Second {
				env.Long(t)
			}
			for name, option := range map[string]rueidis.ClientOption{
				"":                           {},
				"without a cache":            {DisableCache: true},
				"a connection for each call": {DisableAutoPipelining: true},
			} {
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					lost, all := lostWhenForgotten(t, ttl, 8, 12, option, rlock.WithTTL(ttl))
					t.Logf("%d of %d locks are lost", lost, all)
					require.Zero(t, lost)
				})
			}
		})
	}
}

// The first call of a process that was idle does not wait for a dead connection until rueidis gives it up.
func TestFirstCallAfterASilentDeath(t *testing.T) {
	t.Parallel()
	for name, option := range map[string]rueidis.ClientOption{"": {}, "without a cache": {DisableCache: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			proxy := env.NewProxy(t, env.Start(t).Addr())
			option.InitAddress = []string{proxy.Addr()}
			locker := env.OpenLocker(t, option)
			require.NoError(t, env.MustLock(t)(locker.TryAcquire(t.Context(), "job")).Release(t.Context()))
			time.Sleep(2500 * time.Millisecond)
			proxy.Forget()
			began := time.Now()
			_, err := locker.TryAcquire(t.Context(), "job")
			took := time.Since(began)
			require.NoError(t, err)
			t.Logf("the first call took %v", took.Round(time.Millisecond))
			require.Less(t, took, 7*time.Second, "it takes up to 3.4, and 10 with what rueidis sets")
		})
	}
}

// A lease that is too short for the time-outs of its client is told once, and by Probe.
func TestShortLeaseIsTold(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	for name, c := range map[string]struct {
		change func(o *rueidis.ClientOption)
		locker time.Duration // lease
		call   time.Duration
		told   string
		probe  rlock.ProbeSeverity
	}{
		"the default": {func(*rueidis.ClientOption) {}, rlock.DefaultTTL, rlock.DefaultTTL, "",
			rlock.ProbeOK},
		"a short one": {func(*rueidis.ClientOption) {}, 3 * time.Second, 3 * time.Second, "",
			rlock.ProbeOK},
		"a shorter one": {func(*rueidis.ClientOption) {}, 2 * time.Second, 2 * time.Second,
			"a lease of 2.27s or more", rlock.ProbeNote},
		"a short one of a call": {func(*rueidis.ClientOption) {}, rlock.DefaultTTL, 5 * time.Second,
			"within 4.333s", rlock.ProbeOK},
		"for ever": {func(*rueidis.ClientOption) {}, rlock.NoExpiry, rlock.NoExpiry, "",
			rlock.ProbeOK},
		"a time-out of the user": {func(o *rueidis.ClientOption) { o.ConnWriteTimeout = 10 * time.Second },
			rlock.DefaultTTL, rlock.DefaultTTL, "within 12s", rlock.ProbeNote},
		"no pings": {func(o *rueidis.ClientOption) { o.Dialer.KeepAlive = -1 }, time.Minute, time.Minute,
			"never", rlock.ProbeNote},
		"no time-out": {func(o *rueidis.ClientOption) { o.ConnWriteTimeout = -1 }, time.Minute, time.Minute,
			"never", rlock.ProbeNote},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			option := server.Option()
			c.change(&option)
			var (
				mu   sync.Mutex
				told []rlock.Event
			)
			locker := env.OpenLocker(t, option, rlock.WithTTL(c.locker), rlock.WithPrefix(name),
				rlock.WithObserver(rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
					mu.Lock()
					defer mu.Unlock()
					if e.Kind == rlock.EventShortLease {
						told = append(told, e)
					}
				})))
			lock := env.MustLock(t)(locker.Acquire(t.Context(), "not extended", rlock.WithTTL(c.call)))
			require.Empty(t, told)
			require.NoError(t, lock.Release(t.Context()))
			for i := range 3 {
				err := locker.Do(t.Context(), fmt.Sprint(i), func(context.Context, *rlock.Lock) error { return nil },
					rlock.WithTTL(c.call))
				require.NoError(t, err)
			}
			report, err := locker.Probe(t.Context())
			require.NoError(t, err)
			require.Equal(t, c.probe, env.Worst(t, report)["client"], "%s", report)
			mu.Lock()
			defer mu.Unlock()
			if c.told == "" {
				require.Empty(t, told)
				return
			}
			require.Len(t, told, 1)
			require.ErrorContains(t, told[0].Err, c.told)
			require.False(t, errors.Is(told[0].Err, rlock.ErrNotHeld))
			require.NotZero(t, told[0].Remaining)
		})
	}
}
