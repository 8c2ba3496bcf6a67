package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Do runs fn while it holds the lock of key. It acquires the lock like Acquire, and always releases it, even
// if fn panics. Until fn returns, Do extends the lease, unless WithAutoExtend(false) is set.
//
// The context of fn derives from ctx and ends when the lock ends. context.Cause returns why. Then fn must
// stop, because another caller may hold the lock. If fn cannot stop in time, use WithStopBefore or the fence.
//
// Do returns the error of fn. If the lock was lost or could not be released, Do returns that error too. So
// nil means that fn held the lock from beginning to end. There are two exceptions: a caller called Release,
// or the key was taken away unnoticed while fn ended (see Release). If ctx ends before the grant, Do does not
// call fn, and the error matches ErrGaveUp.
func (l *Locker) Do(ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error,
	opts ...Option) error {
	_, err := l.do(ctx, fn, func(by method) (*Lock, error) { return l.acquire(ctx, key, opts, by) }, true)
	return err
}

// DoValue is Do for a function that returns a value. It returns the value even with an error that matches
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

// TryDo runs fn like Do, but does not wait. If another token holds the lock of key, or others wait for it,
// TryDo returns false and nil at once.
//
//	ran, err := locker.TryDo(ctx, "cleanup", cleanUp)
//	switch {
//	case err != nil:
//		return err // of cleanUp, of the server, or about the lock
//	case !ran:
//		log.Print("another process is cleaning up")
//	}
//
// TryDo returns false with any other error of TryAcquire, such as ErrAlreadyHeld if ctx is the context of a
// holder of the key. With ran true, err is the error that Do would return.
//
// TryDo keeps two runs from overlapping. It lets one run follow another. If a job must run once in a period
// although the clocks of its machines differ, add WithMinHold.
func (l *Locker) TryDo(ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error,
	opts ...Option) (ran bool, err error) {
	return l.do(ctx, fn, func(by method) (*Lock, error) { return l.acquire(ctx, key, opts, by) }, false)
}

// TryDoAll is TryDo for a set of keys, which it acquires like TryAcquireAll: it calls fn only if it gets all
// keys at once.
func (l *Locker) TryDoAll(ctx context.Context, keys []string, fn func(ctx context.Context, lock *Lock) error,
	opts ...Option) (ran bool, err error) {
	return l.do(ctx, fn, func(by method) (*Lock, error) { return l.acquireAll(ctx, keys, opts, by) }, false)
}

// FromContext returns the lock of ctx: ctx is the Context of this lock, or derives from it. If there are
// several such locks, it returns the innermost. It returns false if there is none. The lock may have ended:
// see Lock.Err.
func FromContext(ctx context.Context) (*Lock, bool) {
	if ctx == nil {
		return nil, false
	}
	holder, ok := ctx.Value(holderKey{}).(holderContext)
	return holder.lock, ok
}

// do runs fn under the lock that acquire takes. Without wait, a lock that another token holds is no error.
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

// saysSo reports whether err already says why a lock has ended.
func saysSo(err, why error) bool {
	for _, end := range []error{ErrLost, ErrExpired, ErrDetached, ErrClosed} {
		if errors.Is(err, end) && errors.Is(why, end) {
			return true
		}
	}
	return false
}

// do runs fn with the lock, unless ctx has ended, and releases the lock.
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

// releaseDone is Release for do. If a method of ctx panics, releaseDone releases the lock nevertheless,
// because no other code may have a handle.
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
