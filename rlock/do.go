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
// Do returns fn's error. If the lock was lost meanwhile or could not be released, it returns
// that error too, unless fn's error says the same. So nil means that fn held the lock from
// beginning to end, unless fn or somebody else called Release. If ctx has ended before the
// lock is granted, fn is not called and the error is ErrGaveUp.
func (l *Locker) Do(ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error, opts ...Option) error {
	_, err := l.do(ctx, fn, func(want wanted) (*Lock, error) { return l.acquire(ctx, key, opts, want) }, true)
	return err
}

// DoValue is Do for a function that makes a value. It returns what fn has returned, also with an
// error: if err matches ErrNotHeld, fn has made the value, but did not hold the lock all the time.
// If fn was not called, the value is the zero value.
//
// It is a function because methods of Go have no type parameters.
func DoValue[T any](ctx context.Context, l *Locker, key string, fn func(ctx context.Context, lock *Lock) (T, error), opts ...Option) (value T, err error) {
	if fn == nil {
		return value, invalid("fn", "it is nil; pass the function that is to run with the lock")
	}
	err = l.Do(ctx, key, func(ctx context.Context, lock *Lock) (err error) {
		value, err = fn(ctx, lock)
		return err
	}, opts...)
	return value, err
}

// DoAll is Do for a set of keys, which it acquires like AcquireAll.
func (l *Locker) DoAll(ctx context.Context, keys []string, fn func(ctx context.Context, lock *Lock) error, opts ...Option) error {
	_, err := l.do(ctx, fn, func(want wanted) (*Lock, error) { return l.acquireAll(ctx, keys, opts, want) }, true)
	return err
}

// TryDo runs fn as Do does, but only if nobody holds the lock of key: it does not wait.
// ran reports whether fn was called. If somebody else holds the lock, ran is false and
// err is nil, since that is no failure:
//
//	ran, err := locker.TryDo(ctx, "cleanup", cleanUp)
//	switch {
//	case err != nil:
//		return err // of cleanUp, of the server, or about the lock
//	case !ran:
//		log.Print("another process is cleaning up")
//	}
//
// Any other error of TryAcquire is returned with ran false: among them ErrAlreadyHeld, if
// ctx is that of a holder of the key, because the caller itself stands in the way then.
// With ran true, err is what Do would return.
//
// TryDo keeps two runs from overlapping. It does not keep a second process from running
// fn after the first one has finished, as processes do whose clocks differ by more than
// fn takes. For a job that must run once in an hour, add WithAtLeast.
func (l *Locker) TryDo(ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error, opts ...Option) (ran bool, err error) {
	return l.do(ctx, fn, func(want wanted) (*Lock, error) { return l.acquire(ctx, key, opts, want) }, false)
}

// TryDoAll is TryDo for a set of keys, which it acquires like TryAcquireAll: fn is called
// only if nobody holds any of them.
func (l *Locker) TryDoAll(ctx context.Context, keys []string, fn func(ctx context.Context, lock *Lock) error, opts ...Option) (ran bool, err error) {
	return l.do(ctx, fn, func(want wanted) (*Lock, error) { return l.acquireAll(ctx, keys, opts, want) }, false)
}

// FromContext returns the lock that ctx belongs to: that of the Do, DoAll, TryDo or
// TryDoAll whose function got ctx, or of the Lock.Context that ctx is derived from. If
// there are several, it is the innermost. It reports false if there is none. The lock may
// have ended: see Lock.Err.
//
// With it, code that runs below Do can read the fence without a parameter for the lock.
func FromContext(ctx context.Context) (*Lock, bool) {
	if ctx == nil {
		return nil, false
	}
	holder, ok := ctx.Value(holderKey{}).(holderContext)
	return holder.lock, ok
}

// do runs fn under the lock that acquire takes. Without wait, a lock that another holds
// is no error.
func (l *Locker) do(ctx context.Context, fn func(ctx context.Context, lock *Lock) error, acquire func(wanted) (*Lock, error), wait bool) (ran bool, err error) {
	if fn == nil {
		return false, invalid("fn", "it is nil; pass the function that is to run with the lock")
	}
	start := clock.Now()
	lock, err := acquire(wanted{wait: wait, do: true})
	if refused, ok := err.(*AcquireError); ok && !wait && refused.Err == ErrHeld {
		return false, nil
	}
	if err != nil {
		return false, err
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

// do runs fn with the lock, which it releases, unless ctx has ended.
func (l *Lock) do(ctx context.Context, start clock.Instant, fn func(ctx context.Context, lock *Lock) error) (ran bool, err error) {
	defer func() {
		released := l.releaseDone(ctx)
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
		keepNobodyOut(l)
		return false, &AcquireError{
			Key: l.claim.Key(), Attempts: l.Attempts(), Waited: time.Duration(clock.Now() - start),
			Err:       failure(callWait, false, ErrGaveUp, clock.ContextError(ctx, nil)),
			contended: true, // if it made no attempt, the lock was handed over
		}
	}
	return true, fn(l.Context(), l)
}

// releaseDone is Release for do. If a method of ctx panics, the lock is released all the same,
// because nobody else may have a handle of it.
func (l *Lock) releaseDone(ctx context.Context) error {
	returned := false
	defer func() {
		if !returned {
			_ = l.Release(context.Background())
		}
	}()
	err := l.Release(ctx)
	returned = true
	return err
}
