package shared

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock_test/env"
	"github.com/stretchr/testify/require"
)

// What the scripts use in these tests. Nobody listens on the channels: waiters have no process, and
// find their grants by heartbeats.
const (
	key     = "{t}lock"
	holders = "{t}holders"
	queue   = "{t}queue"
	counter = "{t}fence"
	grants  = "{t}grant:"
	minute  = time.Minute
)

// slow is how long a test on a busy machine may take between a call and a look at what it left.
const slow = float64(8 * time.Second)

// raw calls the scripts on one server.
type raw struct {
	t       *testing.T
	client  rueidis.Client
	scripts *gen.Scripts
	process string // of all tokens
}

// onScripts runs a test of the scripts on every server.
func onScripts(t *testing.T, test func(r raw)) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		test(raw{t, e.Start(t).Client(t), gen.New(), ""})
	})
}

func share(limit, permits int, name string) string {
	return fmt.Sprintf("rlock:share:%d:%d:%s", limit, permits, name)
}

func reader(name string) string { return share(0, 1, name) }

func (r raw) ask(how gen.AcquireSharedHow, token string, ttl time.Duration) gen.AcquireSharedResult {
	r.t.Helper()
	reply, err := r.scripts.AcquireShared(r.t.Context(), r.client, gen.AcquireSharedParams{
		Lock: key, Holders: holders, Queue: queue, Counter: counter, Grants: grants, Token: token, TTL: ttl, Process: r.process, How: how,
	})
	require.NoError(r.t, err)
	return reply
}

func (r raw) try(token string, ttl time.Duration) gen.AcquireSharedResult {
	r.t.Helper()
	return r.ask(gen.AcquireSharedHowTry, token, ttl)
}

func (r raw) takes(token string, ttl time.Duration) int64 {
	r.t.Helper()
	reply := r.try(token, ttl)
	require.True(r.t, reply.Granted)
	require.NotZero(r.t, reply.Fence)
	return reply.Fence
}

func (r raw) refused(token string) gen.AcquireSharedResult {
	r.t.Helper()
	reply := r.try(token, minute)
	require.False(r.t, reply.Granted)
	require.Zero(r.t, reply.Score)
	return reply
}

// joins has a token stand in the queue.
func (r raw) joins(token string) {
	r.t.Helper()
	reply := r.ask(gen.AcquireSharedHowJoin, token, minute)
	require.False(r.t, reply.Granted)
	require.NotZero(r.t, reply.Score)
}

func (r raw) beats(token string) bool {
	r.t.Helper()
	return r.ask(gen.AcquireSharedHowHeartbeat, token, minute).Granted
}

func (r raw) release(token string) bool {
	r.t.Helper()
	freed, err := r.scripts.ReleaseShared(r.t.Context(), r.client, gen.ReleaseSharedParams{
		Lock: key, Holders: holders, Queue: queue, Counter: counter, Grants: grants, Token: token, TTL: minute, Process: r.process,
	})
	require.NoError(r.t, err)
	return freed
}

func (r raw) extend(token string, ttl time.Duration, former ...string) bool {
	r.t.Helper()
	extended, err := r.scripts.ExtendShared(r.t.Context(), r.client, gen.ExtendSharedParams{Lock: key, Holders: holders, Token: token, TTL: ttl, Former: former})
	require.NoError(r.t, err)
	return extended
}

func (r raw) inspect() gen.InspectSharedResult {
	r.t.Helper()
	found, err := r.scripts.InspectShared(r.t.Context(), r.client, gen.InspectSharedParams{Lock: key, Holders: holders})
	require.NoError(r.t, err)
	require.Len(r.t, found.Left, len(found.Members))
	return found
}

// write is a call of Join for the whole lock.
func (r raw) write(how gen.JoinHow, token string) gen.JoinResult {
	r.t.Helper()
	reply, err := r.scripts.Join(r.t.Context(), r.client, gen.JoinParams{
		Lock: key, Queue: queue, Grants: grants, Counter: []string{counter}, Token: token, TTL: minute, Process: r.process, How: how,
	})
	require.NoError(r.t, err)
	return reply
}

