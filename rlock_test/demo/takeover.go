package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	lease = 1500 * time.Millisecond // of the killed process
	slack = 1500 * time.Millisecond // how late the next holder may come on a busy machine
	plays = 3                       // of a scene, which a machine that stands still may spoil
)

// takeover shows the use of a lease. When a holder dies, the waiters wait until its lease ends, and not
// longer.
func (d *demo) takeover(ctx context.Context) error {
	d.heading("2. A process holds a lock with a lease of %v, which is extended while it lives. It is killed "+
		"with SIGKILL.", lease)
	for play := 1; ; play++ {
		seen, err := d.killHolder(ctx)
		if err != nil {
			return err
		}
		wrong, unsure := seen.wrong()
		if !unsure || play == plays {
			d.judge("a killed holder's key is taken over when its lease ends, neither before nor much later", wrong)
			return nil
		}
		d.say("demo", "%v, perhaps because this machine stood still: once more", wrong)
	}
}

// passage records how a lock went from a killed holder to the next holder.
type passage struct {
	killed string    // the token of the killed holder
	look   look      // after the kill
	next   time.Time // when the next holder got the lock
}

// killHolder lets one process hold the lock and another wait for it. Then it kills the holder.
func (d *demo) killHolder(ctx context.Context) (seen passage, err error) {
	processes, stop, err := d.startAll(ctx, 2)
	if err != nil {
		return seen, err
	}
	defer stop()
	first, second := processes[0], processes[1]
	keys := []string{"report"}
	e, err := first.do(ctx, order{Do: doAcquire, Keys: keys, TTL: lease}, isAcquired)
	if err != nil {
		return seen, err
	}
	acquired, fence := e.At, e.Fence
	seen.killed = e.Token
	d.sayAt(e.At, first.name, "took the lock, fence %d", e.Fence)
	if err := second.tell(order{Do: doAcquire, Keys: keys, TTL: 10 * time.Second}); err != nil {
		return seen, err
	}
	next, err := second.next(ctx)
	if err != nil {
		return seen, err
	}
	if next.Kind == isWaiting { // otherwise isAcquired, because the first process has lost the lock
		d.sayAt(next.At, second.name, "finds it held, and waits")
	}

	// Wait for longer than the lease, so that the holder extends the lease.
	if err := wait(ctx, time.Until(acquired.Add(lease*4/3))); err != nil {
		return seen, err
	}
	killed, err := first.kill()
	if err != nil {
		return seen, err
	}
	// Ask at once, because the lease may end before the system reports the death.
	if seen.look, err = d.server.look(ctx, "report"); err != nil {
		return seen, err
	}
	if err := first.reap(); err != nil {
		return seen, err
	}
	d.sayAt(killed, "demo", "killed %s after %v; %s", first.name, killed.Sub(acquired).Round(time.Millisecond),
		seen.lease())

	if next.Kind == isWaiting {
		if next, err = second.await(ctx, isAcquired); err != nil {
			return seen, err
		}
	}
	seen.next = next.At
	d.sayAt(next.At, second.name, "took over %v after the kill, fence %+d",
		next.At.Sub(killed).Round(time.Millisecond), int64(next.Fence-fence))
	_, err = second.do(ctx, order{Do: doRelease}, isReleased)
	return seen, err
}

// lease says what the server knew about the killed holder's lease.
func (p passage) lease() string {
	if p.look.token != p.killed {
		return "it does not have the lock any more"
	}
	return fmt.Sprintf("its lease ends in %v", p.look.left)
}

// wrong returns what is wrong with the hand-over. unsure reports whether a machine that stood still may be
// the cause. Nothing excuses a hand-over that came too early. The server counts in milliseconds.
func (p passage) wrong() (wrong error, unsure bool) {
	left := p.look.left
	switch least, most := p.next.Sub(p.look.answered), p.next.Sub(p.look.asked); {
	case p.look.token != p.killed:
		return errors.New("the killed process did not have the lock any more when the server was asked"), true
	case left < 0 || left > lease:
		return fmt.Errorf("the lease had %v left", left), false
	case most < left-20*time.Millisecond:
		return fmt.Errorf("it passed on %v before the lease ended", left-most), false
	case least > left+slack:
		return fmt.Errorf("it passed on %v after the lease ended", least-left), true
	}
	return nil, false
}
