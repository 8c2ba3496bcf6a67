package line_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/line"
)

const turn = 10 * time.Millisecond

// enter has a caller come who waits if it has to.
func enter(ls *line.Lines, kind line.Kind, now clock.Instant) (*lease, line.Entered) {
	own := &lease{}
	return own, ls.Enter(&kind, own, &line.Want{TTL: kind.TTL, Owner: kind.Owner}, true, 1, now)
}

// granted has the server grant what a caller asks for.
func granted(own *lease, ttl time.Duration, now clock.Instant) {
	own.deadline = clock.LeaseEnd(now, ttl)
	line.Handle{Lease: own}.Granted(false, now)
}

// New readers do not share a lease that somebody else may wait for, or of which much is over.
func TestNobodySharesForLong(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		ttl    time.Duration
		after  time.Duration
		shares bool
	}{
		"in its turn":           {walkTTL, turn - 1, true},
		"at the end of it":      {walkTTL, turn, false},
		"a short lease":         {100 * time.Millisecond, time.Millisecond, true},
		"a short lease, later":  {100 * time.Millisecond, 2 * time.Millisecond, false},
		"without an end":        {clock.NoExpiry, turn - 1, true},
		"without an end, later": {clock.NoExpiry, turn, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ls, now := line.New(turn), clock.Now()
			kind := line.Kind{Key: "k", Mode: line.Readers, TTL: test.ttl}
			own, in := enter(ls, kind, now)
			require.Equal(t, line.Asks, in.Role)
			granted(own, test.ttl, now)
			_, in = enter(ls, kind, now.After(test.after))
			require.Equal(t, test.shares, in.Role == line.Given)
			require.Equal(t, test.shares, in.Grant.Lease == line.Leased(own))
			kind.Owner = "ann"
			_, in = enter(ls, kind, now)
			require.Equal(t, line.Asks, in.Role, "another owner")
		})
	}
}

// When the caller who asks gives up, the first of those behind asks, with the score of the place that was
// left.
func TestTheNextAsks(t *testing.T) {
	t.Parallel()
	for name, kind := range map[string]line.Kind{
		"whole":   {Key: "k", TTL: walkTTL},
		"readers": {Key: "k", Mode: line.Readers, TTL: walkTTL},
		"permits": {Key: "k", Mode: line.Permits, Limit: 2, Permits: 1, TTL: walkTTL},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ls, now := line.New(turn), clock.Now()
			first, in := enter(ls, kind, now)
			require.Equal(t, line.Asks, in.Role)
			line.Handle{Lease: first}.Told(time.Second, now)
			second, in := enter(ls, kind, now)
			require.Equal(t, line.Waits, in.Role)
			_, third := enter(ls, kind, now)
			require.Equal(t, line.Waits, third.Role)
			line.Handle{Lease: first}.LeaveScore(7)
			line.Handle{Lease: first}.Failed()
			role, _ := in.Caller.Ready()
			require.Equal(t, line.Asks, role)
			require.Equal(t, line.Waits, third.Caller.Peek())
			require.EqualValues(t, 7, line.Handle{Lease: second}.Score())
		})
	}
}

// A lease that was lost while its key was about to go to another caller keeps the others from asking until
// that one says what has become of it: else the process would stand twice in the queue of the server.
func TestLostWhileItsKeyMoves(t *testing.T) {
	t.Parallel()
	ls, now := line.New(0), clock.Now()
	kind := line.Kind{Key: "k"}
	first, _ := enter(ls, kind, now)
	granted(first, walkTTL, now)
	second, in := enter(ls, kind, now)
	_, third := enter(ls, kind, now)
	back, _ := line.Handle{Lease: first}.Done(line.Event{Now: now, Want: line.Want{TTL: walkTTL}})
	require.False(t, back)
	role, g := in.Caller.Ready()
	require.Equal(t, line.Given, role)
	require.Equal(t, line.PassOn, g.Do, "there are no turns")
	line.Handle{Lease: first}.Ended()
	require.Equal(t, line.Waits, third.Caller.Peek())
	line.Handle{Lease: second}.PassedOn(line.Handle{Lease: first}, now)
	require.Equal(t, line.Waits, third.Caller.Peek())
	line.Handle{Lease: second}.Failed()
	require.Equal(t, line.Asks, third.Caller.Peek())
}
