package rlock

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/gen"
)

// releaseLimit bounds how long Release goes on after its context has ended or a
// reply was lost.
const releaseLimit = 2 * time.Second

// Release gives the lock up. The Context ends before the keys are freed. It does
// its work even if ctx has ended, within 2 seconds then, so that a deferred
// Release of a cancelled caller leaves nothing behind. Where the network has gone
// silent, the client's own time-outs come first if ctx has no end.
//
// It returns nil when the keys are free of this lock by its doing. ErrReleased
// means that it was released before, ErrDetached that it was let go of; ErrLost or
// ErrExpired that keys were no longer this lock's, which are left as they are. With any other error the keys
// may stay until the lease ends; calling Release again is fine.
func (l *Lock) Release(ctx context.Context) error {
	if ctx == nil {
		return &ArgumentError{"ctx", "it is nil; use context.Background()"}
	}
	l.freeing.Lock()
	defer l.freeing.Unlock()
	cause, err := l.startRelease()
	if err != nil {
		return err
	}
	freed, err := l.free(ctx)
	err = l.settleRelease(cause, freed, err)
	l.locker.unnote(ctx, l)
	return err
}

// startRelease ends the lock and returns why it ended, or why it has no keys to
// free. The caller holds freeing.
func (l *Lock) startRelease() (*reason, error) {
	if l.freed {
		return nil, &LockError{"release", l.keys[0], ErrReleased}
	}
	l.mu.Lock()
	l.expire()
	cause := l.finish(released)
	l.mu.Unlock()
	if cause == detached { // the keys are another handle's now
		return nil, &LockError{"release", l.keys[0], cause}
	}
	return cause, nil
}

// settleRelease takes the answer of the release script: how many keys it freed.
// The caller holds freeing.
func (l *Lock) settleRelease(cause *reason, freed int64, err error) error {
	if l.queued {
		l.locker.queues.leave(l)
	}
	if err != nil {
		return &LockError{"release", l.keys[0], err}
	}
	l.freed = true
	if l.late > 0 {
		// An attempt of the acquisition got no answer. It may still arrive, find the
		// keys free, and take them.
		l.abandon(NoExpiry, l.late+1)
	}
	switch {
	case freed == int64(len(l.keys)):
		return nil
	case freed == 0 && l.unsure && cause == released:
		return nil // an earlier try that got no answer did it
	case cause == released || cause == closed:
		cause = lost
	}
	return &LockError{"release", l.keys[0], cause}
}

// free runs the release script until its outcome is known. The caller holds
// freeing.
func (l *Lock) free(ctx context.Context) (freed int64, err error) {
	if l.groups() != nil {
		return l.freeGroups(ctx)
	}
	err = persist(ctx, func(ctx context.Context) (err error) {
		freed, err = l.locker.scripts.Release(ctx, l.locker.client, l.releaseParams())
		if answerOf(err) == unknown {
			l.unsure = true // this try may do the work, and the next one find nothing
		}
		return err
	})
	return freed, err
}

func (l *Lock) releaseParams() gen.ReleaseParams {
	return gen.ReleaseParams{Locks: l.keys, Token: l.token}
}

// persist calls try until its outcome is known: with ctx, and when that has ended
// or a reply was lost, for releaseLimit without it.
func persist(ctx context.Context, try func(context.Context) error) error {
	if ctx.Err() == nil {
		if err := try(ctx); answerOf(err) != unknown {
			return err
		}
	}
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	return repeat(detached, 2*tries, try)
}

// abandon has the keys freed in the background, where lost commands of this lock
// may have taken them or may still do so. With a token of the caller's it leaves
// them alone: another acquisition with that token may own them rightfully.
func (l *Lock) abandon(ttl time.Duration, lost int) {
	if l.ownToken {
		return
	}
	for _, keys := range l.parts() {
		l.locker.cleaner.add(keys, l.token, ttl, lost)
	}
}
