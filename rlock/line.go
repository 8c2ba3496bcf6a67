package rlock

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/attempt"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/line"
)

// kind returns the kind of the line that the acquisition may enter. It returns false for the following
// acquisitions, because they enter no line:
//   - a set, or a token of WithToken;
//   - a call that does not wait, except a reader, who may join the share of other readers;
//   - a share WithUniqueToken;
//   - all permits at once, which have a fence of their own;
//   - permits that never expire, and permits of a Locker without turns.
func (a *acquisition) kind() (k line.Kind, has bool) {
	l := a.lock
	share, is := l.claim.Share()
	k = line.Kind{Key: l.claim.Key()}
	switch {
	case l.claim.IsSet() || l.claim.Chosen():
		return k, false
	case !is:
		return k, l.by.wait
	case share.Limit == 0:
		k.Mode = line.Readers
	case share.Permits < share.Limit && l.set.ttl != NoExpiry && l.set.turn > 0 && l.by.wait:
		k.Mode, k.Limit, k.Permits, k.Extends = line.Permits, share.Limit, share.Permits, l.extends()
	default:
		return k, false
	}
	k.Owner, k.TTL = l.set.owner, l.set.ttl
	return k, !l.set.uniqueToken
}

// enter puts the acquisition into the line, and sets its role.
func (a *acquisition) enter(wait bool, now clock.Instant) {
	l := a.lock
	kind, has := a.kind()
	if !has || a.ctx.Err() != nil {
		a.role = line.Asks
		return
	}
	in := l.locker.lines.Enter(&kind, (*inLine)(&l.own), &a.tries.Want, wait, a.places(&kind), now)
	a.role, a.given, a.caller, a.left = in.Role, in.Grant, in.Caller, in.Left
}

// places returns how many waiters for permits should stand in the queue of the server while others wait.
// These waiters must be enough to take all permits that go back to the server at the end of a turn. After a
// grant, the next caller must first take the place. So two round trips pass between two grants of a place.
func (a *acquisition) places(k *line.Kind) int {
	if k.Mode != line.Permits {
		return 1
	}
	most := float64(k.Limit / k.Permits)
	n := most * 2 * float64(a.lock.locker.wire.RoundTrip()) / float64(a.lock.locker.lines.Turn())
	return max(1, int(min(n, most)))
}

// waitInLine waits in the line for one pause of the policy.
func (a *acquisition) waitInLine() noLock {
	now := a.start
	if a.asked > 0 { // otherwise the call has just begun
		now = clock.Now()
	}
	now = a.behind(a.left, now)
	if !a.nextPause(now) {
		return a.lastLook()
	}
	l := a.lock
	end := l.set.retry.end(a.start)
	role, g, err := a.await(now, min(now.After(a.pause), end), end)
	if err != nil {
		return a.quit(waitEnded(err))
	}
	a.setRole(role, g)
	if role == line.Waits {
		a.left = a.caller.Remaining(clock.Now())
	}
	return noLock{}
}

// setRole sets the next role of the acquisition.
func (a *acquisition) setRole(role line.Role, g line.Grant) {
	a.role, a.given = role, g
	if role != line.Waits {
		a.caller = nil
	}
	if role == line.Asks {
		a.tries.Blocker = attempt.Blocker{Key: a.lock.claim.Key()}
	}
}

// quit ends the wait in the line and returns why. If another caller has handed a lease to this one meanwhile,
// the acquisition goes on with the lease.
func (a *acquisition) quit(why noLock) noLock {
	if a.caller == nil {
		return why
	}
	role, g := a.caller.Leave()
	a.setRole(role, g)
	if role == line.Given {
		return noLock{}
	}
	return why
}

