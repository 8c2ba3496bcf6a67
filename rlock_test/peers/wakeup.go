package peers

import (
	"context"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// compareWakeUps measures how long after a release elsewhere a waiter has the lock: from
// the call of the release on one client until the acquisition returns on another. The
// floor's are two round trips one after the other, which nothing that asks the server
// can go below.
func compareWakeUps(t *testing.T, e bed.Engine, p plan) comparison {
	c := comparison{workload: workload{name: "wake-up after a remote release", level: "waiter"}, level: 1}
	server := e.Start(t)
	type pair struct{ holder, waiter locker }
	var pairs []pair
	for _, d := range drivers() {
		c.outcomes = append(c.outcomes, &outcome{driver: d})
		pairs = append(pairs, pair{d.open(t, server.Addr(), lease), d.open(t, server.Addr(), lease)})
	}
	bare := rueidisClient(t, server.Addr())
	m := meter{tb: t, server: server}
	for round := range p.rounds {
		for i := range pairs {
			n := (i + round) % len(pairs)
			if c.outcomes[n].hung() {
				continue
			}
			server.Do(t, "FLUSHALL")
			do := func(ctx context.Context, latency *latencies) error {
				if n == 0 {
					start := time.Now()
					for range 2 {
						if err := bare.Do(ctx, bare.B().Ping().Build()).Error(); err != nil {
							return err
						}
					}
					latency.add(time.Since(start))
					return nil
				}
				return wakeUp(ctx, pairs[n].holder, pairs[n].waiter, latency)
			}
			c.outcomes[n].samples = append(c.outcomes[n].samples, m.run(p.round, 1, func(ctx context.Context, _ int, l *latencies) error { return do(ctx, l) }))
		}
	}
	return c
}

// settled is how long a waiter is left alone, so that it waits as its library does.
const settled = 5 * time.Millisecond

func wakeUp(ctx context.Context, holder, waiter locker, latency *latencies) error {
	free, err := holder.acquire(ctx, "job")
	if err != nil {
		return err
	}
	type result struct {
		at   time.Time
		free release
		err  error
	}
	got := make(chan result, 1)
	go func() {
		free, err := waiter.acquire(ctx, "job")
		got <- result{time.Now(), free, err}
	}()
	time.Sleep(settled)
	start := time.Now()
	if err := free(context.Background()); err != nil {
		return err
	}
	r := <-got
	if r.err != nil {
		return r.err
	}
	latency.add(r.at.Sub(start))
	return r.free(context.Background())
}
