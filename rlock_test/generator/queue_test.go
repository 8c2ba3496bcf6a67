package generator

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

const (
	queued      = "rlock:queue:{1}:k"
	waiters     = "rlock:waiters:{1}:k"
	holders     = "rlock:holders:{1}:k"
	grants      = "rlock:grant:{1}:"
	fences      = "rlock:fence:{1}"
	contested   = "{1}k"
	queueLease  = 20 * time.Second
	firstLease  = 10 * time.Second // of a waiter that asked for a lock without expiry
	silentLease = 2 * time.Second  // until the heartbeat of a waiter that cannot be told
	queueRemain = 30 * time.Second
)

// line is a key on a server, with its queue. Processes are named p, q, r.
type line struct {
	*testing.T
	client  rueidis.Client
	scripts *gen.Scripts
	clocked time.Duration // lease of what joins; 0: none
	barging time.Duration
}

func newLine(t *testing.T, client rueidis.Client) line {
	require.NoError(t, env.Do(t, client, "FLUSHALL").Error())
	return line{t, client, gen.New(), queueLease, 0}
}

// process is who a token such as p2 belongs to; a token such as -p2 cannot be told.
func process(token string) string {
	if strings.HasPrefix(token, "-") {
		return ""
	}
	return token[:1]
}

func (l line) ask(token string, how gen.WaitHow, since int64) (gen.WaitResult, error) {
	return l.scripts.Wait(l.Context(), l.client, gen.WaitParams{
		Lock: contested, Queue: queued, Waiters: waiters, Holders: holders, Grants: grants,
		Counter: []string{fences},
		Token:   token, TTL: l.clocked, Process: process(token), How: how, Since: since, Barging: l.barging,
	})
}

func releasing(token string) gen.ReleaseParams {
	return gen.ReleaseParams{
		Lock: contested, Queue: queued, Waiters: waiters, Holders: holders, Grants: grants,
		Counter: []string{fences}, Token: token,
	}
}

func requeuing(token, again string) gen.RequeueParams {
	return gen.RequeueParams{
		Lock: contested, Queue: queued, Waiters: waiters, Holders: holders, Grants: grants,
		Counter: []string{fences},
		Token:   token, Again: again, Process: process(again),
	}
}

func (l line) join(token string, since ...int64) gen.WaitResult {
	l.Helper()
	r, err := l.ask(token, gen.WaitHowJoin, append(since, 0)[0])
	require.NoError(l, err)
	return r
}

func (l line) beat(token string) gen.WaitResult {
	l.Helper()
	r, err := l.ask(token, gen.WaitHowHeartbeat, 0)
	require.NoError(l, err)
	return r
}

func (l line) try(token string) gen.WaitResult {
	l.Helper()
	r, err := l.ask(token, gen.WaitHowTry, 0)
	require.NoError(l, err)
	return r
}

func (l line) pass(token, again string) gen.RequeueResult {
	l.Helper()
	if again == "" {
		p := releasing(token)
		p.Barging = l.barging
		freed, err := l.scripts.Release(l.Context(), l.client, p)
		require.NoError(l, err)
		return gen.RequeueResult{Freed: freed == 1}
	}
	p := requeuing(token, again)
	p.TTL, p.Barging = l.clocked, l.barging
	r, err := l.scripts.Requeue(l.Context(), l.client, p)
	require.NoError(l, err)
	return r
}

// listen subscribes to the channel of a process, and returns what arrives there.
func (l line) listen(process string) <-chan string {
	l.Helper()
	heard := make(chan string, 1024) // more than a test that fails leaves: the client ends when all is delivered
	ctx, cancel := context.WithCancel(l.Context())
	dedicated, release := l.client.Dedicate()
	l.Cleanup(func() { cancel(); release() })
	dedicated.SetPubSubHooks(
		rueidis.PubSubHooks{OnMessage: func(m rueidis.PubSubMessage) { heard <- m.Message }})
	require.NoError(l, dedicated.Do(ctx, dedicated.B().Ssubscribe().Channel(grants+process).Build()).Error())
	env.Soon(l.T, func() bool {
		counts, err := env.Do(l.T, l.client, "PUBSUB", "SHARDNUMSUB", grants+process).ToArray()
		require.NoError(l, err)
		n, err := counts[1].ToInt64()
		require.NoError(l, err)
		return n == 1
	}, "the subscription is confirmed")
	return heard
}

