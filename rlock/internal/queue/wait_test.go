package queue_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/queue"
)

const (
	waitTTL   = 10 * time.Second
	waitLeast = time.Second
)

// waitRun is a Wait and what it has its owner do.
type waitRun struct {
	t *testing.T
	queue.Settings
	queue.Wait
	now clock.Instant
}

func newWaitRun(t *testing.T) *waitRun {
	t.Helper()
	r := &waitRun{t: t, Settings: queue.Settings{TTL: waitTTL, Least: waitLeast}}
	r.step(queue.Event{What: queue.Wanted, Fresh: "a"},
		queue.Action{Do: queue.Ask, Request: queue.Request{Call: queue.Join, Token: "a"}})
	require.Equal(t, queue.Joining, r.Phase)
	return r
}

// step lets something happen a second after what happened before, and requires what follows.
func (r *waitRun) step(e queue.Event, want ...queue.Action) {
	r.t.Helper()
	r.now = r.now.After(time.Second)
	e.Now = r.now
	var got []queue.Action
	r.Wait, got = r.Step(r.Wait, e)
	require.Equal(r.t, want, got)
}

func (r *waitRun) answer(request queue.Request, ago time.Duration, a queue.Answer, want ...queue.Action) {
	r.t.Helper()
	r.step(queue.Event{What: queue.Answered, Request: request,
		Sent: r.now.After(time.Second) - clock.Instant(ago), Answer: a, Fresh: "b"}, want...)
}

func (r *waitRun) push(token string, want ...queue.Action) {
	r.t.Helper()
	r.step(queue.Event{What: queue.Told, Token: token,
		Answer: queue.Answer{Granted: true, Fence: 7, Remaining: waitTTL}}, want...)
}

var (
	joinA  = queue.Request{Call: queue.Join, Token: "a"}
	beatA  = queue.Request{Call: queue.Heartbeat, Token: "a"}
	hold   = queue.Action{Do: queue.Hold}
	beat   = queue.Action{Do: queue.Ask, Request: beatA}
	leaveA = queue.Action{Do: queue.Abandon, Request: queue.Request{Call: queue.Pass, Token: "a"}}
)

// A pushed lease counts from the last call that was answered with a place in the queue.
func TestWaitCountsAPushFromTheLastAnsweredCall(t *testing.T) {
	t.Parallel()
	r := newWaitRun(t)
	r.answer(joinA, time.Second, queue.Answer{Score: 5})
	r.step(queue.Event{What: queue.BeatDue, Hears: true}, beat)
	sent := r.now
	r.step(queue.Event{What: queue.BeatDue, Hears: true}, beat)
	r.answer(beatA, 2*time.Second, queue.Answer{Score: 5})
	r.push("a", hold)
	require.Equal(t, queue.Held, r.Phase)
	require.Equal(t, int64(7), r.Fence)
	require.Equal(t, clock.LeaseEnd(sent, waitTTL), r.Deadline)
}

// A token that two calls may have inserted counts from the first.
func TestWaitCountsAPushOfARepeatedTokenFromItsFirstCall(t *testing.T) {
	t.Parallel()
	r := newWaitRun(t)
	first := r.now
	r.step(queue.Event{What: queue.Overdue}, queue.Action{Do: queue.Ask, Request: joinA})
	r.answer(joinA, time.Second, queue.Answer{Score: 5})
	r.push("a", hold)
	require.Equal(t, clock.LeaseEnd(first, waitTTL), r.Deadline)
}

// A push of which too little is left is confirmed.
func TestWaitConfirmsALatePush(t *testing.T) {
	t.Parallel()
	r := newWaitRun(t)
	r.now += clock.Instant(waitTTL - 2*waitLeast)
	r.push("a", beat)
	require.Equal(t, queue.Waiting, r.Phase)
	r.answer(beatA, time.Second, queue.Answer{Granted: true, Fence: 8, Remaining: waitTTL}, hold)
	require.Equal(t, int64(8), r.Fence)
	r.push("a")
	r.answer(beatA, 0, queue.Answer{Granted: true, Fence: 9, Remaining: waitTTL})
	require.Equal(t, int64(8), r.Fence, "what comes later changes nothing")
}