func (r raw) pass(token string) bool {
	r.t.Helper()
	freed, err := r.scripts.Pass(r.t.Context(), r.client, gen.PassParams{
		Lock: key, Queue: queue, Grants: grants, Counter: []string{counter}, Token: token, TTL: minute, Process: r.process,
	})
	require.NoError(r.t, err)
	return freed == 1
}

func (r raw) do(words ...string) rueidis.RedisResult { return env.Do(r.t, r.client, words...) }

// nothingLeft requires that the server has nothing but the counter.
func (r raw) nothingLeft() {
	r.t.Helper()
	names, err := r.do("KEYS", "*").AsStrSlice()
	require.NoError(r.t, err)
	require.Subset(r.t, []string{counter}, names)
}

// One script removes 64 waiters at most who would not hear of their grant. After so many, whoever asks for a share
// does not overtake the one that is alive behind them.
func TestScriptShareBehindManyWhoHaveDied(t *testing.T) {
	onScripts(t, func(r raw) {
		for _, dead := range []int{0, 63, 64, 70} {
			require.True(t, r.write(gen.JoinHowJoin, "w").Granted)
			for i := range dead {
				require.NoError(t, r.do("ZADD", queue, fmt.Sprint(i+1), fmt.Sprintf("60000:gone:dead%d", i)).Error())
			}
			r.joins(reader("a"))
			require.NoError(t, r.do("DEL", key).Error())
			require.False(t, r.try(reader("b"), minute).Granted, dead)
			env.Soon(t, func() bool { return r.beats(reader("a")) }, "it is the first that lives") // the first heartbeat may grant it the lock, as to any waiter
			require.True(t, r.release(reader("a")), dead)
		}
		for i := range 64 {
			require.NoError(t, r.do("ZADD", queue, fmt.Sprint(i+1), fmt.Sprintf("60000:gone:dead%d", i)).Error())
		}
		require.True(t, r.try(reader("b"), minute).Granted, "nobody else is alive")
		require.True(t, r.release(reader("b")))
		r.nothingLeft()
	})
}

// Whoever cannot be told of a share has it for two seconds at first, because its process may be dead. Its next
// heartbeat gives it the lease that it has asked for.
func TestScriptShareOfAWaiterThatCannotBeTold(t *testing.T) {
	onScripts(t, func(r raw) {
		const silent = 2 * time.Second
		lefts := func() (left map[string]time.Duration) {
			found := r.inspect()
			left = map[string]time.Duration{}
			for i, member := range found.Members {
				left[member[len(member)-1:]] = found.Left[i]
			}
			return left
		}
		require.True(t, r.write(gen.JoinHowJoin, "w").Granted)
		for _, name := range []string{"a", "b", "c"} {
			r.joins(reader(name))
		}
		require.True(t, r.pass("w"))
		require.LessOrEqual(t, env.TTL(r.t, r.client, key), silent, "a has the whole lock")
		require.True(t, r.beats(reader("a")))
		require.True(t, r.beats(reader("b")))
		left := lefts()
		require.Len(t, left, 3)
		require.Greater(t, left["a"], silent)
		require.Greater(t, left["b"], silent)
		require.LessOrEqual(t, left["c"], silent)
		require.Greater(t, env.TTL(r.t, r.client, key), silent)

		time.Sleep(silent + 100*time.Millisecond)
		require.Len(t, lefts(), 2, "c is dead")
		require.False(t, r.beats(reader("c")))
		require.True(t, r.release(reader("a")))
		require.True(t, r.release(reader("b")))
		r.nothingLeft()
	})
}