// told requires that a process is told of the grant that the server has made to a token, and
// returns its fence.
func (l line) told(heard <-chan string, token string, lease time.Duration, waiting int) int64 {
	l.Helper()
	select {
	case message := <-heard:
		words := strings.SplitN(message, " ", 4)
		require.Len(l, words, 4, message)
		require.Equal(l, []string{fmt.Sprint(lease.Milliseconds()), fmt.Sprint(waiting)},
			[]string{words[0], words[2]})
		require.Equal(l, fmt.Sprint(len(contested), " ", contested, " ", token), words[3])
		fence, err := strconv.ParseInt(words[1], 10, 64)
		require.NoError(l, err)
		require.Equal(l, words[1], env.Get(l.T, l.client, fences), "the fence in full")
		return fence
	case <-time.After(10 * time.Second):
		require.FailNow(l, "nobody was told of the grant", token)
	}
	return 0
}

// silent requires that nobody was told anything so far. It sends a message after it, which
// arrives behind all others.
func (l line) silent(heard <-chan string, process string) {
	l.Helper()
	require.NoError(l, env.Do(l.T, l.client, "SPUBLISH", grants+process, "last").Error())
	require.Equal(l, "last", <-heard)
}

// state requires who holds the key, what is left of the lease, and who waits.
func (l line) state(holder string, lease time.Duration, waiting ...string) {
	l.Helper()
	require.Equal(l, holder, env.Get(l.T, l.client, contested))
	if holder != "" {
		left, err := env.Do(l.T, l.client, "PTTL", contested).ToInt64()
		require.NoError(l, err)
		if lease == 0 {
			require.Equal(l, int64(-1), left)
		} else {
			require.InDelta(l, lease.Milliseconds(), left, 5000)
		}
	}
	tokens, err := env.Do(l.T, l.client, "ZRANGE", queued, "0", "-1").AsStrSlice()
	require.NoError(l, err)
	require.ElementsMatch(l, waiting, tokens)
	require.Equal(l, strings.Join(waiting, " "), strings.Join(tokens, " "))
	known, err := env.Do(l.T, l.client, "HKEYS", waiters).AsStrSlice()
	require.NoError(l, err)
	require.ElementsMatch(l, waiting, known, "who they are is known of those who wait")
	if len(waiting) > 0 {
		left, err := env.Do(l.T, l.client, "PTTL", queued).ToInt64()
		require.NoError(l, err)
		require.InDelta(l, queueRemain.Milliseconds(), left, 5000)
	}
}

// missing requires that the server has no such key.
func (l line) missing(key string) {
	l.Helper()
	n, err := env.Do(l.T, l.client, "EXISTS", key).ToInt64()
	require.NoError(l, err)
	require.Zero(l, n)
}

// The scripts of the queue between processes, branch by branch.
func TestQueueScripts(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		for name, run := range map[string]func(l line){
			"a free key is taken":                    takesFree,
			"who joins stands behind all others":     joinsInOrder,
			"an old score keeps its place":           keepsPlace,
			"a repeated join reports":                repeatsJoin,
			"a heartbeat never inserts":              beatsOnly,
			"a heartbeat helps":                      beatHelps,
			"a heartbeat takes what is its own":      beatTakes,
			"a heartbeat finds a lost push":          beatFinds,
			"a heartbeat does not shorten a lease":   beatExtends,
			"a try helps and does not overtake":      triesLast,
			"release passes the lock on":             passesOn,
			"release skips who does not hear":        skipsDeaf,
			"one script looks at 250":                skipsSome,
			"release without a waiter frees":         frees,
			"leaving the queue":                      leaves,
			"a second token takes what nobody wants": againTakes,
			"a second token joins behind":            againJoins,
			"a repeated release reports":             againReports,
			"a second token is inserted once":        againOnce,
			"a waiter that cannot be told":           unreachable,
			"without expiry":                         withoutExpiry,
			"who was not heard of":                   runsOut,
			"how long each may be silent":            maySkipThree,
			"who is far behind is asked":             asksFront,
			"many are asked, and once":               asksMany,
			"who is not known":                       notKnown,
			"a queue that is gone":                   forgetsQueue,
			"a clock that has gone back":             clockBack,
			"a counter of another type":              wrongCounter,
			"a queue of another type":                wrongQueue,
			"a key of another type":                  wrongKey,
			"no fence":                               withoutFence,
			"tokens of any bytes":                    anyToken,
			"keys of any bytes":                      anyKey,
		} {
			t.Run(name, func(t *testing.T) { run(newLine(t, client)) })
		}
	})
}

