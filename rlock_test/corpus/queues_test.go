package corpus_test

import (
	"bytes"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/corpus/bindings"
)

// Messages leave in the order in which they came, byte for byte; a full queue
// takes all of a batch or nothing.
func fifoQueue(t *testing.T, e target) {
	queue := e.key("queue")
	first, second := []byte{0, 0xff, '\r', '\n'}, []byte{}
	push := bindings.QueuePushParams{Queue: queue, Most: 3, Messages: [][]byte{first, second}}
	require.Equal(t, int64(2), ask(t, e, e.QueuePush, push))
	refused(t, e, bindings.ErrQueueFull, e.QueuePush, push)
	require.Equal(t, int64(2), e.number(t, "LLEN", queue))

	pop := bindings.QueuePopParams{Queue: queue, Most: 10}
	require.Equal(t, [][]byte{first, second}, ask(t, e, e.QueuePop, pop))
	require.Empty(t, ask(t, e, e.QueuePop, pop))

	// More than unpack gives out at once.
	push.Most, push.Messages = 20_000, nil
	for i := range 12_000 {
		push.Messages = append(push.Messages, strconv.AppendInt(nil, int64(i), 10))
	}
	require.Equal(t, int64(12_000), ask(t, e, e.QueuePush, push))
	pop.Most = 12_000
	popped := ask(t, e, e.QueuePop, pop)
	require.True(t, bytes.Equal(bytes.Join(push.Messages, nil), bytes.Join(popped, nil)))
}

// The most urgent item leaves first, and priorities only rise.
func priorityQueue(t *testing.T, e target) {
	queue := e.key("queue")
	for _, step := range []struct {
		item     string
		priority float64
		changed  bool
	}{{"low", 0.5, true}, {"high", 1.25, true}, {"high", 1, false}, {"low", 2.75, true}} {
		p := bindings.PriorityPushParams{Queue: queue, Item: step.item, Priority: step.priority}
		require.Equal(t, step.changed, ask(t, e, e.PriorityPush, p), step)
	}
	pop := bindings.PriorityPopParams{Queue: queue}
	require.Equal(t, bindings.PriorityPopResult{Item: some("low"), Priority: some(2.75)},
		ask(t, e, e.PriorityPop, pop))
	require.Equal(t, bindings.PriorityPopResult{Item: some("high"), Priority: some(1.25)},
		ask(t, e, e.PriorityPop, pop))
	require.Equal(t, bindings.PriorityPopResult{}, ask(t, e, e.PriorityPop, pop))
}

// Jobs that are due become ready, a few at a time, the oldest first.
func delayedQueue(t *testing.T, e target) {
	now := time.UnixMilli(1_700_000_000_000)
	later := bindings.Job{Kind: "mail", Args: []string{"later"}}
	jobs := map[string]bindings.Job{"old": {Kind: "mail"}, "new": {Kind: "mail", Tries: 1}, "later": later}
	for id, at := range map[string]time.Time{"old": {}, "new": now, "later": now.Add(time.Millisecond)} {
		tell(t, e, e.DelayedSchedule,
			bindings.DelayedScheduleParams{Due: e.key("due"), Jobs: e.key("jobs"), ID: id, Job: jobs[id], At: at})
	}
	require.Equal(t, jobs, ask(t, e, e.JobsList, bindings.JobsListParams{Jobs: e.key("jobs")}))
	require.Empty(t, ask(t, e, e.JobsList, bindings.JobsListParams{Jobs: e.key("none")}))

	move := bindings.DelayedMoveDueParams{Due: e.key("due"), Ready: e.key("ready"), Now: now, Most: 1}
	require.Equal(t, []string{"old"}, ask(t, e, e.DelayedMoveDue, move))
	require.Equal(t, []string{"new"}, ask(t, e, e.DelayedMoveDue, move))
	require.Empty(t, ask(t, e, e.DelayedMoveDue, move))
	require.Equal(t, int64(2), e.number(t, "LLEN", e.key("ready")))
}

