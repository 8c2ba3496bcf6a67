package rlock

import (
	"fmt"

	"github.com/rlock-go/toolkit/gen"
)

// redisKey returns the key as Redis has it.
func (s *settings) redisKey(key string) (string, error) {
	if key == "" {
		return "", &ArgumentError{"key", "it is empty"}
	}
	return s.prefix + key, nil
}

// redisKeys returns a set's keys as Redis has them, after checking that they can
// be one set.
func (l *Locker) redisKeys(s *settings, keys []string) ([]string, error) {
	if len(keys) == 0 {
		return nil, &ArgumentError{"keys", "there are none; name at least one"}
	}
	full := make([]string, len(keys))
	seen := make(map[string]struct{}, len(keys))
	for i, key := range keys {
		if key == "" {
			return nil, &ArgumentError{"keys", fmt.Sprintf("number %d is empty", i+1)}
		}
		full[i] = s.prefix + key
		if _, twice := seen[key]; twice {
			return nil, &DuplicateKeyError{Key: full[i]}
		}
		seen[key] = struct{}{}
	}
	if l.cluster {
		first := gen.Slot(full[0])
		for _, key := range full[1:] {
			if slot := gen.Slot(key); slot != first {
				return nil, &CrossSlotError{Keys: [2]string{full[0], key}, Slots: [2]uint16{first, slot}}
			}
		}
	}
	return full, nil
}
