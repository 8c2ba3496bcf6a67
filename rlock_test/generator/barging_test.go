package generator

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// In these tests a free lock stays free in the first half of each second of the server's clock. They run
// beside no others of the package, because all that is to be done in one half must be.
const barging = time.Second / 2

// at waits until the server's clock has so much of its second behind it. A test then has some
// hundred milliseconds for what it does in the half that has just begun.
func (l line) at(begins time.Duration) {
	l.Helper()
	env.Soon(l.T, func() bool {
		now, err := env.Do(l.T, l.client, "TIME").AsStrSlice()
		require.NoError(l, err)
		micros, err := strconv.Atoi(now[1])
		require.NoError(l, err)
		return time.Duration(micros)*time.Microsecond/(50*time.Millisecond) == begins/(50*time.Millisecond)
	}, "the server's clock comes there")
}

// open begins the half of a second in which a free lock stays free, and shut ends it.
func (l line) open() { l.Helper(); l.at(0) }
func (l line) shut() { l.Helper(); l.at(barging) }

// onBarging runs a test with a lock that p holds and for which q waits.
func onBarging(t *testing.T, test func(l line, heard <-chan string)) {
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		l := newLine(t, e.Start(t).Client(t))
		l.barging = barging
		heard := l.listen("q")
		require.True(t, l.join("p1").Granted)
		require.NotZero(t, l.join("q1").Score)
		test(l, heard)
	})
}

// In its time, a lock that is released is free, whoever waits. Nobody of the queue gets it, and whoever is in no
// queue does. After that time, the first in the queue has it as soon as anybody asks.
func TestReleaseLeavesALockFree(t *testing.T) {
	for name, release := range map[string]func(l line){
		"pass":    func(l line) { require.True(l, l.pass("p1", "").Freed) },
		"requeue": func(l line) { require.NotZero(l, l.pass("p1", "p2").Score) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBarging(t, func(l line, heard <-chan string) {
				l.open()
				release(l)
				beat := l.beat("q1")
				require.False(l, beat.Granted)
				require.NotZero(l, beat.Score)
				require.Positive(l, beat.Remaining)
				require.LessOrEqual(l, beat.Remaining, barging)
				require.False(l, l.try("p3").Granted, "a newcomer of rlock overtakes nobody")
				require.NoError(l, env.Do(l.T, l.client, "SET", contested, "stranger", "NX").Error())
				l.silent(heard, "q")
				require.NoError(l, env.Do(l.T, l.client, "DEL", contested).Error())

				l.shut()
				require.True(l, l.beat("q1").Granted)
			})
		})
	}
}

// In the other half of the second, and where no time is set, a release passes the lock on.
func TestReleasePassesALockOn(t *testing.T) {
	for name, prepare := range map[string]func(l *line){
		"later":        func(l *line) { l.shut() },
		"without time": func(l *line) { l.open(); l.barging = 0 },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onBarging(t, func(l line, heard <-chan string) {
				prepare(&l)
				require.True(l, l.pass("p1", "").Freed)
				l.told(heard, "q1", queueLease, 0)
				l.state("q1", queueLease)
			})
		})
	}
}

// The callers of one process would hand a lock over among themselves for ever. In its time, the server says that
// somebody waits, and the process that gives the lock up stands in the queue, although nobody else does.
func TestTurnEndsForThoseInNoQueue(t *testing.T) {
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		l := newLine(t, e.Start(t).Client(t))
		l.barging = barging
		waits := func(barging time.Duration) int64 {
			r, err := l.scripts.HandOver(l.Context(), l.client, gen.HandOverParams{Lock: contested, Queue: queued, Token: "p1", Next: "p1", TTL: queueLease, Fences: 1, Barging: barging})
			require.NoError(t, err)
			require.True(t, r.HandedOver)
			return r.Waits
		}
		require.True(t, l.join("p1").Granted)
		l.open()
		require.Positive(t, waits(barging))
		require.Zero(t, waits(0))
		again := l.pass("p1", "p2")
		require.True(t, again.Freed)
		require.False(t, again.Granted)
		require.NotZero(t, again.Score)
		require.Empty(t, env.Get(t, l.client, contested))

		l.shut()
		require.True(t, l.beat("p2").Granted)
	})
}

// In its time, a lock that is shared gets no new readers, so that it becomes free.
func TestSharedLockBecomesFree(t *testing.T) {
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		l := newLine(t, e.Start(t).Client(t))
		l.barging = barging
		ask := func(name string, how gen.WaitHow) gen.WaitResult {
			r, err := l.ask(share(0, name), how, 0)
			require.NoError(t, err)
			return r
		}
		release := func(name string) { require.True(t, l.pass(share(0, name), "").Freed) }
		l.shut()
		require.True(t, ask("a", gen.WaitHowJoin).Granted)
		require.True(t, ask("b", gen.WaitHowJoin).Granted)

		l.open()
		late := ask("c", gen.WaitHowJoin)
		require.False(t, late.Granted)
		require.NotZero(t, late.Score)
		require.LessOrEqual(t, late.Remaining, barging)
		require.True(t, ask("a", gen.WaitHowHeartbeat).Granted, "who has a share keeps it")
		release("a")
		require.False(t, ask("c", gen.WaitHowHeartbeat).Granted)
		release("b")
		require.False(t, ask("c", gen.WaitHowHeartbeat).Granted)
		require.Empty(t, env.Get(t, l.client, contested))

		l.shut()
		require.True(t, ask("c", gen.WaitHowHeartbeat).Granted)
	})
}