// lastLook asks the server once before the acquisition gives up. So far the acquisition knows only from this
// process, and not from the server, that the key is held. A reader and a caller for permits try to get a
// share of their own. For other callers,
// if the holder has lost the key, the line calls its next caller, which may be this acquisition. Otherwise
// the acquisition ends with ErrGaveUp.
func (a *acquisition) lastLook() noLock {
	l := a.lock
	if l.claim.IsShare() {
		if why := a.quit(noLock{err: ErrGaveUp}); why.none() {
			return why
		}
		a.tries.Blocker = attempt.Blocker{Key: l.claim.Key()}
		if share, _ := l.claim.Share(); share.Limit == 0 {
			a.enter(false, clock.Now())
		} else {
			a.role = line.Asks
		}
		return noLock{}
	}
	ctx, cancel := clock.Within(a.ctx, lookTimeout)
	defer cancel()
	l.attempts++
	a.tries.Outage.Ask()
	seen, _, err := l.locker.lookFor(ctx, &l.claim, l.locker.holder(l.claim.Key()))
	a.tries.Outage.Record(err)
	switch {
	case a.ctx.Err() != nil:
		return a.quit(waitEnded(clock.ContextError(a.ctx, nil)))
	case err == nil && seen.Held: // if the key is free, only the callers before this one are in the way
		a.tries.Blocker.Sees(seen.End)
	}
	if err == nil {
		if role, g := a.caller.Ready(); role != line.Waits {
			a.setRole(role, g)
			return noLock{}
		}
	}
	return a.quit(noLock{err: ErrGaveUp})
}

// await waits until the acquisition has a new role, or until end. end is no later than last, the end of the
// policy. After line.WatchAfter, await makes the Locker watch the lease of the holder. Waiters send nothing
// to the server, so only this watch notices the end of the lease.
func (a *acquisition) await(now, end, last clock.Instant) (role line.Role, g line.Grant, err error) {
	l := a.lock.locker
	look := now.After(lookPause)
	watch := now.After(line.WatchAfter)
	if a.left > 0 {
		watch = min(watch, now.After(a.left))
	}
	for {
		looks := !a.lock.claim.IsShare() && (l.monitor == nil || !l.listener.Heard())
		until := min(end, watch)
		if looks {
			until = min(until, look)
		}
		role, g, err = a.caller.Await(a.ctx, now, until, l.underway.Stopped(), nil)
		if err != nil || role != line.Waits {
			return role, g, err
		}
		now = clock.Now()
		if now >= watch {
			watch = clock.Never
			leaseOf(a.caller.Watch()).watchIfLive()
		}
		if looks && now >= min(look, end) && now < last { // lastLook asks at the end of the policy
			look = now.After(lookPause)
			if role, g, err = a.look(now, end, last); err != nil || role != line.Waits {
				return role, g, err
			}
			now = clock.Now()
		}
		if now >= end {
			return line.Waits, g, nil
		}
	}
}

// lookPause is how often a waiting caller asks the server about the lease before it, if the server does not
// report changes. The caller asks whatever its policy is, because the callers behind it rely on that.
const lookPause = time.Second

// look asks the server about the lease of the holder in the background, and meanwhile waits like await. It
// does not block on the answer: the line may give the acquisition a new role first, and the server may be
// silent. At the end of a pause, look waits for the answer for lookTimeout at most, and not beyond the end of
// the policy.
func (a *acquisition) look(now, end, last clock.Instant) (role line.Role, g line.Grant, err error) {
	l := a.lock.locker
	limit := min(now.After(lookTimeout), last)
	if now < end {
		limit = min(limit, end)
	}
	s := leaseOf(a.caller.Behind())
	if s == nil || s.renewed() { // its extensions notice the loss
		return line.Waits, g, nil
	}
	// ctx does not derive its end from the caller's context. So cancel calls no method of that context, which
	// may panic. cancel runs after another caller may have handed over the lease.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ctx), limit.From(now))
	defer cancel()
	var cause any // of a panic of the client or of an observer; nil: none
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		// If lookFor panics, the waiter panics in its own goroutine below, as if it had asked itself. If the
		// waiter has not waited for the answer, nothing panics. Its call may have returned, and this
		// goroutine must not end the program.
		defer func() { cause = recover() }()
		_, _, _ = l.lookFor(ctx, &s.claim, s)
	}()
	role, g, err = a.caller.Await(a.ctx, now, limit, l.underway.Stopped(), answered)
	if err != nil || role != line.Waits {
		return role, g, err
	}
	select {
	case <-answered:
		if cause != nil {
			panic(cause)
		}
	default:
	}
	return line.Waits, g, nil
}

// receive handles a lease that another caller of this process has handed over, or shares. If has is true, the
// acquisition is complete, and it has the lock if why is none. If has is false and why is none, the
// acquisition next asks the server. If has is false and why is set, the acquisition ends.
func (a *acquisition) receive() (has bool, why noLock) {
	from := leaseOf(a.given.Lease)
	switch {
	case a.given.Do == line.GoOn:
		return true, a.goOn(from)
	case a.ctx.Err() != nil:
		a.passBy()
		return false, noLock{ErrGaveUp, clock.ContextError(a.ctx, nil)}
	case a.lock.locker.isStopping():
		a.passBy()
		return false, noLock{err: ErrClosed}
	case a.given.Do == line.HandOver:
		return a.handOver(from)
	}
	return a.passOn(from)
}

