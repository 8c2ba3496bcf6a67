package peers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

const workWakeUp = "wake-up after a remote release"

// wakeUpLevel says what is waited for before the release.
const wakeUpLevel = "ms without a command"

// idleBefore are how many milliseconds that is. The longer nobody uses a machine, the more its processors
// forget, and the more a script costs for its length.
var idleBefore = []int{1, 5}

// pair is a library on two clients, for a lock that passes from one to the other.
type pair struct{ holder, waiter locker }

// compareWakeUps measures how long after a release elsewhere a waiter has the lock: from
// the call of the release on one client until the acquisition returns on another. The
// floor's waiter is told by the holder without a message: what is left are the two round
// trips, a release and then an acquisition, that nothing which asks a server can go below.
// Before the release nobody uses the server for so many milliseconds.
func compareWakeUps(t *testing.T, e env.Engine, far time.Duration, ms int, p plan) comparison {
	c := comparison{workload: workload{name: workWakeUp,
		why:   "the latency is the time from the release on one client to the acquisition on another",
		level: wakeUpLevel, far: far}, level: ms}
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
	settled := time.Duration(ms)*time.Millisecond + 3*far
	m := meter{tb: t, server: server}
	c.alternate(m, p.rounds, func(n int) *sample {
		once := pairs[n].wakeUp
		if _, ok := pairs[n].waiter.(*floor); ok {
			once = pairs[n].takeTurns
		}
		return m.run(p.round, 1, func(ctx context.Context, _ int,
			l *latencies) error {
			return once(ctx, settled, l)
		})
	})
	return c
}

// waited is how a wait for a lock has ended, and when.
type waited struct {
	at   time.Time
	held holding
	err  error
}

// await waits for the lock of key in the background.
func await(ctx context.Context, waiter locker, key string) <-chan waited {
	ended := make(chan waited, 1)
	go func() {
		held, err := waiter.acquire(ctx, key)
		ended <- waited{time.Now(), held, err}
	}()
	return ended
}

// settle notes how long after since the wait ended, and frees the lock.
func (w waited) settle(since time.Time, latency *latencies) error {
	if w.err != nil {
		return w.err
	}
	latency.add(w.at.Sub(since))
	return w.held.Release(context.Background())
}

// wakeUp leaves the waiter alone until it has settled, so that it waits as its library
// does.
func (p pair) wakeUp(ctx context.Context, settled time.Duration, latency *latencies) error {
	held, err := p.holder.acquire(ctx, "job")
	if err != nil {
		return err
	}
	ended := await(ctx, p.waiter, "job")
	time.Sleep(settled)
	start := time.Now()
	if err := held.Release(context.Background()); err != nil {
		return err
	}
	return (<-ended).settle(start, latency)
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
