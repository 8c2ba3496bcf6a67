package peers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

const workWakeUp = "wake-up after a remote release"

// pair is a library on two clients, for a lock that passes from one to the other.
type pair struct{ holder, waiter locker }

// compareWakeUps measures how long after a release elsewhere a waiter has the lock: from
// the call of the release on one client until the acquisition returns on another. The
// floor's waiter is told by the holder without a message: what is left are the two round
// trips, a release and then an acquisition, that nothing which asks a server can go below.
func compareWakeUps(t *testing.T, e bed.Engine, far time.Duration, p plan) comparison {
	c := comparison{workload: workload{name: workWakeUp, why: "a waiter on one client, a holder on another", level: "waiter", far: far}, level: 1}
	if far > 0 {
		c.workload.name = fmt.Sprintf("%s, %v away", workWakeUp, far)
	}
	server := e.Start(t)
	address := away(t, server, far)
	var pairs []pair
	for _, d := range drivers() {
		c.outcomes = append(c.outcomes, &outcome{driver: d})
		pairs = append(pairs, pair{d.open(t, address, lease), d.open(t, address, lease)})
	}
	settled := 5*time.Millisecond + 3*far
	m := meter{tb: t, server: server}
	for round := range p.rounds {
		for i := range pairs {
			n := (i + round) % len(pairs)
			if c.outcomes[n].hung() {
				continue
			}
			server.Do(t, "FLUSHALL")
			c.outcomes[n].samples = append(c.outcomes[n].samples, m.run(p.round, 1, func(ctx context.Context, _ int, l *latencies) error {
				if _, ok := pairs[n].waiter.(*floor); ok {
					return pairs[n].takeTurns(ctx, settled, l)
				}
				return pairs[n].wakeUp(ctx, settled, l)
			}))
		}
	}
	return c
}

// wakeUp leaves the waiter alone until it has settled, so that it waits as its library
// does.
func (p pair) wakeUp(ctx context.Context, settled time.Duration, latency *latencies) error {
	held, err := p.holder.acquire(ctx, "job")
	if err != nil {
		return err
	}
	type result struct {
		at   time.Time
		held holding
		err  error
	}
	got := make(chan result, 1)
	go func() {
		held, err := p.waiter.acquire(ctx, "job")
		got <- result{time.Now(), held, err}
	}()
	time.Sleep(settled)
	start := time.Now()
	if err := held.Release(context.Background()); err != nil {
		return err
	}
	r := <-got
	if r.err != nil {
		return r.err
	}
	latency.add(r.at.Sub(start))
	return r.held.Release(context.Background())
}

// takeTurns is wakeUp where the waiter asks only when it knows that the lock is free.
func (p pair) takeTurns(ctx context.Context, settled time.Duration, latency *latencies) error {
	held, err := p.holder.acquire(ctx, "job")
	if err != nil {
		return err
	}
	time.Sleep(settled)
	start := time.Now()
	if err := held.Release(context.Background()); err != nil {
		return err
	}
	held, err = p.waiter.acquire(ctx, "job")
	if err != nil {
		return err
	}
	latency.add(time.Since(start))
	return held.Release(context.Background())
}