func takesFree(l line) {
	r := l.join("p1")
	require.True(l, r.Granted)
	require.Positive(l, r.Fence)
	require.InDelta(l, queueLease, r.Remaining, float64(5*time.Second))
	l.state("p1", queueLease)
	again := l.join("p1")
	require.True(l, again.Granted)
	require.Greater(l, again.Fence, r.Fence)
}

func joinsInOrder(l line) {
	l.join("p1")
	q, r := l.join("q1"), l.join("r1")
	require.False(l, q.Granted || r.Granted)
	require.Zero(l, q.Ahead)
	require.Equal(l, int64(1), r.Ahead)
	require.InDelta(l, time.Now().UnixMicro(), q.Score, 1e8)
	require.Greater(l, r.Score, q.Score)
	require.InDelta(l, queueLease, q.Remaining, float64(5*time.Second))

	// The server's clock is behind the last score.
	require.NoError(l, env.Do(l.T, l.client, "ZADD", queued, "5100000000000000", "s1").Error())
	require.NoError(l, env.Do(l.T, l.client, "HSET", waiters, "s1", "0 2000 20000 s").Error())
	require.Equal(l, int64(5100000000000001), l.join("t1").Score)
	l.state("p1", queueLease, "q1", "r1", "s1", "t1")
}

func keepsPlace(l line) {
	l.join("p1")
	q := l.join("q1")
	l.join("r1")
	l.pass("q1", "")
	l.state("p1", queueLease, "r1")
	q2 := l.join("q2", q.Score)
	require.Equal(l, q.Score, q2.Score)
	l.state("p1", queueLease, "q2", "r1")

	// Its place is before the head of the queue, and the key is free.
	heard := l.listen("r")
	l.pass("q2", "")
	require.NoError(l, env.Do(l.T, l.client, "DEL", contested).Error())
	require.True(l, l.join("q3", q.Score).Granted)
	l.state("q3", queueLease, "r1")
	l.silent(heard, "r")

	// Its place is behind the head.
	require.NoError(l, env.Do(l.T, l.client, "DEL", contested).Error())
	require.False(l, l.join("s1", time.Now().Add(time.Hour).UnixMicro()).Granted)
	l.told(heard, "r1", queueLease, 1)
	l.state("r1", queueLease, "s1")
}

func repeatsJoin(l line) {
	l.join("p1")
	q := l.join("q1")
	l.join("r1")
	require.Equal(l, q.Score, l.join("q1").Score)
	l.state("p1", queueLease, "q1", "r1")
}

func beatsOnly(l line) {
	require.Equal(
		l, gen.WaitResult{Remaining: -2 * time.Millisecond}, l.beat("q1"), "free, and not in the queue",
	)
	l.state("", 0)
	l.join("p1")
	gone := l.beat("q1")
	require.InDelta(l, queueLease, gone.Remaining, float64(5*time.Second))
	gone.Remaining = 0
	require.Equal(l, gen.WaitResult{}, gone)
	l.state("p1", queueLease)
	q := l.join("q1")
	require.NoError(l, env.Do(l.T, l.client, "PEXPIRE", queued, "1000").Error())
	require.Equal(l, q.Score, l.beat("q1").Score)
	l.state("p1", queueLease, "q1")
}

func beatHelps(l line) {
	heard := l.listen("q")
	l.join("p1")
	l.join("q1")
	r := l.join("r1")
	require.NoError(l, env.Do(l.T, l.client, "DEL", contested).Error())
	beat := l.beat("r1")
	require.False(l, beat.Granted)
	require.Equal(l, r.Score, beat.Score)
	require.Zero(l, beat.Ahead)
	l.told(heard, "q1", queueLease, 1)
	l.state("q1", queueLease, "r1")

	// One that has left helps too.
	require.NoError(l, env.Do(l.T, l.client, "DEL", contested).Error())
	heard = l.listen("r")
	l.beat("p7")
	l.told(heard, "r1", queueLease, 0)
}