// goOn begins to hold a lease.
func (a *acquisition) goOn(s *lease) noLock {
	l, g := a.lock, a.given
	l.lease = s
	how := arrival{kind: EventAcquired, start: a.start, handedOver: true, goesOn: true, watch: g.Watch}
	deadline := s.terms.Deadline()
	if g.Ask != 0 {
		askMeanwhile(s, g, l.set)
	}
	if err := l.hold(deadline, g.Fence, how); err != nil {
		l.lease = &l.own
		a.passBy()
		return a.notHeld(err, deadline)
	}
	a.given = line.Grant{}
	return noLock{}
}

// passBy is for a lease that the acquisition was given and does not hold. It hands the lease to the next
// caller of this process, or gives it back.
func (a *acquisition) passBy() {
	s := leaseOf(a.given.Lease)
	if s == nil {
		return
	}
	as := a.tries.Want
	as.Own = as.Own || a.given.Do != line.GoOn // the lease may have the properties of another request
	a.given = line.Grant{}
	s.leave(as)
}

// askMeanwhile asks the server whether another process waits, and reserves fences, while callers of this
// process go on with the lease. If the key has another token by then, the next hand-over learns that from the
// server.
func askMeanwhile(s *lease, g line.Grant, set *settings) {
	q := s.handle().Question(g.Ask)
	l, key, token := s.locker, s.claim.Key(), s.terms.Token()
	go func() {
		defer func() {
			_ = recover() // ignored, because a hook that panics here panics again in the next hand-over
			q.Unheard()
		}()
		said, err := l.wire.AskHeld(l.background, key, token, !set.unfenced, g.Reserve)
		if err == nil && said.Over {
			q.Heard(said.Fence, said.Reserved, said.Waits, said.Sent)
		}
	}()
}

// handOver lets the server move the key of a lease to the lease of this acquisition.
func (a *acquisition) handOver(from *lease) (has bool, why noLock) {
	l := a.lock
	a.tries.Outage.Ask()
	h, err := a.tries.HandOver(a.ctx, &from.claim, from.terms.Token(), a.given.Reserve)
	a.tries.Outage.Record(err)
	if !h.Over {
		a.asksInPlaceOf(from)
		from.giveBack()
		return false, noLock{}
	}
	l.own.handle().HandedOver(from.handle(), h.Fence, h.Reserved, h.Waits, h.Sent)
	a.gone(from)
	grant := attempt.Grant{Deadline: clock.LeaseEnd(h.Sent, l.terms.TTL()), Fence: h.Fence}
	return true, a.hold(grant, true)
}

// passOn gives the key of a lease to the process that has waited longest, and takes the last place in the
// queue.
func (a *acquisition) passOn(from *lease) (has bool, why noLock) {
	l, server := a.lock, a.lock.locker.wire
	if !server.Queues().Used() {
		err := a.tries.Yield(a.ctx, &from.claim, from.terms.Token(), a.given.Met, l.locker.underway.Stopped())
		a.asksInPlaceOf(from)
		a.gone(from)
		if err != nil {
			return false, waitEnded(err)
		}
		return false, noLock{}
	}
	freed, has, grant := a.tries.PassOn(a.ctx, &from.claim, from.terms.Token())
	a.asksInPlaceOf(from)
	if !freed {
		from.giveBack()
		return false, noLock{}
	}
	a.gone(from)
	if has {
		return true, a.hold(grant, true)
	}
	return false, noLock{}
}

// asksInPlaceOf makes the acquisition ask the server, because the key of a lease goes to another process, or
// back to the server.
func (a *acquisition) asksInPlaceOf(from *lease) {
	a.lock.own.handle().PassedOn(from.handle(), clock.Now())
	a.setRole(line.Asks, line.Grant{})
}

// gone notes that the key of a lease has another token.
func (a *acquisition) gone(from *lease) {
	a.given = line.Grant{}
	from.mu.Lock()
	defer from.unlock()
	from.retire(leaseBack)
	from.tokenOver(false)
}