// Readers hold a lock together. Everybody else sees an ordinary held lock, which lasts as long as the
// latest lease, and each phase has one fence, above all before it.
func TestScriptReaders(t *testing.T) {
	onScripts(t, func(r raw) {
		first := r.takes(reader("a"), minute)
		require.Equal(t, first, r.takes(reader("b"), 2*minute))
		require.Equal(t, first, r.takes(reader("c"), minute/2))
		require.Equal(t, fmt.Sprintf("rlock:shared %d 0", first), env.Get(r.t, r.client, key))
		require.Error(r.t, r.do("SET", key, "foreign", "NX", "PX", "1000").Error(), "SET NX is refused with nil")
		require.InDelta(r.t, 2*minute, env.TTL(r.t, r.client, key), slow)
		require.InDelta(r.t, 2*minute, env.TTL(r.t, r.client, holders), slow)
		writer := r.write(gen.JoinHowTry, "w")
		require.False(r.t, writer.Granted)
		require.Greater(r.t, writer.Remaining, minute)
		require.Len(r.t, r.inspect().Members, 3)

		require.True(r.t, r.release(reader("b")))
		require.InDelta(r.t, minute, env.TTL(r.t, r.client, key), slow, "the latest lease is another")
		require.False(r.t, r.release(reader("b")), "it has nothing any more")
		require.True(r.t, r.release(reader("a")))
		require.True(r.t, r.release(reader("c")))
		r.nothingLeft()
		require.Greater(r.t, r.takes(reader("a"), minute), first)
	})
}

// A waiter that gives up gets nothing by that call, though it is the first now and a share is free. It would
// keep the share until the lease ends, since nobody knows of it.
func TestScriptLeaverGetsNothing(t *testing.T) {
	onScripts(t, func(r raw) {
		r.takes(reader("a"), minute)
		require.NotZero(r.t, r.write(gen.JoinHowJoin, "w").Score)
		r.joins(reader("b"))
		r.joins(reader("c"))
		require.False(r.t, r.pass("w"))
		require.False(r.t, r.release(reader("b")))
		require.Len(r.t, r.inspect().Members, 2, "of a, and of c, which was behind it")
		require.False(r.t, r.release(reader("b")), "sent again, it changes nothing")
		require.True(r.t, r.release(reader("a")))
		require.True(r.t, r.release(reader("c")))
		r.nothingLeft()
	})
}

// There are never more permits than the limit, and a holder may have several.
func TestScriptPermits(t *testing.T) {
	onScripts(t, func(r raw) {
		r.takes(share(3, 2, "a"), minute)
		r.takes(share(3, 1, "b"), 2*minute)
		reply := r.refused(share(3, 1, "c"))
		require.InDelta(r.t, minute, reply.Remaining, slow, "the first lease that ends")
		require.EqualValues(r.t, -1, reply.Limit)
		require.EqualValues(r.t, 3, r.refused(share(4, 1, "c")).Limit, "another limit")
		require.EqualValues(r.t, 3, r.refused(reader("c")).Limit)
		require.Len(r.t, r.inspect().Members, 3)
		require.True(r.t, r.release(share(3, 1, "b")))
		r.refused(share(3, 2, "c"))
		r.takes(share(3, 1, "c"), minute)
		require.True(r.t, r.release(share(3, 2, "a")))
		require.True(r.t, r.release(share(3, 1, "c")))
		r.nothingLeft()
		for _, token := range []string{share(3, 4, "a"), share(3, 0, "a"), "a", "rlock:share:3:x:a"} {
			_, err := r.scripts.AcquireShared(t.Context(), r.client, gen.AcquireSharedParams{
				Lock: key, Holders: holders, Queue: queue, Counter: counter, Grants: grants, Token: token, TTL: minute, How: gen.AcquireSharedHowTry,
			})
			require.Error(r.t, err, token)
		}
		r.nothingLeft()
	})
}

// A holder that dies does not stay because others extend theirs: its permit is free when its lease
// ends, and the key lasts no longer than the others.
func TestScriptDeadHolder(t *testing.T) {
	onScripts(t, func(r raw) {
		r.takes(share(2, 1, "dead"), 200*time.Millisecond)
		r.takes(share(2, 1, "live"), minute)
		for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
			require.True(r.t, r.extend(share(2, 1, "live"), minute))
		}
		require.Len(r.t, r.inspect().Members, 1)
		require.False(r.t, r.extend(share(2, 1, "dead"), minute), "a lease that is over is not revived")
		require.False(r.t, r.release(share(2, 1, "dead")))
		r.takes(share(2, 1, "next"), minute)
		require.Len(r.t, r.inspect().Members, 2)
	})
}

