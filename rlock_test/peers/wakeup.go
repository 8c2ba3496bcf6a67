package peers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

const workWakeUp = "wake-up after a remote release"

// wakeUpLevel is the unit of the pause before the release.
const wakeUpLevel = "ms without a command"

// idleBefore are the lengths of this pause in milliseconds. In a longer pause the processors forget
// more, and a script costs more for its length.
var idleBefore = []int{1, 5}

// pair is a library on two clients, for a lock that passes from one client to the other.
type pair struct{ holder, waiter locker }

// compareWakeUps measures how soon a waiter gets a lock after a release on another client. The time
// runs from the call of the release until the acquisition returns. The holder wakes the floor's
// waiter directly, without a message. So the floor costs two round trips, a release and then an
// acquisition. No library that asks a server can be faster. Before the release, nobody uses the
// server for ms milliseconds.
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

// settle notes the time from since to the end of the wait, and frees the lock.
func (w waited) settle(since time.Time, latency *latencies) error {
	if w.err != nil {
		return w.err
	}
	latency.add(w.at.Sub(since))
	return w.held.Release(context.Background())
}

// wakeUp leaves the waiter alone until it has settled. So the waiter waits as its library does.
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

// takeTurns is wakeUp for a waiter that asks only when it knows that the lock is free.
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