func beatTakes(l line) {
	p := l.join("p1")
	l.join("q1")
	l.join("r1")
	require.NoError(l, env.Do(l.T, l.client, "DEL", contested).Error())
	q := l.beat("q1")
	require.True(l, q.Granted)
	require.Greater(l, q.Fence, p.Fence)
	l.state("q1", queueLease, "r1")

	// The head of the queue hears nothing.
	require.NoError(l, env.Do(l.T, l.client, "DEL", contested).Error())
	l.join("s1")
	l.state("s1", queueLease)
}

func beatFinds(l line) {
	heard := l.listen("q")
	l.join("p1")
	l.join("q1")
	l.pass("p1", "")
	fence := l.told(heard, "q1", queueLease, 0)
	r := l.beat("q1")
	require.True(l, r.Granted)
	require.Greater(l, r.Fence, fence)
	l.silent(heard, "q")
}

func beatExtends(l line) {
	l.join("p1")
	require.NoError(l, env.Do(l.T, l.client, "PEXPIRE", contested, "3600000").Error())
	require.InDelta(l, time.Hour, l.beat("p1").Remaining, float64(5*time.Second))
	l.state("p1", time.Hour)
	require.NoError(l, env.Do(l.T, l.client, "PEXPIRE", contested, "1000").Error())
	l.beat("p1")
	l.state("p1", queueLease)
}

func triesLast(l line) {
	heard := l.listen("q")
	l.join("p1")
	l.join("q1")
	require.False(l, l.try("r1").Granted)
	l.state("p1", queueLease, "q1")
	require.NoError(l, env.Do(l.T, l.client, "DEL", contested).Error())
	require.Zero(l, l.try("r1").Score)
	l.told(heard, "q1", queueLease, 0)
	l.state("q1", queueLease)
	l.pass("q1", "")
	require.True(l, l.try("r1").Granted)
	l.state("r1", queueLease)
}

func passesOn(l line) {
	heard := l.listen("q")
	p := l.join("p1")
	l.join("q1")
	l.join("r1")
	require.Equal(l, gen.RequeueResult{Freed: true}, l.pass("p1", ""))
	require.Greater(l, l.told(heard, "q1", queueLease, 1), p.Fence)
	l.state("q1", queueLease, "r1")
	require.Equal(l, gen.RequeueResult{}, l.pass("p1", ""), "a repetition changes nothing")
	l.state("q1", queueLease, "r1")
	l.silent(heard, "q")
}

func skipsDeaf(l line) {
	heard := l.listen("r")
	l.join("p1")
	l.join("q1")
	l.join("r1")
	l.pass("p1", "")
	l.told(heard, "r1", queueLease, 0)
	l.state("r1", queueLease)
	require.Equal(l, gen.RequeueResult{Freed: true}, l.pass("r1", ""))
	l.state("", 0)
}

func skipsSome(l line) {
	heard := l.listen("q")
	deaf := func() {
		l.join("p1")
		for i := range 260 {
			l.join(fmt.Sprint("d", i))
		}
		l.join("q1")
	}
	deaf()
	l.pass("p1", "")
	require.Empty(l, env.Get(l.T, l.client, contested))
	require.Equal(l, "beat q1", env.Receive(l.T, heard), "somebody goes on")
	require.True(l, l.beat("q1").Granted)
	l.state("q1", queueLease)
	l.pass("q1", "")

	deaf()
	require.NoError(l, env.Do(l.T, l.client, "DEL", contested).Error())
	first := l.beat("q1")
	require.False(l, first.Granted)
	require.Equal(l, time.Millisecond, first.Remaining, "it goes on itself, at once")
	l.silent(heard, "q")
	require.True(l, l.beat("q1").Granted)
	l.state("q1", queueLease)
}

func frees(l line) {
	l.join("p1")
	require.Equal(l, gen.RequeueResult{Freed: true}, l.pass("p1", ""))
	l.state("", 0)
	require.Equal(l, gen.RequeueResult{}, l.pass("p1", ""))
}

func leaves(l line) {
	l.join("p1")
	l.join("q1")
	l.join("r1")
	require.Equal(l, gen.RequeueResult{}, l.pass("q1", ""))
	l.state("p1", queueLease, "r1")
	l.pass("r1", "")
	l.missing(queued)
}