// After a DEL, a FLUSHALL, an expiry or another holder, the former members are void, whatever is left
// of them.
func TestScriptVoidMembers(t *testing.T) {
	onScripts(t, func(r raw) {
		for name, end := range map[string]func(){
			"DEL":            func() { r.do("DEL", key) },
			"FLUSHALL":       func() { r.do("FLUSHALL") },
			"expiry":         func() { r.do("PEXPIRE", key, "1"); time.Sleep(10 * time.Millisecond) },
			"another holder": func() { r.do("SET", key, "foreign"); r.do("DEL", key) },
		} {
			r.takes(share(2, 1, "a"), minute)
			r.takes(share(2, 1, "b"), minute)
			end()
			require.False(r.t, r.extend(share(2, 1, "a"), minute), name)
			require.False(r.t, r.release(share(2, 1, "a")), name)
			r.takes(share(2, 1, "c"), minute)
			r.takes(share(2, 1, "d"), minute)
			require.False(r.t, r.extend(share(2, 1, "a"), minute), name)
			require.False(r.t, r.release(share(2, 1, "a")), name)
			require.Len(r.t, r.inspect().Members, 2, name)
			require.True(r.t, r.release(share(2, 1, "c")))
			require.True(r.t, r.release(share(2, 1, "d")))
			r.nothingLeft()
		}
	})
}

// What these scripts have not written is never changed, neither under the name of the lock nor under
// that of its holders.
func TestScriptForeignValues(t *testing.T) {
	onScripts(t, func(r raw) {
		for _, write := range [][]string{
			{"ZADD", "", "1", "ann", "2", "bob"}, {"RPUSH", "", "a"}, {"SADD", "", "a"}, {"HSET", "", "a", "b"}, {"SET", "", "text"},
			{"SET", "", "rlock:shared x 0"}, {"SET", "", "rlock:shared 7"}, {"SET", "", "rlock:shared 7 0 "}, {"ZADD", "", "99999999999999", "ann"}, {"XADD", "", "1-1", "a", "b"},
			{"SETBIT", "", "7", "1"}, {"GEOADD", "", "1", "2", "ann"}, {"PFADD", "", "a"},
		} {
			for _, name := range []string{key, holders} {
				r.do("FLUSHALL")
				write[1] = name
				require.NoError(r.t, r.do(write...).Error())
				before, err := r.do("DUMP", name).ToString()
				require.NoError(r.t, err)
				r.everyScript()
				after, err := r.do("DUMP", name).ToString()
				require.NoError(r.t, err)
				require.Equal(r.t, before, after, "%v", write)
				require.Equal(r.t, -time.Millisecond, env.TTL(r.t, r.client, name), "%v", write)
			}
		}
	})
}

// everyScript calls all of them, and does not look at what they answer.
func (r raw) everyScript() {
	ctx, token := r.t.Context(), share(2, 1, "a")
	for _, how := range []gen.AcquireSharedHow{gen.AcquireSharedHowTry, gen.AcquireSharedHowJoin, gen.AcquireSharedHowHeartbeat} {
		_, _ = r.scripts.AcquireShared(ctx, r.client, gen.AcquireSharedParams{
			Lock: key, Holders: holders, Queue: queue, Counter: counter, Grants: grants, Token: token, TTL: minute, How: how,
		})
	}
	_, _ = r.scripts.ExtendShared(ctx, r.client, gen.ExtendSharedParams{Lock: key, Holders: holders, Token: token, TTL: minute, Former: []string{"x"}})
	_, _ = r.scripts.InspectShared(ctx, r.client, gen.InspectSharedParams{Lock: key, Holders: holders})
	_, _ = r.scripts.ChangeLimit(ctx, r.client, gen.ChangeLimitParams{Lock: key, Holders: holders, Queue: queue, Grants: grants, Limit: 7})
	_, _ = r.scripts.ReleaseShared(ctx, r.client, gen.ReleaseSharedParams{
		Lock: key, Holders: holders, Queue: queue, Counter: counter, Grants: grants, Token: token, TTL: minute, Process: r.process,
	})
}

