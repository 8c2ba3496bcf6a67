package failure

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// What callers have given up while nobody answers goes within a second and a half of the end of that, however
// long it was: locks of each kind, and places in queues.
func TestWhatAStopLeavesGoesSoon(t *testing.T) {
	t.Parallel()
	for what, begin := range map[string]func(*testing.T, *env.Server, *env.Proxy) (end func()){
		"the network is silent": func(_ *testing.T, _ *env.Server, p *env.Proxy) func() {
			p.BlackHole(true)
			return func() { p.BlackHole(false) }
		},
		"the server stands still": func(_ *testing.T, s *env.Server, _ *env.Proxy) func() {
			s.Stop()
			return s.Cont
		},
		"the server is dead": func(t *testing.T, s *env.Server, _ *env.Proxy) func() {
			s.Kill()
			return func() { s.Restart(t) }
		},
	} {
		for _, lasts := range []time.Duration{300, 1300, 2600, 4400, 9700, 14000, 33000} {
			lasts *= time.Millisecond
			for kind, open := range clients {
				t.Run(fmt.Sprintf("%s/%v/%s", what, lasts, kind), func(t *testing.T) {
					t.Parallel()
					if lasts > 5*time.Second {
						env.Long(t)
					}
					server := env.Engines(t)[0].Start(t, "--appendonly", "yes", "--appendfsync", "always")
					proxy := env.NewProxy(t, server.Addr())
					l := open(t, rueidis.ClientOption{InitAddress: []string{proxy.Addr()}})
					whatGoes(t, server, l, func() func() { return begin(t, server, proxy) }, lasts)
				})
			}
		}
	}
}

// whatGoes gives up locks of each kind and a place in a queue while nobody answers.
func whatGoes(
	t *testing.T, server *env.Server, l *rlock.Locker, begin func() (end func()), lasts time.Duration,
) {
	must := env.MustLock(t)
	given := []*rlock.Lock{
		must(l.Acquire(t.Context(), "whole")), must(l.AcquireAll(t.Context(), []string{"a", "b"})),
		must(l.AcquireShared(t.Context(), "shared")), must(l.AcquirePermits(t.Context(), "permit", 1, 3)),
	}
	other := env.OpenLocker(t, server.Option(), rlock.WithTTL(10*time.Minute))
	must(other.Acquire(t.Context(), "held"))
	waits, leaves := context.WithCancel(t.Context())
	var all sync.WaitGroup
	all.Go(func() { require.Error(t, env.ErrorOf(l.Acquire(waits, "held"))) })
	waiters := func() int { return len(env.Inspect(t, other, "held").Waiters) }
	env.Soon(t, func() bool { return waiters() == 1 }, "it waits")

	end := begin()
	over := time.After(lasts)
	leaves()
	for _, lock := range given {
		all.Go(func() { _ = lock.Release(t.Context()) })
	}
	<-over
	end()
	began, last, late := time.Now(), time.Now(), time.Duration(0)
	for {
		left := env.Do(t, other.Client(), "EXISTS", "whole", "a", "b", "shared", "permit")
		n, err := left.ToInt64()
		require.NoError(t, err)
		late = max(late, time.Since(last)-5*time.Millisecond) // so busy is the machine
		if n == 0 && waiters() == 0 {
			break
		}
		most := 1500*time.Millisecond + 5*late
		require.Less(t, time.Since(began), most, "%d keys and %d waiters are left", n, waiters())
		last = time.Now()
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("gone after %v", time.Since(began).Round(time.Millisecond))
	all.Wait()
}