func againTakes(l line) {
	p := l.join("p1")
	r := l.pass("p1", "p2")
	require.True(l, r.Freed && r.Granted)
	require.Greater(l, r.Fence, p.Fence)
	require.InDelta(l, queueLease, r.Remaining, float64(5*time.Second))
	l.state("p2", queueLease)

	// Everybody else in the queue is gone.
	l.join("q1")
	require.True(l, l.pass("p2", "p3").Granted)
	l.state("p3", queueLease)
}

func againJoins(l line) {
	heard := l.listen("q")
	l.join("p1")
	q := l.join("q1")
	r := l.join("r1")
	p := l.pass("p1", "p2")
	require.True(l, p.Freed)
	require.False(l, p.Granted)
	require.Greater(l, p.Score, max(q.Score, r.Score))
	l.told(heard, "q1", queueLease, 1)
	l.state("q1", queueLease, "r1", "p2")
}

func againReports(l line) {
	l.join("p1")
	l.pass("p1", "p2")
	held := l.pass("p1", "p2")
	require.True(l, held.Granted)
	require.False(l, held.Freed)
	l.state("p2", queueLease)

	l.listen("q")
	l.join("q1")
	first := l.pass("p2", "p3")
	queued := l.pass("p2", "p3")
	require.Equal(l, gen.RequeueResult{Score: first.Score}, queued)
	l.state("q1", queueLease, "p3")
}

func againOnce(l line) {
	l.join("q1")
	require.Equal(l, gen.RequeueResult{}, l.pass("p1", "p2"), "the lock was not its")
	l.state("q1", queueLease)
}

func unreachable(l line) {
	for _, lease := range []time.Duration{time.Second, queueLease, 0} {
		l.clocked = lease
		l.join("p1")
		l.join("-q1")
		l.pass("p1", "")
		l.state("-q1", silentLease)
		left := env.TTL(l.T, l.client, contested)
		require.Positive(l, left)
		require.LessOrEqual(l, left, silentLease, "it may be dead")
		if lease == time.Second {
			require.LessOrEqual(l, left, lease)
		}
		require.True(l, l.beat("-q1").Granted)
		l.state("-q1", lease)
		l.pass("-q1", "")
	}
}

func withoutExpiry(l line) {
	l.clocked = 0
	heard := l.listen("q")
	require.Equal(l, -time.Millisecond, l.join("p1").Remaining)
	l.state("p1", 0)
	l.join("q1")
	l.pass("p1", "")
	l.told(heard, "q1", firstLease, 0)
	l.state("q1", firstLease)
	require.Equal(l, -time.Millisecond, l.beat("q1").Remaining, "it is alive")
	l.state("q1", 0)

	again := l.pass("q1", "q2")
	require.True(l, again.Granted)
	l.state("q2", 0)
	require.NoError(l, env.Do(l.T, l.client, "PEXPIRE", contested, "1000").Error())
	require.True(l, l.pass("q1", "q2").Granted)
	l.state("q2", 0)
	l.join("r1")
	require.NoError(l, env.Do(l.T, l.client, "DEL", contested).Error())
	require.Equal(l, -time.Millisecond, l.beat("r1").Remaining)
	l.state("r1", 0)
}

// heardOf notes when a token was heard of the last time, and for how long that is enough.
func (l line) heardOf(token string, ago, beat time.Duration) {
	l.Helper()
	now, err := env.Do(l.T, l.client, "TIME").AsStrSlice()
	require.NoError(l, err)
	seconds, err := strconv.ParseInt(now[0], 10, 64)
	require.NoError(l, err)
	entry := fmt.Sprint(seconds*1000-ago.Milliseconds(), " ", beat.Milliseconds(), " 20000 ", process(token))
	require.NoError(l, env.Do(l.T, l.client, "HSET", waiters, token, entry).Error())
}

// Four heartbeats of a process fit in what the server has it be silent: a second each for the first five, and
// an eighth of a second more for each place behind them.
func maySkipThree(l line) {
	l.join("p1")
	for ahead, want := range []string{"4000", "4000", "4000", "4000", "4000", "4500", "5000"} {
		token := fmt.Sprint("q", ahead)
		l.join(token)
		entry, err := env.Do(l.T, l.client, "HGET", waiters, token).ToString()
		require.NoError(l, err)
		require.Equal(l, want, strings.Fields(entry)[1], "%d are before it", ahead)
	}
}