// What the server has granted to a token that nobody waits with is given up.
func TestWaitGivesUpWhatItDoesNotWaitFor(t *testing.T) {
	t.Parallel()
	r := newWaitRun(t)
	other := queue.Action{Do: queue.Abandon, Request: queue.Request{Call: queue.Pass, Token: "z"}}
	r.push("z", other)
	r.answer(queue.Request{Call: queue.Join, Token: "z"}, 0, queue.Answer{Score: 3}, other)
	r.answer(queue.Request{Call: queue.Join, Token: "z"}, 0, queue.Answer{})
	r.step(queue.Event{What: queue.Left}, leaveA)
	require.Equal(t, queue.Wait{}, r.Wait)
	r.push("a", leaveA)
}

// A lost place is taken again with a new token and the old score; after the second time, without
// a message.
func TestWaitTakesItsPlaceAgain(t *testing.T) {
	t.Parallel()
	r := newWaitRun(t)
	r.answer(joinA, 0, queue.Answer{Score: 5})
	r.answer(beatA, 0, queue.Answer{}, leaveA,
		queue.Action{Do: queue.Ask, Request: queue.Request{Call: queue.Join, Token: "b", Since: 5}})
	require.Equal(t, queue.Joining, r.Phase)
	r.answer(queue.Request{Call: queue.Join, Token: "b", Since: 5}, 0, queue.Answer{Score: 5})
	r.step(queue.Event{What: queue.Answered, Request: queue.Request{Call: queue.Heartbeat, Token: "b"},
		Answer: queue.Answer{Score: 6}, Fresh: "c"},
		queue.Action{Do: queue.Abandon, Request: queue.Request{Call: queue.Pass, Token: "b"}},
		queue.Action{Do: queue.Ask, Request: queue.Request{Call: queue.Join, Token: "c", Since: 5, Silent: true}})
}

// A holder with another caller in its process joins behind all others, with a new token.
func TestWaitJoinsAgainAsItReleases(t *testing.T) {
	t.Parallel()
	r := newWaitRun(t)
	r.answer(joinA, 0, queue.Answer{Granted: true, Fence: 7, Remaining: waitTTL}, hold)
	again := queue.Request{Call: queue.Pass, Token: "a", Again: "b"}
	r.step(queue.Event{What: queue.Released, Fresh: "b"}, queue.Action{Do: queue.Ask, Request: again})
	sent := r.now
	r.push("a")
	r.push("b", hold)
	require.Equal(t, clock.LeaseEnd(sent, waitTTL), r.Deadline)
}

// A lock without expiry is granted for ten seconds, and a heartbeat makes it endless.
func TestWaitMakesAnEndlessLockEndless(t *testing.T) {
	t.Parallel()
	r := newWaitRun(t)
	r.TTL = clock.NoExpiry
	beat := queue.Request{Call: queue.Heartbeat, Token: "a"}
	r.push("a", queue.Action{Do: queue.Ask, Request: beat})
	require.Equal(t, queue.Waiting, r.Phase)
	r.answer(beat, 0, queue.Answer{Granted: true, Fence: 7, Remaining: -1}, hold)
	require.Equal(t, clock.Never, r.Deadline)
}

// A grant without a fence is asked about, if the lock is to have one.
func TestWaitAsksForItsFence(t *testing.T) {
	t.Parallel()
	r := newWaitRun(t)
	r.Fenced = true
	beat := queue.Request{Call: queue.Heartbeat, Token: "a"}
	r.step(queue.Event{What: queue.Told, Token: "a", Answer: queue.Answer{Granted: true, Remaining: waitTTL}},
		queue.Action{Do: queue.Ask, Request: beat})
	r.answer(beat, 0, queue.Answer{Granted: true, Fence: 7, Remaining: waitTTL}, hold)
	require.EqualValues(t, 7, r.Fence)
}
