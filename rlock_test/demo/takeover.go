package main

import (
	"context"
	"fmt"
	"time"
)

const (
	lease = 1500 * time.Millisecond // of the process that is killed
	slack = 1500 * time.Millisecond // how much later the next may come on a busy machine
)

// takeover shows what a lease is for: a process that dies with a lock keeps others
// waiting until its lease ends, and no longer.
func (d *demo) takeover(ctx context.Context) error {
	d.heading("2. A process holds a lock with a lease of %v, which is extended while it lives. It is killed with SIGKILL.", lease)
	processes, stop, err := d.startAll(ctx, 2)
	if err != nil {
		return err
	}
	defer stop()
	first, second := processes[0], processes[1]
	hold := order{Do: doAcquire, Keys: []string{"report"}, TTL: lease}
	e, err := first.do(ctx, hold, isAcquired)
	if err != nil {
		return err
	}
	acquired, fence := e.At, e.Fence
	d.sayAt(e.At, first.name, "took the lock, fence %d", e.Fence)
	if e, err = second.do(ctx, hold, isWaiting); err != nil {
		return err
	}
	d.sayAt(e.At, second.name, "finds it held, and waits")

	if err := wait(ctx, time.Until(acquired.Add(lease*4/3))); err != nil { // longer than the lease: it is extended
		return err
	}
	killed, err := first.kill()
	if err != nil {
		return err
	}
	asked := time.Now()
	left, err := d.server.left(ctx, "report")
	if err != nil {
		return err
	}
	answered := time.Now() // the server said so in between
	d.sayAt(killed, "demo", "killed %s after %v; its lease ends in %v", first.name, killed.Sub(acquired).Round(time.Millisecond), left)

	next, err := second.await(ctx, isAcquired)
	if err != nil {
		return err
	}
	d.sayAt(next.At, second.name, "took over %v after the kill, fence %+d", next.At.Sub(killed).Round(time.Millisecond), int64(next.Fence-fence))
	d.judge("a killed holder's key is taken over when its lease ends, neither before nor much later",
		takenOver(next.At.Sub(answered), next.At.Sub(asked), left))
	_, err = second.do(ctx, order{Do: doRelease}, isReleased)
	return err
}

// takenOver returns what is wrong with a lock that passed on at least and at most so long
// after the server said how much time its holder had left. The server counts in
// milliseconds.
func takenOver(least, most, left time.Duration) error {
	switch {
	case left <= 0 || left > lease:
		return fmt.Errorf("the lease had %v left", left)
	case most < left-20*time.Millisecond:
		return fmt.Errorf("it passed on %v before the lease ended", left-most)
	case least > left+slack:
		return fmt.Errorf("it passed on %v after the lease ended", least-left)
	}
	return nil
}
