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
// Release of a cancelled caller leaves nothing behind.
//
// It returns nil when the keys are free of this lock by its doing. ErrReleased
// means that it was released before; ErrLost or ErrExpired that keys were no
// longer this lock's, which are left as they are. With any other error the keys
// may stay until the lease ends; calling Release again is fine.
func (l *Lock) Release(ctx context.Context) error {
	if ctx == nil {
		return &ArgumentError{"ctx", "it is nil; use context.Background()"}
	}
	l.mu.Lock()
	if l.releasing {
		l.mu.Unlock()
		return &LockError{"release", l.keys[0], ErrReleased}
	}
	l.releasing = true
	l.expire()
	cause := l.finish(released)
	l.mu.Unlock()

	freed, err := l.free(ctx)

	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		l.releasing = false
		return &LockError{"release", l.keys[0], err}
	case freed < int64(len(l.keys)) && !l.unsure:
		if cause == released || cause == closed {
			cause = lost
		}
		return &LockError{"release", l.keys[0], cause}
	}
	return nil
}

// free runs the release script until its outcome is known.
func (l *Lock) free(ctx context.Context) (freed int64, err error) {
	try := func(ctx context.Context) (err error) {
		freed, err = l.locker.scripts.Release(ctx, l.locker.client, gen.ReleaseParams{Locks: l.keys, Token: l.token})
		if answerOf(err) == unknown {
			l.mu.Lock()
			l.unsure = true // this try may do the work, and the next one find nothing
			l.mu.Unlock()
		}
		return err
	}
	if ctx.Err() == nil {
		if err := try(ctx); answerOf(err) != unknown {
			return freed, err
		}
	}
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseLimit)
	defer cancel()
	err = repeat(detached, 2*tries, try)
	return freed, err
}
