package clock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// A Silence lasts from the first question to the next answer, and knows of an answer for good.
func TestSilence(t *testing.T) {
	t.Parallel()
	begin := clock.Now()
	at := func(n time.Duration) clock.Instant { return begin.After(n) }
	state := func(s *clock.Silence) (time.Duration, bool) { return s.Lasts(at(10)), s.Answered() }
	is := func(s *clock.Silence, lasts time.Duration, answered bool) {
		t.Helper()
		l, a := state(s)
		require.Equal(t, lasts, l)
		require.Equal(t, answered, a)
	}

	var s clock.Silence
	is(&s, 0, false)
	s.Begin(at(3))
	s.Begin(at(5))
	is(&s, 7, false)
	s.End()
	is(&s, 0, true)
	s.Begin(at(6))
	s.Begin(at(7))
	is(&s, 4, true)
	s.Begin(at(10))
	require.EqualValues(t, 4, s.Lasts(at(10)))
	require.EqualValues(t, 1, s.Lasts(at(6)), "there is one, however short")

	s.Leave()
	is(&s, 0, true)
	var left clock.Silence
	left.Begin(at(3))
	left.Leave()
	is(&left, 0, false)
	require.True(t, left.Begin(at(4)))
	require.False(t, left.Begin(at(5)))

	// Who inherits waits for the same.
	var none, asks, had, again clock.Silence
	asks.Begin(at(2))
	had.End()
	again.End()
	again.Begin(at(4))
	for name, c := range map[string]struct {
		own, from *clock.Silence
		lasts     time.Duration
		answered  bool
	}{
		"nothing from nothing":        {&none, &none, 0, false},
		"a question":                  {&none, &asks, 8, false},
		"an answer":                   {&none, &had, 0, true},
		"both":                        {&none, &again, 6, true},
		"its own question":            {&asks, &again, 8, false},
		"a question after an answer":  {&had, &asks, 8, true},
		"both after an answer":        {&had, &again, 6, true},
		"its own question and answer": {&again, &asks, 6, true},
		"no answer after an answer":   {&had, &none, 0, true},
	} {
		t.Run(name, func(t *testing.T) {
			var own clock.Silence
			own.Inherit(c.own)
			own.Inherit(c.from)
			is(&own, c.lasts, c.answered)
		})
	}
}
