package cost

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Readers of many processes do not wake each other. Each extends its own lease when a third of it is over,
// and that costs the others nothing: neither a look at the key nor an extension.
func TestReadersOfManyProcesses(t *testing.T) {
	t.Parallel()
	const readers, ttl, times = 80, 6 * time.Second, 3
	server := env.Start(t)
	opts := []rlock.Option{rlock.WithTTL(ttl), rlock.WithAutoExtend(true)}
	lockers := make([]*rlock.Locker, readers)
	locks := make([]*rlock.Lock, readers)
	for i := range lockers {
		lockers[i] = env.OpenLocker(t, server.Option())
		locks[i] = env.MustLock(t)(lockers[i].AcquireShared(t.Context(), "job", opts...))
	}
	extended := func() (sum int64) {
		for _, l := range lockers {
			sum += int64(l.Stats().Extended)
		}
		return sum
	}
	// Each has been extended: it has the script by then, and is in step with none of the others.
	env.Soon(t, func() bool {
		return !slices.ContainsFunc(lockers, func(l *rlock.Locker) bool { return l.Stats().Extended < 1 })
	}, "all are extended")
	start, done, before := time.Now(), extended(), server.ScriptCalls(t)
	env.Soon(t, func() bool { return extended()-done >= times*readers }, "all are extended more often")
	took := time.Since(start)
	scripts := server.ScriptCalls(t) - before
	done = extended() - done
	t.Logf("%.1f scripts and %.1f extensions a second of %d readers",
		float64(scripts)/took.Seconds(), float64(done)/took.Seconds(), readers)
	// One of each may be under way at either end. An extension that is late, and gets no answer in time, is
	// sent again.
	require.LessOrEqual(t, scripts, done+readers)
	for _, lock := range locks {
		require.NoError(t, lock.Err())
	}
}

// What the scripts of these tests use.
const (
	manyKey     = "{m}lock"
	manyQueue   = "{m}queue"
	manyWaiters = "{m}waiters"
	manyHolders = "{m}holders"
	manyCounter = "{m}fence"
	manyGrants  = "{m}grant:"
	many        = 1000
	mostPurged  = 64  // holders whose lease is over, by one script
	mostServed  = 100 // of the queue, by one script
	mostTaken   = 250 // out of the queue, by one script
)

// crowded calls the scripts on a server with many holders or many who wait, and asks the server how long each
// took: how busy the machine is matters less then.
type crowded struct {
	t       *testing.T
	client  rueidis.Client
	scripts *gen.Scripts
	took    map[string][]time.Duration
}

func newCrowded(t *testing.T, e env.Engine) *crowded {
	client := e.Start(t).Client(t)
	c := &crowded{t, client, gen.New(), map[string][]time.Duration{}}
	require.NoError(t, c.scripts.Load(t.Context(), client))
	return c
}

// listen has the server see that somebody listens in a process.
func (c *crowded) listen(process string) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	c.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		subscribe := c.client.B().Ssubscribe().Channel(manyGrants + process).Build()
		_ = c.client.Receive(ctx, subscribe, func(rueidis.PubSubMessage) {})
	}()
	env.Soon(c.t, func() bool {
		reply, err := c.do("PUBSUB", "SHARDNUMSUB", manyGrants+process).ToArray()
		require.NoError(c.t, err)
		n, _ := reply[1].AsInt64()
		return n == 1
	}, "it listens")
}

func (c *crowded) do(words ...string) rueidis.RedisResult { return env.Do(c.t, c.client, words...) }

func (c *crowded) count(command, name string) int {
	c.t.Helper()
	n, err := c.do(command, name).AsInt64()
	require.NoError(c.t, err)
	return int(n)
}

// timed makes one call of a script, and notes for how long the server was busy with it.
func (c *crowded) timed(what string, call func()) {
	c.t.Helper()
	require.NoError(c.t, c.do("CONFIG", "RESETSTAT").Error())
	call()
	text, err := c.do("INFO", "commandstats").ToString()
	require.NoError(c.t, err)
	_, stat, found := strings.Cut(text, "cmdstat_evalsha")
	require.True(c.t, found, text)
	_, stat, _ = strings.Cut(stat, "usec=")
	stat, _, _ = strings.Cut(stat, ",")
	usec, err := strconv.Atoi(stat)
	require.NoError(c.t, err)
	c.took[what] = append(c.took[what], time.Duration(usec)*time.Microsecond)
}

// report logs the median and the longest time of each script.
func (c *crowded) report() {
	for _, what := range slices.Sorted(maps.Keys(c.took)) {
		times := c.took[what]
		slices.Sort(times)
		c.t.Logf("%-40s median %v, longest %v of %d", what, times[len(times)/2], times[len(times)-1], len(times))
	}
}

