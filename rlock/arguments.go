package rlock

import (
	"context"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// usable refuses a Lock that no acquisition has made.
func (l *Lock) usable() error {
	if l == nil || l.locker == nil {
		return invalid("lock", "it is nil or the zero Lock; use one that an acquisition or Attach has returned")
	}
	return nil
}

// usable refuses a Locker that neither New nor Open has made.
func (l *Locker) usable() error {
	if l == nil || l.client == nil {
		return invalid("locker", "it is nil or the zero Locker; make one with New or Open")
	}
	return nil
}

// checkContext refuses a nil context. One whose methods panic does so here, before anything
// has begun: in the midst of a call it would leave the client's connection unusable.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx", "it is nil; use context.Background()")
	}
	_, _ = ctx.Deadline()
	_, _ = ctx.Done(), ctx.Err()
	return nil
}

// begin checks what every call has and returns its settings.
func (l *Locker) begin(ctx context.Context, opts []Option) (*settings, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	return l.defaults.with(opts)
}

// begun checks the arguments of a call about a key and returns the Redis key. The call is
// told of as op.
func (l *Locker) begun(ctx context.Context, op, key string) (string, error) {
	if err := l.usable(); err != nil {
		return "", err
	}
	if err := checkContext(ctx); err != nil {
		return "", err
	}
	full, err := l.defaults.redisKey(key)
	if err == nil && l.isClosed() {
		err = &LockError{op, full, ErrClosed}
	}
	return full, err
}

// checkTTL refuses a TTL that no lease can have.
func checkTTL(ttl time.Duration) error {
	switch {
	case ttl == NoExpiry:
		return nil
	case ttl < time.Millisecond:
		return invalid("TTL", fmt.Sprintf("%v is below 1ms; for a lock that never expires say NoExpiry", ttl))
	case ttl%time.Millisecond != 0:
		return invalid("TTL", fmt.Sprintf("%v is not a whole number of milliseconds; truncate it", ttl))
	}
	return nil
}

// redisKey returns the key as Redis has it.
func (s *settings) redisKey(key string) (string, error) {
	if key == "" {
		return "", invalid("key", "it is empty")
	}
	full := s.prefix + key
	if prefix, owner, yes := slot.Reserved(full); yes {
		return "", invalid("key", fmt.Sprintf("names that start with %s belong to %s; choose another", prefix, owner))
	}
	return full, nil
}

// redisKeys returns a set's keys as Redis has them, after checking that they can
// be one set.
func (l *Locker) redisKeys(s *settings, keys []string) ([]string, error) {
	if len(keys) == 0 {
		return nil, invalid("keys", "there are none; name at least one")
	}
	full, err := s.distinctKeys(keys)
	if err != nil {
		return nil, err
	}
	if l.cluster && !s.crossSlot {
		first := slot.Of(full[0])
		for _, key := range full[1:] {
			if other := slot.Of(key); other != first {
				return nil, &ArgumentError{"keys", fmt.Sprintf("%s (slot %d) and %s (slot %d) are in different slots of the cluster; give them the same {hash tag}, or see WithCrossSlot",
					quoteKey(full[0]), first, quoteKey(key), other), ErrCrossSlot}
			}
		}
	}
	return full, nil
}

// distinctKeys returns keys as Redis has them, after checking that each stands
// there once.
func (s *settings) distinctKeys(keys []string) ([]string, error) {
	full := make([]string, len(keys))
	seen := make(map[string]struct{}, len(keys))
	for i, key := range keys {
		var err error
		if full[i], err = s.redisKey(key); err != nil {
			return nil, fmt.Errorf("%w (number %d of the list)", err, i+1)
		}
		if _, twice := seen[key]; twice {
			return nil, &ArgumentError{"keys", quoteKey(full[i]) + " stands twice in the list; name every key once", ErrDuplicateKey}
		}
		seen[key] = struct{}{}
	}
	return full, nil
}
