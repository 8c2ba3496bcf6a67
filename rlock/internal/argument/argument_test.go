package argument_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/argument"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// A lease is a whole number of milliseconds, or does not end.
func TestTTL(t *testing.T) {
	t.Parallel()
	for _, ttl := range []time.Duration{time.Millisecond, time.Hour, clock.NoExpiry} {
		require.Nil(t, argument.TTL(ttl), ttl)
	}
	for ttl, reason := range map[time.Duration]string{
		-time.Second:                  "below 1ms",
		0:                             "below 1ms",
		time.Millisecond - 1:          "below 1ms",
		time.Second + 1:               "whole number of milliseconds",
		clock.NoExpiry - 1:            "whole number of milliseconds",
		100 * time.Microsecond * 1015: "whole number of milliseconds",
	} {
		wrong := argument.TTL(ttl)
		require.NotNil(t, wrong, ttl)
		require.Equal(t, "TTL", wrong.Argument)
		require.Contains(t, wrong.Reason, reason, ttl)
	}
}

// A set has keys of which each stands there once, and in one slot where that is wanted.
func TestSet(t *testing.T) {
	t.Parallel()
	type wrong = argument.Wrong
	for name, c := range map[string]struct {
		prefix string
		keys   []string
		spread bool
		full   []string
		wrong  *wrong
	}{
		"one":           {keys: []string{"a"}, full: []string{"a"}},
		"with a prefix": {prefix: "x:", keys: []string{"b{1}", "a{1}"}, full: []string{"x:b{1}", "x:a{1}"}},
		"several slots": {keys: []string{"a", "b"}, spread: true, full: []string{"a", "b"}},
		"none":          {wrong: &wrong{"keys", "there are none; name at least one", argument.Invalid}},
		"an empty key": {prefix: "x:", keys: []string{"a", ""},
			wrong: &wrong{"key", "it is empty (number 2 of the list)", argument.Invalid}},
		"twice": {prefix: "x:", keys: []string{"a", "a"},
			wrong: &wrong{"keys", `"x:a" stands twice in the list; name every key once`, argument.Duplicate}},
		"not in a slot": {keys: []string{"a", "b"},
			wrong: &wrong{"keys",
				`"a" (slot 15495) and "b" (slot 3300) are in different slots of the cluster; give them the same {hash tag}, or see WithCrossSlot`, argument.CrossSlot}},
		"a reserved key": {prefix: "rlock:", keys: []string{"fence:{x}"},
			wrong: &wrong{"key", "names that start with rlock:fence:{ belong to fence counters; choose another " +
				"(number 1 of the list)", argument.Invalid}},
	} {
		full, got := argument.Set(c.prefix, c.keys, !c.spread)
		require.Equal(t, c.wrong, got, name)
		require.Equal(t, c.full, full, name)
	}
}