// A job is done, or tried again, or a dead letter; it is never lost.
func reliableQueue(t *testing.T, e target) {
	ready, atWork, jobs, attempts := e.key("ready"), e.key("at_work"), e.key("jobs"), e.key("attempts")
	deadline := time.UnixMilli(1_700_000_000_000)
	good, bad := bindings.Job{Kind: "good", Args: []string{"ü"}}, bindings.Job{Kind: "bad"}
	for id, job := range map[string]bindings.Job{"1": good, "2": bad} {
		tell(t, e, e.DelayedSchedule,
			bindings.DelayedScheduleParams{Due: e.key("due"), Jobs: jobs, ID: id, Job: job})
	}
	e.set(t, "RPUSH", ready, "1", "2")
	take := bindings.ReliableTakeParams{Ready: ready, AtWork: atWork, Jobs: jobs, Deadline: deadline}
	require.Equal(t, bindings.ReliableTakeResult{ID: some("1"), Job: some(good)},
		ask(t, e, e.ReliableTake, take))

	ack := bindings.ReliableAckParams{AtWork: atWork, Jobs: jobs, Attempts: attempts, ID: "1"}
	require.True(t, ask(t, e, e.ReliableAck, ack))
	require.False(t, ask(t, e, e.ReliableAck, ack))
	require.Equal(t, int64(1), e.number(t, "HLEN", jobs), "only the other one")

	sweep := bindings.ReliableSweepParams{AtWork: atWork, Ready: ready, Attempts: attempts, Dead: e.key("dead"),
		Now: deadline.Add(-time.Millisecond), Tries: 2}
	require.Equal(t, some("2"), ask(t, e, e.ReliableTake, take).ID)
	require.Equal(t, bindings.ReliableSweepResult{}, ask(t, e, e.ReliableSweep, sweep), "not late yet")
	sweep.Now = deadline
	require.Equal(t, bindings.ReliableSweepResult{Again: 1}, ask(t, e, e.ReliableSweep, sweep))
	require.Equal(t, bindings.ReliableSweepResult{}, ask(t, e, e.ReliableSweep, sweep), "given up once")
	require.Equal(t, int64(1), e.number(t, "HGET", attempts, "2"))
	require.Equal(t, some(bad), ask(t, e, e.ReliableTake, take).Job)
	require.Equal(t, bindings.ReliableSweepResult{Dead: 1}, ask(t, e, e.ReliableSweep, sweep))
	require.Equal(t, bindings.ReliableTakeResult{}, ask(t, e, e.ReliableTake, take))
	require.Equal(t, "2", e.text(t, "LINDEX", e.key("dead"), "0"))
	require.Equal(t, int64(0), e.number(t, "EXISTS", attempts), "a dead letter starts anew")

	// A job that was given up once and then done leaves nothing behind.
	e.set(t, "RPUSH", ready, "2")
	ask(t, e, e.ReliableTake, take)
	ask(t, e, e.ReliableSweep, sweep)
	ask(t, e, e.ReliableTake, take)
	ack.ID = "2"
	require.True(t, ask(t, e, e.ReliableAck, ack))
	require.Equal(t, int64(0), e.number(t, "EXISTS", attempts))
	require.Equal(t, int64(0), e.number(t, "EXISTS", jobs))
}

// Half of the longest queue moves, in its order.
func workStealing(t *testing.T, e target) {
	p := bindings.WorkStealParams{Idle: e.key("idle"), Queues: e.keys("a", "b")}
	require.Equal(t, bindings.WorkStealResult{}, ask(t, e, e.WorkSteal, p))

	job := bindings.Job{Kind: "x"}
	length := ask(t, e, e.JobsAppend, bindings.JobsAppendParams{List: e.key("a"), Jobs: []bindings.Job{job}})
	require.Equal(t, int64(1), length)
	require.JSONEq(t, `{"kind":"x","tries":0}`, e.text(t, "LINDEX", e.key("a"), "0"))

	e.set(t, "RPUSH", e.key("b"), "1", "2", "3", "4", "5")
	require.Equal(t, bindings.WorkStealResult{Queue: 2, Moved: 2}, ask(t, e, e.WorkSteal, p))
	stolen, err := e.do(t, "LRANGE", e.key("idle"), "0", "-1").AsStrSlice()
	require.NoError(t, err)
	require.Equal(t, []string{"4", "5"}, stolen)
}

// Events are claimed from a dead consumer and removed once they are done.
func stream(t *testing.T, e target) {
	key := e.key("stream")
	add := bindings.StreamAddParams{Stream: key, Group: "workers", Most: 1000, Kind: "paid", Body: []byte("1")}
	first := ask(t, e, e.StreamAdd, add).ID
	add.Body = []byte("2")
	second := ask(t, e, e.StreamAdd, add).ID
	read := e.client.B().Xreadgroup().Group("workers", "dead").Count(1).Streams().Key(key).Id(">").Build()
	require.NoError(t, e.client.Do(t.Context(), read).Error())

	time.Sleep(5 * time.Millisecond)
	claim := bindings.StreamClaimParams{Stream: key, Group: "workers", Consumer: "alive", Idle: time.Millisecond,
		From: "0-0"}
	require.Equal(t, bindings.StreamClaimResult{
		Next: "0-0", IDs: []string{first}, Fields: []map[string]string{{"kind": "paid", "body": "1"}},
	}, ask(t, e, e.StreamClaim, claim))
	claim.Idle = time.Hour
	require.Empty(t, ask(t, e, e.StreamClaim, claim).IDs)

	done := bindings.StreamDoneParams{Stream: key, Group: "workers", IDs: []string{first, second, "0-1"}}
	require.Equal(t, int64(1), ask(t, e, e.StreamDone, done), "the second was never delivered")
	require.Equal(t, int64(1), e.number(t, "XLEN", key))

	e.set(t, "SET", e.key("text"), "x")
	add.Stream = e.key("text")
	_, err := e.StreamAdd(t.Context(), e.client, add)
	require.ErrorContains(t, err, "WRONGTYPE")
}
