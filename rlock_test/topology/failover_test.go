package topology

import (
	"context"
	"errors"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// pace has how long callers have waited: from when they wanted a lock until they had it, errors included.
type pace struct {
	mu      sync.Mutex
	longest time.Duration
	of      string
	count   int
}

func (p *pace) waited(what string, d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.count++
	if d > p.longest {
		p.longest, p.of = d, what
	}
}

// counted is how many locks were had.
func (p *pace) counted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.count
}

// The replica that an operator has promoted under load is milliseconds behind: it has places that were
// served, and not the last releases. Nobody waits for longer than a lease because of the releases, and a
// little more for all places together.
func TestFailoverUnderLoad(t *testing.T) {
	env.Long(t)
	const lease = 10 * time.Second
	runs, _ := strconv.Atoi(os.Getenv("RLOCK_FAILOVERS")) // how often; 0: once
	env.Each(t, func(t *testing.T, e env.Engine) {
		for range max(runs, 1) {
			s := e.StartSentinel(t)
			var p pace
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			load := func(what string, n int, acquire func(l *rlock.Locker) (*rlock.Lock, error)) {
				for range n {
					l := env.OpenLocker(t, s.Option(), rlock.WithTTL(lease))
					all.Go(func() {
						for start := time.Now(); ctx.Err() == nil; {
							lock, err := acquire(l)
							if err != nil {
								if ctx.Err() != nil {
									p.waited(what, time.Since(start))
								}
								time.Sleep(10 * time.Millisecond)
								continue
							}
							p.waited(what, time.Since(start))
							time.Sleep(time.Millisecond)
							if err := lock.Release(context.Background()); errors.Is(err, rlock.ErrInvalid) {
								t.Error(err)
							}
							start = time.Now()
						}
					})
				}
			}
			load("whole", 6, func(l *rlock.Locker) (*rlock.Lock, error) { return l.Acquire(ctx, "k") })
			load("writer", 2, func(l *rlock.Locker) (*rlock.Lock, error) { return l.Acquire(ctx, "r") })
			load("reader", 4, func(l *rlock.Locker) (*rlock.Lock, error) { return l.AcquireShared(ctx, "r") })
			load("set", 3, func(l *rlock.Locker) (*rlock.Lock, error) { return l.AcquireAll(ctx, []string{"a", "b"}) })
			time.Sleep(2 * time.Second)
			s.Switch(t)
			time.Sleep(2*lease + 5*time.Second)
			stop()
			all.Wait()
			t.Logf("%d locks; the longest wait: %v for a %s", p.count, p.longest.Round(10*time.Millisecond), p.of)
			require.Less(t, p.longest, lease+2*time.Second, p.of)
		}
	})
}
