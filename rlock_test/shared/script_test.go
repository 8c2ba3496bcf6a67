package shared

import (
	"fmt"
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
	waiters = "{t}waiters"
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

func (r raw) ask(how gen.WaitHow, token string, ttl time.Duration) gen.WaitResult {
	r.t.Helper()
	reply, err := r.scripts.Wait(r.t.Context(), r.client, r.params(how, token, ttl))
	require.NoError(r.t, err)
	return reply
}

func (r raw) params(how gen.WaitHow, token string, ttl time.Duration) gen.WaitParams {
	return gen.WaitParams{
		Lock: key, Queue: queue, Waiters: waiters, Holders: holders, Grants: grants, Counter: []string{counter},
		Token: token, TTL: ttl, Process: r.process, How: how,
	}
}

func (r raw) try(token string, ttl time.Duration) gen.WaitResult {
	r.t.Helper()
	return r.ask(gen.WaitHowTry, token, ttl)
}

func (r raw) takes(token string, ttl time.Duration) int64 {
	r.t.Helper()
	reply := r.try(token, ttl)
	require.True(r.t, reply.Granted)
	require.NotZero(r.t, reply.Fence)
	return reply.Fence
}

func (r raw) refused(token string) gen.WaitResult {
	r.t.Helper()
	reply := r.try(token, minute)
	require.False(r.t, reply.Granted)
	require.Zero(r.t, reply.Score)
	return reply
}

// joins has a token stand in the queue.
func (r raw) joins(token string) {
	r.t.Helper()
	reply := r.ask(gen.WaitHowJoin, token, minute)
	require.False(r.t, reply.Granted)
	require.NotZero(r.t, reply.Score)
}

func (r raw) beats(token string) bool {
	r.t.Helper()
	return r.ask(gen.WaitHowHeartbeat, token, minute).Granted
}

func (r raw) release(token string) bool {
	r.t.Helper()
	freed, err := r.scripts.Release(r.t.Context(), r.client, gen.ReleaseParams{
		Lock: key, Queue: queue, Waiters: waiters, Holders: holders, Grants: grants, Counter: []string{counter},
		Token: token,
	})
	require.NoError(r.t, err)
	return freed == 1
}

// extend gives a share another lease, and if a former token has it, another token too.
func (r raw) extend(token string, ttl time.Duration, former ...string) bool {
	r.t.Helper()
	keys := []string{key, holders}
	if len(former) > 0 {
		reply, err := r.scripts.Attach(
			r.t.Context(), r.client, gen.AttachParams{Keys: keys, Token: token, TTL: ttl, Former: former},
		)
		require.NoError(r.t, err)
		return reply.Position == 0
	}
	lost, err := r.scripts.Extend(
		r.t.Context(), r.client, gen.ExtendParams{Keys: keys, TTL: ttl, Tokens: []string{token}},
	)
	require.NoError(r.t, err)
	return len(lost) == 0
}

func (r raw) inspect() gen.InspectResult {
	r.t.Helper()
	found, err := r.scripts.Inspect(
		r.t.Context(), r.client, gen.InspectParams{Keys: []string{key, holders, queue}},
	)
	require.NoError(r.t, err)
	require.Len(r.t, found.Left, len(found.Members))
	return found
}

// write is a call for the whole lock.
func (r raw) write(how gen.WaitHow, token string) gen.WaitResult {
	r.t.Helper()
	return r.ask(how, token, minute)
}

func (r raw) do(words ...string) rueidis.RedisResult { return env.Do(r.t, r.client, words...) }

// nothingLeft requires that the server has nothing but the counter.
func (r raw) nothingLeft() {
	r.t.Helper()
	names, err := r.do("KEYS", "*").AsStrSlice()
	require.NoError(r.t, err)
	require.Subset(r.t, []string{counter}, names)
}

// dead puts a waiter into the queue that nobody would tell of its grant.
func (r raw) dead(i int) {
	token := fmt.Sprint("dead", i)
	require.NoError(r.t, r.do("ZADD", queue, fmt.Sprint(i+1), token).Error())
	require.NoError(
		r.t, r.do("HSET", waiters, token, fmt.Sprint(time.Now().UnixMilli(), " 60000 60000 gone")).Error(),
	)
}

// One script removes 250 waiters at most who would not hear of their grant. After so many, whoever asks for
// a share does not overtake the one that is alive behind them.
func TestScriptShareBehindManyWhoHaveDied(t *testing.T) {
	onScripts(t, func(r raw) {
		for _, dead := range []int{0, 249, 250, 260} {
			require.True(t, r.write(gen.WaitHowJoin, "w").Granted)
			for i := range dead {
				r.dead(i)
			}
			r.joins(reader("a"))
			require.NoError(t, r.do("DEL", key).Error())
			require.False(t, r.write(gen.WaitHowTry, "b").Granted, dead)
			// the first heartbeat may grant it the lock, as to any waiter
			env.Soon(t, func() bool { return r.beats(reader("a")) }, "it is the first that lives")
			require.True(t, r.release(reader("a")), dead)
		}
		for i := range 250 {
			r.dead(i)
		}
		require.True(t, r.try(reader("b"), minute).Granted, "nobody else is alive")
		require.True(t, r.release(reader("b")))
		r.nothingLeft()
	})
}

// Whoever cannot be told of a share has it for two seconds at first, because its process may be dead. Its
// next heartbeat gives it the lease that it has asked for.
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
		require.True(t, r.write(gen.WaitHowJoin, "w").Granted)
		for _, name := range []string{"a", "b", "c"} {
			r.joins(reader(name))
		}
		require.True(t, r.release("w"))
		require.Len(t, lefts(), 3, "all have got in together")
		require.LessOrEqual(t, lefts()["a"], silent)
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
		require.Equal(t, fmt.Sprint("rlock:readers ", first), env.Get(r.t, r.client, key))
		require.Error(r.t, r.do("SET", key, "foreign", "NX", "PX", "1000").Error(), "SET NX is refused with nil")
		for _, name := range []string{key, holders} { // up to one lease longer than the latest lease
			require.Greater(r.t, env.TTL(r.t, r.client, name), 2*minute-10*time.Second)
			require.LessOrEqual(r.t, env.TTL(r.t, r.client, name), 4*minute)
		}
		writer := r.write(gen.WaitHowTry, "w")
		require.False(r.t, writer.Granted)
		require.Greater(r.t, writer.Remaining, minute)
		require.Len(r.t, r.inspect().Members, 3)

		require.True(r.t, r.release(reader("b")))
		require.False(r.t, r.release(reader("b")), "it has nothing any more")
		require.True(r.t, r.release(reader("a")))
		require.True(r.t, r.release(reader("c")))
		r.nothingLeft()
		require.Greater(r.t, r.takes(reader("a"), minute), first)
	})
}