// A call that arrives twice, or late, changes nothing of others, and a release that is repeated ends
// what a late one has begun.
func TestScriptRepeats(t *testing.T) {
	onScripts(t, func(r raw) {
		a := share(2, 1, "a")
		require.Equal(t, r.takes(a, minute), r.takes(a, minute/2))
		require.Len(r.t, r.inspect().Members, 1)
		require.InDelta(r.t, minute, env.TTL(r.t, r.client, key), slow, "the longer lease stays")
		r.takes(share(2, 1, "b"), minute)
		require.True(r.t, r.release(a))
		r.takes(a, minute) // a late first copy
		r.refused(share(2, 1, "c"))
		require.True(r.t, r.release(a))
		r.takes(share(2, 1, "c"), minute)

		// A shorter lease has another token, and late calls with the former one do nothing.
		b, shorter := share(2, 1, "b"), share(2, 1, "b2")
		require.True(r.t, r.extend(shorter, 10*time.Second, b))
		require.False(r.t, r.extend(b, time.Hour))
		require.True(r.t, r.extend(shorter, 5*time.Second, b), "it is repeated")
		require.InDelta(r.t, minute, env.TTL(r.t, r.client, key), float64(2*time.Second))
		require.True(r.t, r.release(share(2, 1, "c")))
		require.InDelta(r.t, 10*time.Second, env.TTL(r.t, r.client, key), slow)
		require.True(r.t, r.extend(shorter, 0))
		require.EqualValues(r.t, -time.Millisecond, r.inspect().Left[0], "it never ends")
		require.EqualValues(r.t, -time.Millisecond, r.inspect().Remaining)
		require.True(r.t, r.release(shorter))
		r.nothingLeft()
	})
}

// The only share keeps its expiry when it gets another token, also if its lease ends when it was to end:
// then nothing about the lock itself changes.
func TestScriptHoldersExpire(t *testing.T) {
	onScripts(t, func(r raw) {
		a, b := share(3, 1, "a"), share(3, 1, "b")
		for i := range 50 { // some of them within the millisecond in which the lease is computed
			r.takes(a, minute)
			end, err := r.do("PEXPIRETIME", key).AsInt64()
			require.NoError(t, err)
			now, err := r.do("EVAL", "local t = redis.call('TIME') return t[1] * 1000 + math.floor(t[2] / 1000)", "0").AsInt64()
			require.NoError(t, err)
			require.True(t, r.extend(b, time.Duration(end-now)*time.Millisecond, a))
			require.Positive(t, env.TTL(t, r.client, holders), "try %d", i)
			require.Len(t, r.inspect().Members, 1)
			require.True(t, r.release(b))
			r.nothingLeft()
		}
	})
}

// A writer that waits stops new readers. It gets the lock when the last reader is gone, and after it
// all readers that wait get in together.
func TestScriptPhases(t *testing.T) {
	onScripts(t, func(r raw) {
		r.takes(reader("a"), minute)
		r.takes(reader("b"), minute)
		require.NotZero(r.t, r.write(gen.JoinHowJoin, "w").Score)
		r.refused(reader("c"))
		for i := range 10 {
			r.joins(reader(fmt.Sprint("late", i)))
		}
		require.NotZero(r.t, r.write(gen.JoinHowJoin, "w2").Score)
		r.joins(reader("after w2"))
		require.True(r.t, r.release(reader("a")))
		require.False(r.t, r.write(gen.JoinHowHeartbeat, "w").Granted)
		require.True(r.t, r.release(reader("b")))
		require.True(r.t, r.write(gen.JoinHowHeartbeat, "w").Granted)
		require.False(r.t, r.beats(reader("late3")))
		require.True(r.t, r.pass("w"))

		require.True(r.t, r.beats(reader("late0")), "the first has got the lock, and shares it with those behind it")
		require.Len(r.t, r.inspect().Members, 10)
		for i := range 10 {
			require.True(r.t, r.beats(reader(fmt.Sprint("late", i))))
		}
		require.False(r.t, r.beats(reader("after w2")))
		require.False(r.t, r.write(gen.JoinHowHeartbeat, "w2").Granted)
		for i := range 10 {
			require.True(r.t, r.release(reader(fmt.Sprint("late", i))))
		}
		require.True(r.t, r.write(gen.JoinHowHeartbeat, "w2").Granted)
		require.True(r.t, r.pass("w2"))
		require.True(r.t, r.release(reader("after w2")), "also before it knows that it has the lock")
		r.nothingLeft()
	})
}