func runsOut(l line) {
	heard := l.listen("q")
	also := l.listen("r")
	l.join("p1")
	l.join("q1")
	l.join("r1")
	l.heardOf("q1", 5*time.Second, 2*time.Second)
	l.pass("p1", "")
	l.told(also, "r1", queueLease, 0)
	l.silent(heard, "q")
	l.state("r1", queueLease)
	require.Zero(l, l.beat("q1").Score, "it has no place any more")
}

func asksFront(l line) {
	heard, also := l.listen("q"), l.listen("r")
	l.join("p1")
	l.join("q1")
	l.join("r1")
	l.heardOf("q1", 10*time.Second, time.Minute)
	l.heardOf("r1", 10*time.Second, time.Minute)
	l.pass("p1", "")
	require.Equal(l, "beat q1", <-heard)
	require.Equal(l, "beat r1", <-also, "all at the front are asked at the same time")
	l.state("", 0, "q1", "r1")
	late := l.try("s1")
	require.False(l, late.Granted, "the lock is kept for them")
	require.Positive(l, late.Remaining)
	require.LessOrEqual(l, late.Remaining, 2*time.Second)
	require.True(l, l.beat("q1").Granted)
	l.pass("q1", "")
	l.state("", 0, "r1")
	env.Soon(l.T, func() bool { return l.try("s1").Granted }, "nothing is heard of it for two seconds")
	l.silent(also, "r")
	l.state("s1", queueLease)
}

// A machine may need longer for all of this than the two seconds that those who were asked have. That try
// shows nothing, and is made again.
func asksMany(l line) {
	for range 10 {
		if asksManyInTime(l) {
			return
		}
		require.NoError(l, env.Do(l.T, l.client, "FLUSHALL").Error())
	}
	require.FailNow(l, "ten tries took longer than two seconds each")
}

func asksManyInTime(l line) bool {
	heard := l.listen("q")
	l.join("p1")
	const front, most = 200, 50
	const all, alive = front + 2*most, front - most
	for i := range all {
		require.NoError(l, env.Do(l.T, l.client, "ZADD", queued, fmt.Sprint(i+1), fmt.Sprint("q", i)).Error())
		l.heardOf(fmt.Sprint("q", i), 5*time.Second, time.Minute)
	}
	// Nothing is heard of the first for so long that it would have been enough, had it been asked.
	l.heardOf("q0", 3*time.Second, 4500*time.Millisecond)
	l.heardOf(fmt.Sprint("q", alive), 0, time.Minute)
	began := time.Now()
	l.pass("p1", "")
	var asked []string
	require.NoError(l, env.Do(l.T, l.client, "SPUBLISH", grants+"q", "last").Error())
	for m := range heard {
		if m == "last" {
			break
		}
		asked = append(asked, m)
	}
	require.Greater(l, len(asked), front+most/2)
	require.LessOrEqual(l, len(asked), front+most)
	for i := range front {
		require.Equal(l, fmt.Sprint("beat q", i), asked[i])
	}
	require.Equal(l, fmt.Sprint("beat q", all-1), asked[front], "the last is asked")

	for _, i := range []int{all - 1, front + most/2, alive} {
		r := l.beat(fmt.Sprint("q", i))
		if time.Since(began) >= silentLease {
			return false
		}
		require.False(l, r.Granted)
		require.LessOrEqual(l, r.Remaining, 2*time.Second)
		require.Equal(l, int64(11), r.Ahead, "most of those before it may be dead")
	}
	l.silent(heard, "q")

	env.Soon(l.T, func() bool { return l.beat(fmt.Sprint("q", alive)).Granted },
		"all before it count as dead together")
	left, err := env.Do(l.T, l.client, "ZCARD", queued).ToInt64()
	require.NoError(l, err)
	require.Equal(l, int64(all-alive-1), left, "nobody else is taken out")
	return true
}

func notKnown(l line) {
	l.join("p1")
	l.join("q1")
	require.NoError(l, env.Do(l.T, l.client, "DEL", waiters).Error())
	l.pass("p1", "")
	l.state("q1", silentLease)
	require.LessOrEqual(l, env.TTL(l.T, l.client, contested), silentLease, "nobody knows whether it is alive")
	require.True(l, l.beat("q1").Granted)
	l.state("q1", queueLease)
}

