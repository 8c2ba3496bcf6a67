// Package argument says what is wrong with the arguments of a call: a key that no lock can have, a list of
// keys that cannot be one set, or a TTL that no lease can have.
//
// It does not know which call has the arguments, and asks no server.
package argument

import (
	"fmt"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
	"github.com/rlock-go/toolkit/rlock/internal/text"
)

// Wrong says what is wrong with an argument.
type Wrong struct {
	Argument string // its name
	Reason   string // what is wrong, and what would be right
	Kind     Kind
}

// Kind is the kind of a mistake.
type Kind uint8

const (
	Invalid   Kind = iota
	Duplicate      // a key is twice in a list
	CrossSlot      // the keys of a list are in several slots
)

// TTL refuses a TTL that no lease can have.
func TTL(ttl time.Duration) *Wrong {
	switch {
	case ttl == clock.NoExpiry:
		return nil
	case ttl < time.Millisecond:
		return &Wrong{Argument: "TTL",
			Reason: fmt.Sprintf("%v is below 1ms; for a lock that never expires say NoExpiry", ttl)}
	case ttl%time.Millisecond != 0:
		return &Wrong{Argument: "TTL",
			Reason: fmt.Sprintf("%v is not a whole number of milliseconds; truncate it", ttl)}
	}
	return nil
}

// Key returns a key as Redis has it, with the prefix.
func Key(prefix, key string) (string, *Wrong) {
	if key == "" {
		return "", &Wrong{Argument: "key", Reason: "it is empty"}
	}
	full := key
	if prefix != "" {
		full = prefix + key
	}
	if start, owner, yes := slot.Reserved(full); yes {
		return "", &Wrong{Argument: "key",
			Reason: fmt.Sprintf("names that start with %s belong to %s; choose another", start, owner)}
	}
	return full, nil
}

// fewKeys are faster to compare with each other than to look up.
const fewKeys = 16

// Distinct returns keys as Redis has them. It refuses a list that has a key twice.
func Distinct(prefix string, keys []string) ([]string, *Wrong) {
	full := make([]string, len(keys))
	var seen map[string]struct{}
	if len(keys) > fewKeys {
		seen = make(map[string]struct{}, len(keys))
	}
	for i, key := range keys {
		var wrong *Wrong
		if full[i], wrong = Key(prefix, key); wrong != nil {
			wrong.Reason += fmt.Sprintf(" (number %d of the list)", i+1)
			return nil, wrong
		}
		_, twice := seen[key]
		if twice || seen == nil && slices.Contains(keys[:i], key) {
			return nil, &Wrong{
				"keys", text.Quote(full[i]) + " stands twice in the list; name every key once", Duplicate,
			}
		}
		if seen != nil {
			seen[key] = struct{}{}
		}
	}
	return full, nil
}

// Set is Distinct for the keys of one set. With oneSlot, they must be in the same slot.
func Set(prefix string, keys []string, oneSlot bool) ([]string, *Wrong) {
	if len(keys) == 0 {
		return nil, &Wrong{Argument: "keys", Reason: "there are none; name at least one"}
	}
	full, wrong := Distinct(prefix, keys)
	if wrong != nil || !oneSlot {
		return full, wrong
	}
	first := slot.Of(full[0])
	for _, key := range full[1:] {
		if other := slot.Of(key); other != first {
			return nil, &Wrong{
				"keys", fmt.Sprintf(
					"%s (slot %d) and %s (slot %d) are in different slots of the cluster; "+
						"give them the same {hash tag}, or see WithCrossSlot",
					text.Quote(full[0]), first, text.Quote(key), other,
				), CrossSlot,
			}
		}
	}
	return full, nil
}
