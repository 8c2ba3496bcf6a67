package line_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/line"
)

// served is what the first who waits is told when the holder is done.
func served(t *testing.T, holder *lease, e line.Event, next line.Entered) line.Grant {
	t.Helper()
	back, _ := line.Handle{Lease: holder}.Done(e)
	require.False(t, back)
	role, g := next.Caller.Ready()
	require.Equal(t, line.Given, role)
	return g
}

// comes has a caller come for the whole lock.
func comes(ls *line.Lines, want line.Want, now clock.Instant) (*lease, line.Entered) {
	own := &lease{deadline: clock.LeaseEnd(now, walkTTL)}
	return own, ls.Enter(&line.Kind{Key: "k"}, own, &want, true, 1, now)
}

// Permits go to the next caller within their turn, while they may, and to the server after it.
func TestTurnOfPermits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		after        time.Duration
		sealed, goes bool
	}{
		"in the turn":            {after: turn - 1, goes: true},
		"at the end of it":       {after: turn},
		"somebody has the token": {after: 1, sealed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ls, now := line.New(turn), clock.Now()
			kind := line.Kind{Key: "k", Mode: line.Permits, Limit: 2, Permits: 1, TTL: walkTTL}
			first, _ := enter(ls, kind, now)
			granted(first, walkTTL, now)
			asks, _ := enter(ls, kind, now)
			line.Handle{Lease: asks}.Told(time.Second, now)
			_, waits := enter(ls, kind, now)
			require.Equal(t, line.Waits, waits.Role)
			back, _ := line.Handle{Lease: first}.Done(line.Event{
				Now: now.After(test.after), Want: line.Want{TTL: walkTTL}, Sealed: test.sealed,
			})
			require.Equal(t, test.goes, !back)
			require.Equal(t, test.goes, waits.Caller.Peek() == line.Given)
		})
	}
}

// Permits that the server grants at once may not be the last, so two who wait ask.
func TestPermitsThatAreFree(t *testing.T) {
	t.Parallel()
	ls, now := line.New(turn), clock.Now()
	kind := line.Kind{Key: "k", Mode: line.Permits, Limit: 4, Permits: 1, TTL: walkTTL}
	var asks []*lease
	for range 4 {
		own, in := enter(ls, kind, now)
		require.Equal(t, line.Asks, in.Role)
		asks = append(asks, own)
	}
	var wait []line.Entered
	for range 3 {
		_, in := enter(ls, kind, now)
		wait = append(wait, in)
	}
	granted(asks[0], walkTTL, now)
	for i, role := range []line.Role{line.Asks, line.Asks, line.Waits} {
		require.Equal(t, role, wait[i].Caller.Peek())
	}
}

// A lease whose token somebody has goes on by a command. The fences that this reserves are larger than its
// own, and none that was reserved before is used any more.
func TestFencesOfAHandOver(t *testing.T) {
	t.Parallel()
	ls, now := line.New(time.Hour), clock.Now()
	want := line.Want{TTL: walkTTL, Fenced: true}
	come := func() (*lease, line.Entered) { return comes(ls, want, now) }
	first, _ := come()
	granted(first, walkTTL, now)
	second, in := come()
	g := served(t, first, line.Event{Now: now, Want: want}, in)
	require.Equal(t, line.HandOver, g.Do, "it needs a fence")
	line.Handle{Lease: second}.HandedOver(line.Handle{Lease: first}, 99, 3, 0, now)

	third, in := come()
	g = served(t, second, line.Event{Now: now, Want: want, Sealed: true}, in)
	require.Equal(t, line.HandOver, g.Do, "somebody has the token")
	line.Handle{Lease: third}.HandedOver(line.Handle{Lease: second}, 101, 6, 0, now)
	_, in = come()
	g = served(t, third, line.Event{Now: now, Want: want}, in)
	require.Equal(t, line.GoOn, g.Do)
	require.EqualValues(t, 102, g.Fence)
}

// The turn of a lease that nobody waited for begins with the first who waits, so the server is not asked
// about others before its time is over.
func TestTurnBeginsWithTheFirstWhoWaits(t *testing.T) {
	t.Parallel()
	for after, asks := range map[time.Duration]bool{0: false, turn - 1: false, turn: true} {
		ls, now := line.New(turn), clock.Now()
		want := line.Want{TTL: walkTTL}
		first, _ := comes(ls, want, now)
		granted(first, walkTTL, now)
		now = now.After(time.Second)
		_, in := comes(ls, want, now)
		now = now.After(after)
		first.deadline = clock.LeaseEnd(now, walkTTL)
		g := served(t, first, line.Event{Now: now, Want: want}, in)
		require.Equal(t, line.GoOn, g.Do)
		require.Equal(t, asks, g.Ask != 0, after)
	}
}

// The answer to a question of a turn that is over says nothing about a later one.
func TestAnswerToAnOldQuestion(t *testing.T) {
	t.Parallel()
	ls, now := line.New(turn), clock.Now()
	want := line.Want{TTL: walkTTL}
	come := func() (*lease, line.Entered) { return comes(ls, want, now) }
	first, _ := come()
	granted(first, walkTTL, now)
	_, in := come()
	now = now.After(turn)
	first.deadline = clock.LeaseEnd(now, walkTTL)
	g := served(t, first, line.Event{Now: now, Want: want}, in)
	require.NotZero(t, g.Ask, "once in a turn's time")
	old := line.Handle{Lease: first}.Question(g.Ask)

	third, in := come()
	line.Handle{Lease: first}.Ended() // and so does the turn
	role, _ := in.Caller.Ready()
	require.Equal(t, line.Asks, role)
	granted(third, walkTTL, now)
	_, in = come()
	now = now.After(turn)
	third.deadline = clock.LeaseEnd(now, walkTTL)
	g = served(t, third, line.Event{Now: now, Want: want}, in)
	require.NotZero(t, g.Ask)
	old.Heard(0, 0, time.Hour, now)
	_, in = come()
	g = served(t, third, line.Event{Now: now, Want: want}, in)
	require.Equal(t, line.GoOn, g.Do, "nobody is known to wait")
}