// Those who stood in a queue that is gone have no part in the one that begins, however long that lasts.
func forgetsQueue(l line) {
	l.join("p1")
	gone := func() {
		l.join("q1")
		l.join("r1")
		require.NoError(l, env.Do(l.T, l.client, "DEL", queued).Error())
	}
	gone()
	l.join("s1")
	l.join("t1")
	l.state("p1", queueLease, "s1", "t1")
	l.beat("q1")
	l.state("p1", queueLease, "s1", "t1")

	l.pass("s1", "")
	l.pass("t1", "")
	gone()
	require.Zero(l, l.beat("q1").Score)
	l.missing(waiters)
	gone()
	l.pass("q1", "")
	l.missing(waiters)
	gone()
	l.barging = time.Second // the lock stays free
	require.Positive(l, l.pass("p1", "p2").Score)
	l.state("", 0, "p2")

	l.barging = 0
	require.NoError(l, env.Do(l.T, l.client, "SET", contested, "x").Error())
	gone()
	require.NoError(l, env.Do(l.T, l.client, "SET", waiters, "none").Error())
	_, err := l.ask("s2", gen.WaitHowJoin, 0)
	require.ErrorContains(l, err, "WRONGTYPE", "what is not rlock's stays")
	l.pass("q1", "")
	require.Equal(l, "none", env.Get(l.T, l.client, waiters))
	l.missing(queued)
}

func clockBack(l line) {
	heard := l.listen("q")
	l.join("p1")
	l.join("q1")
	l.heardOf("q1", -time.Hour, 2*time.Second)
	l.pass("p1", "")
	require.Equal(l, "beat q1", <-heard)
	l.state("", 0, "q1")
	require.True(l, l.beat("q1").Granted)
}

func wrongCounter(l line) {
	heard := l.listen("q")
	l.join("p1")
	l.join("q1")
	require.NoError(l, env.Do(l.T, l.client, "SET", fences, "none").Error())
	require.Equal(l, gen.RequeueResult{Freed: true}, l.pass("p1", ""),
		"release never fails because of the queue")
	l.silent(heard, "q")
	l.state("", 0, "q1")
	_, err := l.ask("q1", gen.WaitHowHeartbeat, 0)
	require.ErrorContains(l, err, "not an integer")
	_, err = l.ask("r1", gen.WaitHowJoin, 0)
	require.ErrorContains(l, err, "not an integer")
	l.state("", 0, "q1")

	require.NoError(l, env.Do(l.T, l.client, "DEL", fences, queued, waiters).Error())
	l.join("p2")
	require.NoError(l, env.Do(l.T, l.client, "SET", fences, "none").Error())
	_, err = l.ask("p2", gen.WaitHowHeartbeat, 0)
	require.ErrorContains(l, err, "not an integer")
	require.Equal(l, gen.RequeueResult{Freed: true}, l.pass("p2", "p3"))
	l.state("", 0)
	require.NoError(l, env.Do(l.T, l.client, "SET", contested, "p3").Error())
	_, err = l.scripts.Requeue(l.Context(), l.client, requeuing("p2", "p3"))
	require.ErrorContains(l, err, "not an integer")
}

func wrongQueue(l line) {
	l.join("p1")
	require.NoError(l, env.Do(l.T, l.client, "SET", queued, "none").Error())
	_, err := l.ask("q1", gen.WaitHowJoin, 0)
	require.ErrorContains(l, err, "WRONGTYPE")
	require.Equal(l, gen.RequeueResult{}, l.pass("q1", ""))
	require.Equal(l, gen.RequeueResult{Freed: true}, l.pass("p1", "p2"))
	require.Empty(l, env.Get(l.T, l.client, contested))
}

func wrongKey(l line) {
	require.NoError(l, env.Do(l.T, l.client, "LPUSH", contested, "none").Error())
	_, err := l.ask("q1", gen.WaitHowJoin, 0)
	require.ErrorContains(l, err, "WRONGTYPE")
	_, err = l.scripts.Release(l.Context(), l.client, releasing("p2"))
	require.ErrorContains(l, err, "WRONGTYPE")
	l.missing(queued)
}

