package rlock

import (
	"context"
	"fmt"

	"github.com/rlock-go/toolkit/rlock/internal/argument"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// usable refuses a Lock that did not come from an acquisition.
func (l *Lock) usable() error {
	if l == nil || l.lease == nil {
		return invalid("lock", "it is nil or the zero Lock; use one that an acquisition or Attach has returned")
	}
	return nil
}

// usable refuses a Locker that did not come from New, Open or NewWithBackend.
func (l *Locker) usable() error {
	if l == nil || l.wire == nil {
		return invalid("locker", "it is nil or the zero Locker; make one with New, Open or NewWithBackend")
	}
	return nil
}

// checkContext refuses a nil context. If the methods of a context panic, they panic here, before the call
// begins. In the middle of a call they would leave the client's connection unusable.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx", "it is nil; use context.Background()")
	}
	_, _ = ctx.Deadline()
	_, _ = ctx.Done(), ctx.Err()
	return nil
}

// checkCall refuses a Lock or Locker that is not usable, and a context that checkContext refuses.
func checkCall(ctx context.Context, of interface{ usable() error }) error {
	if err := of.usable(); err != nil {
		return err
	}
	return checkContext(ctx)
}

// begin checks the arguments that every call has, and returns the settings of the call.
func (l *Locker) begin(ctx context.Context, opts []Option) (*settings, error) {
	if err := checkCall(ctx, l); err != nil {
		return nil, err
	}
	set, err := l.defaults.with(opts)
	if err == nil && set.minHold > 0 {
		err = l.onRedis("WithMinHold")
	}
	if err != nil {
		return nil, err
	}
	return set, nil
}

// needsRedis refuses an argument that no Backend supports.
func needsRedis(argument string) error {
	return invalid(argument, "it needs Redis, and the Locker has a Backend; leave it out")
}

// onRedis refuses a call that needs Redis.
func (l *Locker) onRedis(call string) error {
	if l.wire.Backed() {
		return needsRedis(call)
	}
	return nil
}

// beginKey is begin for a call about one key, and returns the Redis key too.
func (l *Locker) beginKey(
	ctx context.Context, key string, opts []Option,
) (set *settings, full string, err error) {
	if set, err = l.begin(ctx, opts); err == nil {
		full, err = set.redisKey(key)
	}
	return set, full, err
}

// begun checks the arguments of the call op about a key, and returns the Redis key.
func (l *Locker) begun(ctx context.Context, op, key string) (string, error) {
	_, full, err := l.beginKey(ctx, key, nil)
	if err == nil && l.isClosed() {
		err = &LockError{op, full, ErrClosed}
	}
	return full, err
}

// asking is begun for a call that only asks. It refuses a context that has ended.
func (l *Locker) asking(ctx context.Context, op, key string) (string, error) {
	full, err := l.begun(ctx, op, key)
	if err == nil && ctx.Err() != nil {
		err = &LockError{op, full, clock.ContextError(ctx, nil)}
	}
	return full, err
}

// redisKeys returns the Redis keys of a set, after it has checked that they can be one set.
func (l *Locker) redisKeys(s *settings, keys []string) ([]string, error) {
	full, wrong := argument.Set(s.prefix, keys, l.cluster && !s.crossSlot)
	return full, refused(wrong)
}

// checkLocks returns an error for each lock that ReleaseEach and ExtendEach refuse, in the order of locks.
func (l *Locker) checkLocks(ctx context.Context, locks []*Lock) []error {
	errs := make([]error, len(locks))
	wrong := checkCall(ctx, l)
	seen := make(map[*Lock]struct{}, len(locks))
	for i, lock := range locks {
		_, twice := seen[lock]
		switch {
		case wrong != nil:
			errs[i] = wrong
		case lock.usable() != nil:
			errs[i] = invalid("locks", fmt.Sprintf("number %d is nil or the zero Lock; leave it out", i+1))
		case lock.locker != l:
			errs[i] = invalid("locks", fmt.Sprintf("number %d is of another Locker; give it to that one", i+1))
		case twice:
			errs[i] = invalid("locks", fmt.Sprintf("number %d stands in the list before; name every lock once", i+1))
		}
		seen[lock] = struct{}{}
	}
	return errs
}