// If the writer that waits gives up, the readers behind it get in while others still read: by the call that
// the reply asks for, or by a heartbeat.
func TestScriptWriterLeaves(t *testing.T) {
	onScripts(t, func(r raw) {
		leaves := func(token string) int64 {
			reply, err := r.scripts.Pass(t.Context(), r.client, gen.PassParams{
				Lock: key, Queue: queue, Grants: grants, Counter: []string{counter}, Token: token, TTL: minute,
			})
			require.NoError(t, err)
			return reply
		}
		r.takes(reader("a"), minute)
		require.Zero(t, leaves("w"), "nobody waits")
		for _, w := range []string{"w", "w2"} {
			require.NotZero(t, r.write(gen.JoinHowJoin, w).Score)
		}
		r.joins(reader("b"))
		r.joins(reader("c"))
		require.Zero(t, leaves("w"), "the first wants the whole lock")
		require.EqualValues(t, 2, leaves("w2"))
		require.EqualValues(t, 2, leaves("w2"), "also if the first reply was lost")
		require.Len(t, r.inspect().Members, 1)
		require.False(t, r.release("w2"), "it had no share")
		found := r.inspect()
		require.Len(t, found.Members, 3)
		require.Zero(t, leaves("w2"), "nobody waits")
		require.True(t, r.beats(reader("b")))
		require.True(t, r.beats(reader("c")))
		found = r.inspect()
		require.Len(t, found.Members, 3)
		for _, left := range found.Left {
			require.InDelta(t, minute, left, slow)
		}

		require.NotZero(t, r.write(gen.JoinHowJoin, "w3").Score)
		r.joins(reader("d"))
		require.False(t, r.pass("w3"))
		require.True(t, r.beats(reader("d")))
	})
}

// Permits go to those who wait in their order: one that wants more than is free stops those behind it.
func TestScriptPermitsInOrder(t *testing.T) {
	onScripts(t, func(r raw) {
		r.takes(share(3, 1, "a"), minute)
		r.takes(share(3, 1, "b"), minute)
		r.takes(share(3, 1, "c"), minute)
		r.joins(share(3, 2, "two"))
		r.joins(share(3, 1, "one"))
		require.True(r.t, r.release(share(3, 1, "a")))
		require.False(r.t, r.beats(share(3, 1, "one")), "the one before it wants two")
		r.refused(share(3, 1, "new"))
		require.True(r.t, r.release(share(3, 1, "b")))
		require.Len(r.t, r.inspect().Members, 3)
		require.True(r.t, r.beats(share(3, 2, "two")))
		require.False(r.t, r.beats(share(3, 1, "one")))
		require.True(r.t, r.release(share(3, 1, "c")))
		require.True(r.t, r.beats(share(3, 1, "one")))
		require.False(r.t, r.release(share(3, 1, "nobody")))
		require.Len(r.t, r.inspect().Members, 3)
	})
}