func withoutFence(l line) {
	join := gen.WaitParams{
		Lock: contested, Queue: queued, Waiters: waiters, Holders: holders, Token: "p1", TTL: queueLease,
		Process: "p", Grants: grants, How: gen.WaitHowJoin,
	}
	r, err := l.scripts.Wait(l.Context(), l.client, join)
	require.NoError(l, err)
	require.True(l, r.Granted)
	require.Zero(l, r.Fence)
	heard := l.listen("q")
	l.join("q1")
	p := releasing("p1")
	p.Counter = nil
	_, err = l.scripts.Release(l.Context(), l.client, p)
	require.NoError(l, err)
	require.Equal(l, "20000 0 0 4 {1}k q1", <-heard)
	l.missing(fences)
}

func anyToken(l line) {
	heard := l.listen("q")
	l.join("p1")
	for _, token := range []string{"q:a b\nc", "q%s%.0f", "q\x00\xff:", "q"} {
		l.join(token)
		l.pass(env.Get(l.T, l.client, contested), "")
		l.told(heard, token, queueLease, 0)
		l.state(token, queueLease)
	}
}

func anyKey(l line) {
	heard := l.listen("q")
	for _, key := range []string{"a b 7 ", "%s%.0f\n", "k\x00\xff:", " ", strings.Repeat("k ", 40_000)} {
		held := gen.WaitParams{
			Lock: key, Queue: queued, Waiters: waiters, Holders: holders, Grants: grants, Token: "p1", TTL: queueLease,
			Process: "p", How: gen.WaitHowJoin,
		}
		_, err := l.scripts.Wait(l.Context(), l.client, held)
		require.NoError(l, err)
		waits := held
		waits.Token, waits.Process = "q 1", "q"
		_, err = l.scripts.Wait(l.Context(), l.client, waits)
		require.NoError(l, err)
		p := releasing("p1")
		p.Lock, p.Counter = key, nil
		_, err = l.scripts.Release(l.Context(), l.client, p)
		require.NoError(l, err)
		require.Equal(l, fmt.Sprint("20000 0 0 ", len(key), " ", key, " q 1"), <-heard)
	}
}

// A release passes the lock on although the server is out of memory.
func TestQueueScriptsWithoutMemory(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		l := newLine(t, e.Start(t).Client(t))
		heard := l.listen("q")
		l.join("p1")
		l.join("q1")
		require.NoError(t, env.Do(t, l.client, "CONFIG", "SET", "maxmemory", "1").Error())
		_, err := l.ask("r1", gen.WaitHowJoin, 0)
		require.ErrorContains(t, err, "OOM")
		require.Equal(t, gen.RequeueResult{Freed: true}, l.pass("p1", ""))
		l.told(heard, "q1", queueLease, 0)
		l.state("q1", queueLease)
		require.True(t, l.pass("q1", "q2").Granted, "it uses what the first token used")
		require.Equal(t, gen.RequeueResult{Freed: true}, l.pass("q2", ""))
		l.state("", 0)
	})
}

// Where a user may not use what the queue needs, a release frees the lock, and who asks takes it. One who
// may not publish passes it on all the same.
func TestQueueScriptsWithoutRights(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		root := newLine(t, server.Client(t))
		heard := root.listen("q")
		for _, denied := range []string{"-spublish", "resetchannels", "-pubsub|shardnumsub", "-incr", "-zrem"} {
			require.NoError(t, env.Do(t, root.client, "FLUSHALL").Error())
			require.NoError(t, env.Do(t, root.client, "ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", "&*",
				"+@all", denied).Error())
			limited := root
			limited.client = server.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "u", "secret" })
			root.join("p1")
			root.join("q1")
			require.Equal(t, gen.RequeueResult{Freed: true}, limited.pass("p1", ""), denied)
			root.silent(heard, "q")
			// it has the lock, and is not told: its heartbeat finds that
			if denied == "-spublish" || denied == "resetchannels" {
				require.True(t, root.beat("q1").Granted, denied)
				continue
			}
			root.state("", 0, "q1")
			if denied == "-pubsub|shardnumsub" {
				require.True(t, limited.join("r1").Granted, denied)
				root.state("r1", queueLease, "q1")
			}
		}
	})
}