// A waiter that gives up gets nothing by that call, though it is the first now and a permit is free. It would
// keep the permit until the lease ends, since nobody knows of it.
func TestScriptLeaverGetsNothing(t *testing.T) {
	onScripts(t, func(r raw) {
		a, b, c := share(1, 1, "a"), share(1, 1, "b"), share(1, 1, "c")
		r.takes(a, minute)
		r.joins(b)
		r.joins(c)
		require.NoError(
			t,
			r.do(
				"ZADD", holders, "XX", fmt.Sprint(time.Now().Add(-time.Second).UnixMilli()), r.inspect().Members[0],
			).Error(),
		)
		require.False(t, r.release(b))
		require.Equal(t, 1, len(r.inspect().Members))
		require.Contains(t, r.inspect().Members[0], c)
		require.False(t, r.release(b), "sent again, it changes nothing")
		require.True(t, r.release(c))
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
		r.refused(reader("c"))
		require.Len(r.t, r.inspect().Members, 2)
		require.True(r.t, r.release(share(3, 1, "b")))
		r.refused(share(3, 2, "c"))
		r.takes(share(3, 1, "c"), minute)
		require.True(r.t, r.release(share(3, 2, "a")))
		require.True(r.t, r.release(share(3, 1, "c")))
		r.nothingLeft()
		for _, token := range []string{share(3, 4, "a"), share(3, 0, "a"), "rlock:share:3:x:a"} {
			_, err := r.scripts.Wait(t.Context(), r.client, r.params(gen.WaitHowTry, token, minute))
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
		for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end); time.Sleep(
			20 * time.Millisecond) {
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
			{"ZADD", "", "1", "ann", "2", "bob"}, {"RPUSH", "", "a"}, {"SADD", "", "a"}, {"HSET", "", "a", "b"},
			{"SET", "", "text"},
			{"SET", "", "rlock:readers x"}, {"SET", "", "rlock:shared 7"}, {"SET", "", "rlock:readers 7 "},
			{"ZADD", "", "99999999999999", "ann"}, {"XADD", "", "1-1", "a", "b"},
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
	for _, how := range []gen.WaitHow{gen.WaitHowTry, gen.WaitHowJoin, gen.WaitHowHeartbeat} {
		_, _ = r.scripts.Wait(ctx, r.client, r.params(how, token, minute))
	}
	keys := []string{key, holders}
	_, _ = r.scripts.Extend(ctx, r.client, gen.ExtendParams{Keys: keys, TTL: minute, Tokens: []string{token}})
	_, _ = r.scripts.Attach(
		ctx, r.client, gen.AttachParams{Keys: keys, Token: token, TTL: minute, Former: []string{"x"}},
	)
	_, _ = r.scripts.Inspect(ctx, r.client, gen.InspectParams{Keys: []string{key, holders, queue}, Waiters: 9})
	_, _ = r.scripts.Release(ctx, r.client, gen.ReleaseParams{
		Lock: key, Queue: queue, Waiters: waiters, Holders: holders, Grants: grants, Counter: []string{counter},
		Token: token,
	})
}

// A call that arrives twice, or late, changes nothing of others, and a release that is repeated ends
// what a late one has begun.
func TestScriptRepeats(t *testing.T) {
	onScripts(t, func(r raw) {
		a := share(2, 1, "a")
		require.Equal(t, r.takes(a, minute), r.takes(a, minute/2))
		require.Len(r.t, r.inspect().Members, 1)
		require.InDelta(r.t, minute, r.inspect().Left[0], slow, "the longer lease stays")
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
		require.InDelta(r.t, 10*time.Second, r.inspect().Left[0], slow)
		require.True(r.t, r.release(share(2, 1, "c")))
		require.True(r.t, r.extend(shorter, 0))
		require.EqualValues(r.t, -time.Millisecond, r.inspect().Left[0], "it never ends")
		require.EqualValues(r.t, -time.Millisecond, r.inspect().Remaining[0])
		require.True(r.t, r.release(shorter))
		r.nothingLeft()
	})
}

// A writer that waits stops new readers. It gets the lock when the last reader is gone, and after it
// all readers that wait get in together.
func TestScriptPhases(t *testing.T) {
	onScripts(t, func(r raw) {
		r.takes(reader("a"), minute)
		r.takes(reader("b"), minute)
		require.NotZero(r.t, r.write(gen.WaitHowJoin, "w").Score)
		r.refused(reader("c"))
		for i := range 10 {
			r.joins(reader(fmt.Sprint("late", i)))
		}
		require.NotZero(r.t, r.write(gen.WaitHowJoin, "w2").Score)
		r.joins(reader("after w2"))
		require.True(r.t, r.release(reader("a")))
		require.False(r.t, r.write(gen.WaitHowHeartbeat, "w").Granted)
		require.True(r.t, r.release(reader("b")))
		require.True(r.t, r.write(gen.WaitHowHeartbeat, "w").Granted)
		require.False(r.t, r.beats(reader("late3")))
		require.True(r.t, r.release("w"))

		require.True(r.t, r.beats(reader("late0")), "all have got in together")
		require.Len(r.t, r.inspect().Members, 10)
		for i := range 10 {
			require.True(r.t, r.beats(reader(fmt.Sprint("late", i))))
		}
		require.False(r.t, r.beats(reader("after w2")))
		require.False(r.t, r.write(gen.WaitHowHeartbeat, "w2").Granted)
		for i := range 10 {
			require.True(r.t, r.release(reader(fmt.Sprint("late", i))))
		}
		require.True(r.t, r.write(gen.WaitHowHeartbeat, "w2").Granted)
		require.True(r.t, r.release("w2"))
		require.True(r.t, r.release(reader("after w2")), "also before it knows that it has the lock")
		r.nothingLeft()
	})
}

// If the writer that waits gives up, the readers behind it get in while others still read.
func TestScriptWriterLeaves(t *testing.T) {
	onScripts(t, func(r raw) {
		r.takes(reader("a"), minute)
		for _, w := range []string{"w", "w2"} {
			require.NotZero(t, r.write(gen.WaitHowJoin, w).Score)
		}
		r.joins(reader("b"))
		r.joins(reader("c"))
		require.False(t, r.release("w"))
		require.Len(t, r.inspect().Members, 1, "the first wants the whole lock")
		require.False(t, r.release("w2"))
		require.Len(t, r.inspect().Members, 3)
		require.False(t, r.release("w2"), "also if the first reply was lost")
		require.True(t, r.beats(reader("b")))
		require.True(t, r.beats(reader("c")))
		found := r.inspect()
		require.Len(t, found.Members, 3)
		for _, left := range found.Left {
			require.InDelta(t, minute, left, slow)
		}
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
		require.Len(r.t, r.inspect().Members, 2)
		require.True(r.t, r.beats(share(3, 2, "two")))
		require.False(r.t, r.beats(share(3, 1, "one")))
		require.True(r.t, r.release(share(3, 1, "c")))
		require.True(r.t, r.beats(share(3, 1, "one")))
		require.False(r.t, r.release(share(3, 1, "nobody")))
		require.Len(r.t, r.inspect().Members, 2)
	})
}

// Each is admitted by the limit that it names itself, and stands in the one queue of all.
func TestScriptOwnLimits(t *testing.T) {
	onScripts(t, func(r raw) {
		r.takes(share(4, 3, "a"), minute)
		r.refused(share(4, 2, "b"))
		r.takes(share(8, 5, "c"), minute)
		r.refused(share(8, 1, "d"))
		r.joins(share(4, 1, "low"))
		r.joins(share(8, 1, "high"))
		require.True(t, r.release(share(4, 3, "a")))
		require.False(t, r.beats(share(8, 1, "high")), "the one before it waits for its own limit")
		require.False(t, r.beats(share(4, 1, "low")), "five are in use")
		require.True(t, r.release(share(8, 5, "c")))
		require.True(t, r.beats(share(4, 1, "low")))
		require.True(t, r.beats(share(8, 1, "high")))
		require.True(t, r.release(share(4, 1, "low")))
		require.True(t, r.release(share(8, 1, "high")))
		r.nothingLeft()
	})
}

// Readers and holders of permits wait for each other, in the order in which they came.
func TestScriptReadersAndPermits(t *testing.T) {
	onScripts(t, func(r raw) {
		r.takes(share(2, 1, "a"), minute)
		r.joins(reader("b"))
		r.joins(reader("c"))
		r.joins(share(2, 1, "d"))
		require.True(t, r.release(share(2, 1, "a")))
		require.Len(t, r.inspect().Members, 2)
		require.True(t, r.beats(reader("b")))
		require.False(t, r.beats(share(2, 1, "d")))
		require.True(t, r.release(reader("b")))
		require.True(t, r.release(reader("c")))
		require.True(t, r.beats(share(2, 1, "d")))
		require.True(t, r.release(share(2, 1, "d")))
		r.nothingLeft()
	})
}

// If the set of the holders is lost, nobody knows who shares the lock: nobody is let in until the key is
// gone.
func TestScriptHoldersLost(t *testing.T) {
	onScripts(t, func(r raw) {
		r.takes(share(2, 1, "a"), minute)
		require.NoError(t, r.do("DEL", holders).Error())
		r.refused(share(2, 1, "b"))
		require.False(t, r.write(gen.WaitHowTry, "w").Granted)
		require.False(t, r.extend(share(2, 1, "a"), minute))
		require.False(t, r.release(share(2, 1, "a")))
		r.refused(share(2, 1, "b"))
		require.NoError(t, r.do("DEL", key).Error())
		r.takes(share(2, 1, "b"), minute)
		require.True(t, r.release(share(2, 1, "b")))
		r.nothingLeft()
	})
}

// A server without memory lets holders extend and give up, and those who wait get what they give up. It
// takes no new one.
func TestScriptWithoutMemory(t *testing.T) {
	onScripts(t, func(r raw) {
		r.takes(share(2, 1, "a"), minute)
		require.NoError(r.t, r.do("CONFIG", "SET", "maxmemory", "1").Error())
		_, err := r.scripts.Wait(t.Context(), r.client, r.params(gen.WaitHowTry, share(2, 1, "b"), minute))
		require.ErrorContains(r.t, err, "OOM")
		require.True(r.t, r.extend(share(2, 1, "a"), 2*minute))
		require.True(r.t, r.extend(share(2, 1, "a2"), minute, share(2, 1, "a")))
		require.NoError(r.t, r.do("CONFIG", "SET", "maxmemory", "0").Error())
		r.takes(share(2, 1, "b"), minute)
		r.joins(share(2, 1, "c"))
		require.NoError(r.t, r.do("CONFIG", "SET", "maxmemory", "1").Error())
		require.True(r.t, r.release(share(2, 1, "a2")))
		require.True(
			r.t, r.ask(gen.WaitHowHeartbeat, share(2, 1, "c"), time.Hour).Granted,
			"it was let in, and gets a longer lease",
		)
		require.True(r.t, r.release(share(2, 1, "b")))
		require.True(r.t, r.release(share(2, 1, "c")))
		require.NoError(r.t, r.do("CONFIG", "SET", "maxmemory", "0").Error())
		r.nothingLeft()
	})
}