// Who waits with another limit than the present holders have stops nobody. Its next call is answered with
// their limit, and when the lock is free, it may stand where it stood.
func TestScriptAnotherLimit(t *testing.T) {
	onScripts(t, func(r raw) {
		require.True(t, r.write(gen.JoinHowTry, "w").Granted)
		r.joins(share(2, 1, "a"))
		r.joins(reader("b"))
		r.joins(share(3, 1, "c"))
		r.joins(share(2, 1, "d"))
		require.NotZero(t, r.write(gen.JoinHowJoin, "w2").Score)
		r.joins(reader("e"))
		require.True(t, r.pass("w"))
		require.True(t, r.beats(share(2, 1, "a")))
		require.True(t, r.beats(share(2, 1, "d")))
		for _, token := range []string{reader("b"), share(3, 1, "c"), reader("e")} {
			reply := r.ask(gen.AcquireSharedHowHeartbeat, token, minute)
			require.False(t, reply.Granted)
			require.EqualValues(t, 2, reply.Limit, token)
		}
		require.True(t, r.release(share(2, 1, "a")))
		require.True(t, r.release(share(2, 1, "d")))
		require.True(t, r.write(gen.JoinHowHeartbeat, "w2").Granted, "it was before e")
		reply := r.ask(gen.AcquireSharedHowHeartbeat, reader("b"), minute)
		require.False(t, reply.Granted)
		require.Zero(t, reply.Score, "it has no place any more, and is told so")
		require.EqualValues(t, -1, reply.Limit)
		require.True(t, r.pass("w2"))
		require.True(t, r.beats(reader("e")), "it is still there")
	})
}

// The limit changes only by a call for that, and nobody loses a permit by it.
func TestScriptChangeLimit(t *testing.T) {
	onScripts(t, func(r raw) {
		change := func(limit int64) int64 {
			former, err := r.scripts.ChangeLimit(t.Context(), r.client, gen.ChangeLimitParams{Lock: key, Holders: holders, Queue: queue, Grants: grants, Limit: limit})
			require.NoError(r.t, err)
			return former
		}
		require.EqualValues(r.t, -1, change(2))
		fence := r.takes(share(2, 2, "a"), minute)
		require.EqualValues(r.t, 2, change(3))
		require.Equal(r.t, fence, r.takes(share(3, 1, "b"), minute))
		require.EqualValues(r.t, 3, change(1))
		r.refused(share(1, 1, "c"))
		require.True(r.t, r.extend(share(2, 2, "a"), minute))
		require.True(r.t, r.release(share(2, 2, "a")))
		r.refused(share(1, 1, "c"))
		require.True(r.t, r.release(share(3, 1, "b")))
		r.nothingLeft()
		r.takes(reader("r"), minute)
		require.EqualValues(r.t, 0, change(1), "readers have no limit")
		require.True(r.t, strings.HasSuffix(env.Get(r.t, r.client, key), " 0"))
		require.True(r.t, r.release(reader("r")))
		require.NotZero(r.t, r.write(gen.JoinHowTry, "w").Fence)
		require.EqualValues(r.t, -1, change(1))
		require.Equal(r.t, "w", env.Get(r.t, r.client, key))
	})
}

// A server without memory lets holders extend and give up, and those who wait get what they give up. It
// takes no new one.
func TestScriptWithoutMemory(t *testing.T) {
	onScripts(t, func(r raw) {
		r.takes(share(2, 1, "a"), minute)
		require.NoError(r.t, r.do("CONFIG", "SET", "maxmemory", "1").Error())
		_, err := r.scripts.AcquireShared(t.Context(), r.client, gen.AcquireSharedParams{
			Lock: key, Holders: holders, Queue: queue, Counter: counter, Grants: grants, Token: share(2, 1, "b"), TTL: minute, How: gen.AcquireSharedHowTry,
		})
		require.ErrorContains(r.t, err, "OOM")
		require.True(r.t, r.extend(share(2, 1, "a"), 2*minute))
		require.True(r.t, r.extend(share(2, 1, "a2"), minute, share(2, 1, "a")))
		require.NoError(r.t, r.do("CONFIG", "SET", "maxmemory", "0").Error())
		r.takes(share(2, 1, "b"), minute)
		r.joins(share(2, 1, "c"))
		require.NoError(r.t, r.do("CONFIG", "SET", "maxmemory", "1").Error())
		require.True(r.t, r.release(share(2, 1, "a2")))
		require.True(r.t, r.ask(gen.AcquireSharedHowHeartbeat, share(2, 1, "c"), time.Hour).Granted, "it was let in, and gets a longer lease")
		require.True(r.t, r.release(share(2, 1, "b")))
		require.True(r.t, r.release(share(2, 1, "c")))
		require.NoError(r.t, r.do("CONFIG", "SET", "maxmemory", "0").Error())
		r.nothingLeft()
	})
}
