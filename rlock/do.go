package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Do runs fn while it holds the lock of key, which it acquires like Acquire,
// extends until fn returns (unless WithAutoExtend says otherwise) and always
// releases, also when fn panics.
//
// fn's context is derived from ctx. It ends as well when the lock is lost or its
// lease ends; context.Cause says why. fn should then stop: somebody else may hold
// the lock. An fn that cannot stop in time needs the fence.
//
// Do returns fn's error. If the lock was lost meanwhile or could not be released,
// it returns that error too, unless fn's says the same: a nil from Do means that fn had the lock from
// beginning to end, unless somebody released it by hand meanwhile. If ctx has ended before
// the lock is granted, fn is not called and the error is ErrGaveUp.
func (l *Locker) Do(ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error, opts ...Option) error {
	if fn == nil {
		return &ArgumentError{"fn", "it is nil"}
	}
	start := clock.Now()
	lock, err := l.acquire(ctx, key, opts, wanted{wait: true, do: true})
	if err != nil {
		return err
	}
	return lock.do(ctx, start, fn)
}

// DoAll is Do for a set of keys, which it acquires like AcquireAll.
func (l *Locker) DoAll(ctx context.Context, keys []string, fn func(ctx context.Context, lock *Lock) error, opts ...Option) error {
	if fn == nil {
		return &ArgumentError{"fn", "it is nil"}
	}
	start := clock.Now()
	lock, err := l.acquireAll(ctx, keys, opts, wanted{wait: true, do: true})
	if err != nil {
		return err
	}
	return lock.do(ctx, start, fn)
}

// saysSo reports whether err tells already why a lock has ended.
func saysSo(err, why error) bool {
	for _, end := range []error{ErrLost, ErrExpired, ErrDetached, ErrClosed} {
		if errors.Is(err, end) && errors.Is(why, end) {
			return true
		}
	}
	return false
}

func (l *Lock) do(ctx context.Context, start clock.Instant, fn func(ctx context.Context, lock *Lock) error) (err error) {
	defer func() {
		released := l.Release(ctx)
		switch {
		case released == nil || errors.Is(released, ErrReleased): // by fn itself
		case err == nil:
			err = released
		case saysSo(err, released):
		default:
			err = fmt.Errorf("%w; %w", err, released)
		}
	}()
	if ctx.Err() != nil { // perhaps before the lock was granted
		return &AcquireError{
			Key: l.key[0], Attempts: l.Attempts(), Waited: time.Duration(clock.Now() - start), Err: ErrGaveUp, Cause: clock.ContextError(ctx, nil),
		}
	}
	return fn(l.Context(), l)
}
