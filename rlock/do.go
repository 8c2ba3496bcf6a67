package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Do runs fn while it holds the lock of key. It acquires the lock like Acquire, extends it until fn returns
// (unless WithAutoExtend says otherwise), and always releases it, also when fn panics.
//
// fn's context is derived from ctx, and ends when the lock does; context.Cause says why. fn must stop then,
// because somebody else may hold the lock. Where it cannot stop in time, use WithStopBefore or the fence.
//
// Do returns fn's error and, if the lock was lost or could not be released, that error too. So nil means
// that fn held the lock from beginning to end, unless somebody called Release, or took the key away
// unnoticed while fn ended (see Release). If ctx ends before the lock is granted, fn is not called, and the
// error matches ErrGaveUp.
func (l *Locker) Do(ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error,
	opts ...Option) error {
	_, err := l.do(ctx, fn, func(by method) (*Lock, error) { return l.acquire(ctx, key, opts, by) }, true)
	return err
}

// DoValue is Do for a function that makes a value. It returns the value also with an error that matches
// ErrNotHeld, which says that fn did not hold the lock all the time. An *AcquireError of this key says that
// fn was not called.
func DoValue[T any](ctx context.Context, l *Locker, key string,
	fn func(ctx context.Context, lock *Lock) (T, error), opts ...Option) (value T, err error) {
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
func (l *Locker) DoAll(ctx context.Context, keys []string, fn func(ctx context.Context, lock *Lock) error,
	opts ...Option) error {
	_, err := l.do(ctx, fn, func(by method) (*Lock, error) { return l.acquireAll(ctx, keys, opts, by) }, true)
	return err
}

// TryDo runs fn as Do does if nobody holds the lock of key, and otherwise does not wait: ran is then
// false and err nil.
//
//	ran, err := locker.TryDo(ctx, "cleanup", cleanUp)
//	switch {
//	case err != nil:
//		return err // of cleanUp, of the server, or about the lock
//	case !ran:
//		log.Print("another process is cleaning up")
//	}
//
// Any other error of TryAcquire is returned with ran false, such as ErrAlreadyHeld if ctx is that of a
// holder of the key. With ran true, err is what Do would return.
//
// TryDo keeps two runs from overlapping, not from following each other. For a job that must run once in
// a period, although the clocks of its machines differ, add WithMinHold.
func (l *Locker) TryDo(ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error,
	opts ...Option) (ran bool, err error) {
	return l.do(ctx, fn, func(by method) (*Lock, error) { return l.acquire(ctx, key, opts, by) }, false)
}

// TryDoAll is TryDo for a set of keys, which it acquires like TryAcquireAll: fn is called
// only if nobody holds any of them.
func (l *Locker) TryDoAll(ctx context.Context, keys []string, fn func(ctx context.Context, lock *Lock) error,
	opts ...Option) (ran bool, err error) {
	return l.do(ctx, fn, func(by method) (*Lock, error) { return l.acquireAll(ctx, keys, opts, by) }, false)
}

// FromContext returns the lock whose Context ctx is, or is derived from; of several, the innermost. It
// reports false if there is none. The lock may have ended: see Lock.Err.
func FromContext(ctx context.Context) (*Lock, bool) {
	if ctx == nil {
		return nil, false
	}
	holder, ok := ctx.Value(holderKey{}).(holderContext)
	return holder.lock, ok
}

// do runs fn under the lock that acquire takes. Without wait, a lock that another holds
// is no error.
func (l *Locker) do(
	ctx context.Context, fn func(ctx context.Context, lock *Lock) error,
	acquire func(method) (*Lock, error), wait bool,
) (ran bool, err error) {
	if fn == nil {
		return false, invalid("fn", "it is nil; pass the function that is to run with the lock")
	}
	if l.usable() == nil && l.underway.Enter() { // otherwise the acquisition fails
		defer l.underway.Leave()
	}
	start := clock.Now()
	lock, err := acquire(method{wait: wait, do: true})
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
func (l *Lock) do(ctx context.Context, start clock.Instant,
	fn func(ctx context.Context, lock *Lock) error) (ran bool, err error) {
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
		l.keepNobodyOut()
		return false, &AcquireError{
			Key: l.claim.Key(), Attempts: l.Attempts(), Waited: time.Duration(clock.Now() - start),
			Err:       failure(callWait, false, noLock{ErrGaveUp, clock.ContextError(ctx, nil)}),
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
			_ = l.Release(endedContext)
		}
	}()
	err := l.Release(ctx)
	returned = true
	return err
}