func (c *crowded) wait(how gen.WaitHow, token string) (reply gen.WaitResult) {
	c.t.Helper()
	reply, err := c.scripts.Wait(c.t.Context(), c.client, gen.WaitParams{
		Lock: manyKey, Queue: manyQueue, Waiters: manyWaiters, Holders: manyHolders, Grants: manyGrants,
		Counter: []string{manyCounter}, Token: token, TTL: time.Minute, How: how,
	})
	require.NoError(c.t, err)
	return reply
}

func (c *crowded) release(token string) bool {
	c.t.Helper()
	freed, err := c.scripts.Release(c.t.Context(), c.client, gen.ReleaseParams{
		Lock: manyKey, Queue: manyQueue, Waiters: manyWaiters, Holders: manyHolders, Grants: manyGrants,
		Counter: []string{manyCounter}, Token: token,
	})
	require.NoError(c.t, err)
	return freed == 1
}

func (c *crowded) extend(token string) bool {
	c.t.Helper()
	lost, err := c.scripts.Extend(c.t.Context(), c.client, gen.ExtendParams{
		Keys: []string{manyKey, manyHolders}, TTL: time.Minute, Tokens: []string{token},
	})
	require.NoError(c.t, err)
	return len(lost) == 0
}

func (c *crowded) inspect() gen.InspectResult {
	c.t.Helper()
	found, err := c.scripts.Inspect(c.t.Context(), c.client, gen.InspectParams{
		Keys: []string{manyKey, manyHolders, manyQueue}, Waiters: many,
	})
	require.NoError(c.t, err)
	return found
}

// crowd has so many hold shares of the lock, without as many calls, and all but the first of them dead.
func (c *crowded) crowd(permits bool, over bool) (live string, phase string) {
	c.t.Helper()
	token := func(i int) (string, int) {
		if permits {
			return fmt.Sprintf("rlock:share:%d:%d:holder%d", 10*many, 1+i%7, i), 1 + i%7
		}
		return fmt.Sprintf("rlock:share:0:1:holder%d", i), 1
	}
	require.NoError(c.t, c.do("DEL", manyKey, manyHolders, manyQueue, manyWaiters).Error())
	live, used := token(0)
	require.True(c.t, c.wait(gen.WaitHowTry, live).Granted)
	value, err := c.do("GET", manyKey).ToString()
	require.NoError(c.t, err)
	phase = value[strings.LastIndex(value, " ")+1:]
	ends := fmt.Sprint(time.Now().Add(time.Hour).UnixMilli())
	if over {
		ends = "100000000001"
	}
	words := []string{"ZADD", manyHolders}
	for i := 1; i < many; i++ {
		name, n := token(i)
		used += n
		words = append(words, ends, fmt.Sprint(phase, " ", n, " ", name))
	}
	require.NoError(c.t, c.do(words...).Error())
	require.NoError(c.t, c.do("ZADD", manyHolders, fmt.Sprint(used), phase).Error())
	return live, phase
}

// No script is busy for long with a thousand holders, whether their leases have ended or not: one removes
// 64 of those who are dead at most, and the next goes on, while the others keep their shares.
func TestThousandHolders(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		c := newCrowded(t, e)
		rounds := 20
		if testing.Short() {
			rounds = 3
		}
		for range rounds {
			for _, permits := range []bool{false, true} {
				other := "rlock:share:0:1:other"
				if permits {
					other = fmt.Sprintf("rlock:share:%d:3:other", 10*many)
				}
				for name, call := range map[string]func(live string){
					"try":              func(string) { require.True(t, c.wait(gen.WaitHowTry, other).Granted) },
					"join, whole lock": func(string) { require.False(t, c.wait(gen.WaitHowJoin, "w").Granted) },
					"release":          func(live string) { require.True(t, c.release(live)) },
					"extend":           func(live string) { require.True(t, c.extend(live)) },
					"inspect":          func(string) { c.inspect() },
				} {
					for _, over := range []bool{false, true} {
						live, phase := c.crowd(permits, over)
						before := c.count("ZCARD", manyHolders)
						c.timed(fmt.Sprintf("%s, permits %v, over %v", name, permits, over), func() { call(live) })
						after := c.count("ZCARD", manyHolders)
						if name == "release" && over { // none is left who lives
							require.Zero(t, after)
							continue
						}
						require.GreaterOrEqual(t, after, before-mostPurged-1, name)
						if !over {
							require.GreaterOrEqual(t, after, before-1, name)
							continue
						}
						// The next scripts go on where that one stopped, in the same phase.
						for rest := after; name == "try" && rest > 2+1; {
							require.True(t, c.extend(live))
							now := c.count("ZCARD", manyHolders)
							require.Less(t, now, rest)
							require.GreaterOrEqual(t, now, rest-mostPurged)
							rest = now
						}
						value, err := c.do("GET", manyKey).ToString()
						require.NoError(t, err)
						require.Contains(t, value, " "+phase)
					}
				}
				// All of them are dead: the lock is free at once.
				_, phase := c.crowd(permits, true)
				members, err := c.do("ZRANGE", manyHolders, "-1", "-1").AsStrSlice()
				require.NoError(t, err)
				require.NoError(t, c.do("ZADD", manyHolders, "100000000001", members[0]).Error())
				c.timed(fmt.Sprintf("whole lock after all, permits %v", permits), func() {
					require.True(t, c.wait(gen.WaitHowTry, "w").Granted, phase)
				})
				require.True(t, c.release("w"))
			}
		}
		c.report()
	})
}

