package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	lease = 1500 * time.Millisecond // of the process that is killed
	slack = 1500 * time.Millisecond // how much later the next may come on a busy machine
	plays = 3                       // of a scene that a machine which stands still may spoil
)

// takeover shows what a lease is for: a process that dies with a lock keeps others
// waiting until its lease ends, and no longer.
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

// passage is how a lock went from a holder that was killed to the next.
type passage struct {
	killed string    // the token of the first
	look   look      // after the kill
	next   time.Time // when the second had the lock
}

// killHolder has one process hold the lock and another wait for it, and kills the first.
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
	if next.Kind == isWaiting { // and not acquired, because the first has lost the lock
		d.sayAt(next.At, second.name, "finds it held, and waits")
	}

	// longer than the lease: it is extended
	if err := wait(ctx, time.Until(acquired.Add(lease*4/3))); err != nil {
		return seen, err
	}
	killed, err := first.kill()
	if err != nil {
		return seen, err
	}
	// At once: until the system says that the process is dead, its lease may be over.
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

// lease says what the server had of the killed holder's lease.
func (p passage) lease() string {
	if p.look.token != p.killed {
		return "it does not have the lock any more"
	}
	return fmt.Sprintf("its lease ends in %v", p.look.left)
}

// wrong returns what is wrong with how the lock passed on, and whether it may be the fault of a
// machine that stood still. Nothing excuses a lock that passed on too early. The server counts in
// milliseconds.
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
