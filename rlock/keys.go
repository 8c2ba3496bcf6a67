package rlock

import (
	"fmt"

	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// usable refuses a Lock that no acquisition has made.
func (l *Lock) usable() error {
	if l == nil || l.locker == nil {
		return &ArgumentError{"lock", "it is nil or the zero Lock; use one that an acquisition or Attach has returned"}
	}
	return nil
}

// usable refuses a Locker that neither New nor Open has made.
func (l *Locker) usable() error {
	if l == nil || l.client == nil {
		return &ArgumentError{"locker", "it is nil or the zero Locker; make one with New or Open"}
	}
	return nil
}

// redisKey returns the key as Redis has it.
func (s *settings) redisKey(key string) (string, error) {
	if key == "" {
		return "", &ArgumentError{"key", "it is empty"}
	}
	full := s.prefix + key
	if prefix, owner, yes := slot.Reserved(full); yes {
		return "", &ArgumentError{"key", fmt.Sprintf("names that start with %s belong to %s; choose another", prefix, owner)}
	}
	return full, nil
}

// redisKeys returns a set's keys as Redis has them, after checking that they can
// be one set.
func (l *Locker) redisKeys(s *settings, keys []string) ([]string, error) {
	if len(keys) == 0 {
		return nil, &ArgumentError{"keys", "there are none; name at least one"}
	}
	full, err := s.distinctKeys(keys)
	if err != nil {
		return nil, err
	}
	if l.cluster && !s.crossSlot {
		first := slot.Of(full[0])
		for _, key := range full[1:] {
			if other := slot.Of(key); other != first {
				return nil, &CrossSlotError{Keys: [2]string{full[0], key}, Slots: [2]uint16{first, other}}
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
			return nil, &DuplicateKeyError{Key: full[i]}
		}
		seen[key] = struct{}{}
	}
	return full, nil
}