// No script is busy for long with a thousand who wait, dead or alive: one takes out 250 of them at most, and
// serves 100, and the next heartbeat goes on.
func TestThousandWaiters(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		c := newCrowded(t, e)
		c.listen("live")
		rounds := 20
		if testing.Short() {
			rounds = 3
		}
		for range rounds {
			for name, token := range map[string]string{
				"whole locks": "waiter%d",
				"readers":     "rlock:share:0:1:waiter%d",
				"permits":     "rlock:share:10000:3:waiter%d",
			} {
				// Nobody listens in the one that is dead. The empty one is not told. Of one that is silent, nothing was
				// heard for so long that the server asks it to beat.
				for _, process := range []string{"dead", "", "live", "silent"} {
					process, silent := process, process == "silent"
					if silent {
						process = "live"
					}
					require.NoError(t, c.do("DEL", manyKey, manyHolders, manyQueue, manyWaiters).Error())
					require.True(t, c.wait(gen.WaitHowTry, "w").Granted)
					queue := []string{"ZADD", manyQueue}
					for i := range many {
						queue = append(queue, fmt.Sprint(i+1), fmt.Sprintf(token, i))
					}
					require.NoError(t, c.do(queue...).Error())
					hear := func() { // of all of them, however busy the machine is
						heard := time.Now()
						if silent {
							heard = heard.Add(-3 * time.Second)
						}
						entry := fmt.Sprint(heard.UnixMilli(), " 60000 60000 ", process)
						words := []string{"HSET", manyWaiters}
						for i := range many {
							words = append(words, fmt.Sprintf(token, i), entry)
						}
						require.NoError(t, c.do(words...).Error())
					}
					hear()
					last := fmt.Sprintf(token, many)
					what := fmt.Sprintf("%s, process %q, silent %v", name, process, silent)
					c.timed("join behind "+what, func() { require.False(t, c.wait(gen.WaitHowJoin, last).Granted) })
					c.timed("inspect "+what, func() { require.Len(t, c.inspect().Waiting, 2*many) })
					if silent { // it is waited for, and a part of the others is asked with it
						c.timed("release with "+what, func() { require.True(t, c.release("w")) })
						c.timed("heartbeat behind "+what, func() {
							require.False(t, c.wait(gen.WaitHowHeartbeat, last).Granted)
						})
						require.GreaterOrEqual(t, c.count("ZCARD", manyQueue), many+1-2*mostTaken)
						continue
					}
					most := mostServed
					if process == "dead" {
						most = mostTaken
					}
					served := func(call func()) {
						t.Helper()
						hear()
						before := c.count("ZCARD", manyQueue)
						call()
						require.LessOrEqual(t, before-c.count("ZCARD", manyQueue), most)
					}
					served(func() { c.timed("release with "+what, func() { require.True(t, c.release("w")) }) })
					if process != "dead" && name == "whole locks" {
						continue // one of them has it
					}
					// The others get in, or are taken out, by the heartbeats of the last.
					for beats := 0; c.count("EXISTS", manyQueue) > 0; beats++ {
						require.LessOrEqual(t, beats, 4*many/mostServed, "each of them goes on")
						served(func() { c.timed("heartbeat behind "+what, func() { c.wait(gen.WaitHowHeartbeat, last) }) })
					}
					holders := c.inspect()
					require.Len(t, holders.Values, 1)
					switch {
					case process != "dead":
						require.Len(t, holders.Members, many+1)
					case name == "whole locks":
						require.Equal(t, last, holders.Values[0].V)
					default:
						require.Len(t, holders.Members, 1)
					}
				}
			}
		}
		c.report()
	})
}
