package generator

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// open has a free lock stay free for the whole of each second of the server's clock, and shut for the first
// millisecond of it: however slow the machine is, a test finds what it expects.
func (l *line) open() { l.barging = time.Second }
func (l *line) shut() {
	l.Helper()
	l.barging = time.Millisecond
	env.Soon(l.T, func() bool { return l.millisecond() >= 500 }, "the millisecond is over")
}

// millisecond is what the server's clock has of its second.
func (l line) millisecond() int {
	l.Helper()
	now, err := env.Do(l.T, l.client, "TIME").AsStrSlice()
	require.NoError(l, err)
	micros, err := strconv.Atoi(now[1])
	require.NoError(l, err)
	return micros / 1000
}

// A free lock stays free in the first part of each second.
func TestTimeOfBarging(t *testing.T) {
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		l := newLine(t, e.Start(t).Client(t))
		require.True(t, l.join("p1").Granted)
		for seen := map[bool]bool{}; len(seen) < 2; {
			before, waits, after := l.millisecond(), l.handOver(time.Second/2), l.millisecond()
			if first := before < 500; first == (after < 500) && before <= after {
				require.Equal(t, first, waits > 0, "between %d and %d ms", before, after)
				seen[first] = true
			}
		}
	})
}

// handOver hands p1's lock over to itself, and returns for how long somebody has waited.
func (l line) handOver(barging time.Duration) int64 {
	l.Helper()
	r, err := l.scripts.HandOver(l.Context(), l.client, gen.HandOverParams{
		Lock: contested, Queue: queued, Token: "p1", Next: "p1", TTL: l.clocked, Fences: 1, Barging: barging,
	})
	require.NoError(l, err)
	require.True(l, r.HandedOver)
	return r.Waits
}

// onBarging runs a test with a lock that p holds and for which q waits.
func onBarging(t *testing.T, test func(l line, heard <-chan string)) {
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		l := newLine(t, e.Start(t).Client(t))
		heard := l.listen("q")
		require.True(t, l.join("p1").Granted)
		require.NotZero(t, l.join("q1").Score)
		test(l, heard)
	})
}

// In its time, a lock that is released is free, whoever waits. Nobody of the queue gets it, and whoever is in
// no queue does. After that time, the first in the queue has it as soon as anybody asks.
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
				require.LessOrEqual(l, beat.Remaining, l.barging)
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

// The callers of one process would hand a lock over among themselves for ever. In its time, the server says
// that somebody waits, and the process that gives the lock up stands in the queue, although nobody else does.
func TestTurnEndsForThoseInNoQueue(t *testing.T) {
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		l := newLine(t, e.Start(t).Client(t))
		require.True(t, l.join("p1").Granted)
		l.open()
		require.Positive(t, l.handOver(l.barging))
		require.Zero(t, l.handOver(0))
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
		require.LessOrEqual(t, late.Remaining, l.barging)
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
