package attempt

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
)

// Pause waits until another attempt is worth it. It waits for the pause of the policy at most, which ends
// at until. It never waits past end, when the policy gives up. Its error says why ctx has ended, or is
// clock.ErrStopped.
func (a *Attempts) Pause(
	ctx context.Context, w *notify.Wait, why Setback, pause time.Duration, until, end clock.Instant,
) error {
	a.until, a.early = until, false
	p := pausing{a, pause, end}
	if why.Kind == Transient || a.collect.Over() {
		a.beginAnew(ctx) // otherwise the set could keep keys at the servers that answer, for any time
	}
	switch {
	case why.Kind == Transient:
		return p.rest(ctx, w)
	case a.place != nil:
		return p.inPlace(a.place.Await(ctx, w, a.Blocker.Remaining(), min(until, a.collect.End())))
	case a.mayStand():
		return a.subscribe(ctx, w)
	}
	return p.awaitFree(ctx, w)
}

// pausing is one Pause. The notify.Wait is no field: a look may go on in a goroutine. With the Wait as a
// field, the compiler would allocate the Attempts too, for every acquisition.
type pausing struct {
	of    *Attempts
	pause time.Duration
	end   clock.Instant
}

// inPlace takes what the place has learnt during the wait.
func (p pausing) inPlace(crowded bool, err error) error {
	if crowded {
		p.of.Line.Crowded(clock.Now())
	}
	return err
}

// longestRest is for how long a pause of the policy may keep others waiting while the server does not
// answer. The callers behind it in the line send nothing themselves. Other processes wait for the key,
// which the server may have granted to this acquisition.
const longestRest = time.Second / 2

// rest waits before the next call to a server that has not answered, or cannot serve yet. It ends before
// the pause of the policy if others depend on the acquisition, or if a set must try again. Then the next
// attempt does not count, and the pause goes on after it.
func (p pausing) rest(ctx context.Context, w *notify.Wait) error {
	w.Leave() // the next waiter for the key hears of a change, since this one does not try then
	pause := p.of.Outage.Pace(p.pause)
	if p.of.place != nil {
		if pause != clock.NoExpiry { // otherwise it polls
			pause = min(pause, longestRest)
		}
		return p.inPlace(p.of.place.Rest(ctx, w, pause, min(p.end, p.of.until)))
	}
	if pause == clock.NoExpiry {
		return w.Sleep(ctx, pause, 0, p.end)
	}
	turn := p.of.collect.End()
	for end := min(p.end, clock.Now().After(pause), p.of.until); clock.Now() < end; {
		if err := w.Sleep(ctx, longestRest, 0, min(end, turn)); err != nil {
			return err
		}
		now := clock.Now()
		if p.of.early = now < end && (now >= turn || p.of.Line.Followed()); p.of.early {
			break
		}
	}
	return nil
}

// awaitFree waits until the key may be free. An acquisition whose place was refused asks for a place again
// after a while.
func (p pausing) awaitFree(ctx context.Context, w *notify.Wait) error {
	turn, until := p.of.collect.End(), min(p.end, p.of.until)
	for end := min(until, turn); ; {
		again := p.of.refusal.End()
		err := w.Await(ctx, p.of.Blocker.Key, p.pause, p.of.Blocker.Left, min(end, again))
		if now := clock.Now(); err != nil || now < again || now >= end {
			p.of.early = now >= turn && now < until // the policy has not called for the next try of a set
			return err
		}
		if p.of.mayStand() {
			return p.of.subscribe(ctx, w)
		}
	}
}
