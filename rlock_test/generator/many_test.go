package generator

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// one is a lock among many, and what the server has of it before a call.
type one struct {
	lock, queue, waiters, holders, counter, token string
	fenced                                        bool
	state                                         [][]string
}

// The states of a lock, of its queue and of its fence counter. <K>, <Q>, <W>, <H>, <C> and <T> stand for
// their keys and for the token of the call, a tilde for a space within a word, and <NOW> for the time of
// the server.
var (
	lockStates = map[string]string{
		"free": "", "own": "SET <K> <T> PX 6000000", "another's": "SET <K> other PX 6000000",
		"another's for ever": "SET <K> other",
		"no string":          "RPUSH <K> x", "empty": "SET <K>|", // the bar stands for an empty string
		"shared": "SET <K> rlock:readers~7 PX 6000000;ZADD <H> 1 7 99999999999999 7~1~rlock:share:0:1:x",
	}
	queueStates = map[string]string{
		"no queue": "", "one listens": "ZADD <Q> 5 p-<T>;HSET <W> p-<T> <NOW>~60000~2000000~p",
		"nobody listens": "ZADD <Q> 5 g-<T>;HSET <W> g-<T> <NOW>~60000~2000000~gone",
		"the second listens": "ZADD <Q> 5 g-<T> 6 p-<T>;HSET <W> g-<T> <NOW>~60000~2000000~gone p-<T> " +
			"<NOW>~60000~2000000~p",
		"silent":    "ZADD <Q> 5 s-<T>;HSET <W> s-<T> <NOW>~60000~2000000~",
		"dead":      "ZADD <Q> 5 s-<T>;HSET <W> s-<T> 1~2000~2000000~p",
		"not known": "ZADD <Q> 5 nobody",
		"own place": "ZADD <Q> 5 <T> 7 p-<T>;HSET <W> <T> <NOW>~60000~2000000~p p-<T> " +
			"<NOW>~60000~2000000~p",
		"no queue but a string": "SET <Q> x",
	}
	counterStates = map[string]string{
		"unfenced": "none", "new": "", "behind the clock": "SET <C> 5",
		"before the clock": "SET <C> 9000000000000000",
		"no number":        "SET <C> x", "at its end": "SET <C> 9223372036854775807", "no counter": "RPUSH <C> x",
	}
)

// everyone returns a lock for each combination of states, in any order.
func everyone() []one {
	var all []one
	for _, lock := range lockStates {
		for _, queue := range queueStates {
			for _, counter := range counterStates {
				all = append(all, named(len(all), lock, queue, counter))
			}
		}
	}
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return all
}

// named returns the lock with that number in these states.
func named(n int, lock, queue, counter string) one {
	i := strconv.Itoa(n)
	o := one{
		lock: "{1}k" + i, queue: "rlock:queue:{1}:k" + i, waiters: "rlock:waiters:{1}:k" + i,
		holders: "rlock:holders:{1}:k" + i, counter: "{1}c" + i, token: "token" + i, fenced: counter != "none",
	}
	for _, words := range []string{lock, queue, counter} {
		if words == "" || words == "none" {
			continue
		}
		names := strings.NewReplacer(
			" ", "\n", "|", "\n", "<K>", o.lock, "<Q>", o.queue, "<W>", o.waiters, "<H>", o.holders, "<C>", o.counter,
			"<T>", o.token, "~", " ",
		)
		for command := range strings.SplitSeq(words, ";") {
			o.state = append(o.state, strings.Split(names.Replace(command), "\n"))
		}
	}
	return o
}

// others reports whether another token has the lock.
func (o one) others() bool {
	return len(o.state) > 0 && o.state[0][0] == "SET" && o.state[0][1] == o.lock && o.state[0][2] != o.token
}

// world is a server with some of them.
type world struct {
	line
	user   rueidis.Client // who calls
	locks  []one
	heard  <-chan string
	full   bool   // the server has no memory left
	denied string // what the user may not do; a counter may then count for a call that fails, and once more when it is repeated
}

// tryEach takes each lock with Wait, or with Acquire where that is enough, and tells what came of it. It
// leaves out what Acquire does not look at because somebody has the lock: a queue of another type, and a
// place of the token, which no token has before its first try.
func (w world) tryEach(short bool) []string {
	told := make([]string, len(w.locks))
	for i, o := range w.locks {
		state := fmt.Sprint(o.state)
		if o.others() && strings.Contains(state, "SET "+o.queue) || strings.Contains(state, " 5 "+o.token+" ") {
			continue
		}
		ttl := ttlOf(i)
		if short {
			p := gen.AcquireParams{Lock: o.lock, Queue: o.queue, Token: o.token, TTL: ttl}
			if o.fenced {
				p.Counter = []string{o.counter}
			}
			r, err := w.scripts.Acquire(w.Context(), w.user, p)
			if told[i] = tried(r.Outcome, r.Value, err); told[i] != "" {
				continue
			}
		}
		told[i] = w.join(o, ttl)
	}
	return told
}

// ttlOf is the lease for which the lock with that number is taken; every other one never expires.
func ttlOf(i int) time.Duration { return []time.Duration{2000 * time.Second, 0}[i%2] }

// join takes a lock with Wait, and tells what came of it.
func (w world) join(o one, ttl time.Duration) string {
	p := gen.WaitParams{
		Lock: o.lock, Queue: o.queue, Waiters: o.waiters, Holders: o.holders, Grants: grants, Token: o.token,
		TTL: ttl, Process: "p", How: gen.WaitHowTry,
	}
	if o.fenced {
		p.Counter = []string{o.counter}
	}
	return result(w.scripts.Wait(w.Context(), w.user, p))
}

// tried tells what came of a try as Wait would; "": nothing is done.
func tried(outcome, value int64, err error) string {
	switch {
	case err != nil:
		return failure(err)
	case outcome == 1:
		return result(gen.WaitResult{Granted: true, Fence: value}, nil)
	case outcome == 2:
		return result(gen.WaitResult{Remaining: time.Duration(value) * time.Millisecond}, nil)
	}
	return ""
}

// try takes each lock, and tells what came of it.
func (w world) try(together bool) []string {
	told := make([]string, len(w.locks))
	if together {
		var order []int
		var p gen.AcquireManyParams
		for _, fenced := range []bool{true, false} {
			for i, o := range w.locks {
				if o.fenced == fenced {
					order = append(order, i)
				}
			}
		}
		for _, i := range order {
			p.Keys = append(p.Keys, w.locks[i].lock)
			p.Words = append(p.Words, w.locks[i].token, []string{"2000000", ""}[i%2])
		}
		for _, i := range order {
			p.Keys = append(p.Keys, w.locks[i].queue)
		}
		for _, i := range order {
			if w.locks[i].fenced {
				p.Keys = append(p.Keys, w.locks[i].counter)
			}
		}
		items, err := w.scripts.AcquireMany(w.Context(), w.user, p)
		if err != nil {
			items = make([]gen.AcquireManyItem, len(order))
		}
		for n, i := range order {
			r := items[n]
			told[i] = tried(r.Outcome, r.Value, nil)
		}
	}
	for i, o := range w.locks {
		if told[i] == "" {
			told[i] = w.join(o, ttlOf(i))
		}
	}
	return told
}

// pass releases each lock, and tells what came of it.
func (w world) passAll(together bool) []string {
	freed := make([]int64, len(w.locks))
	if together {
		p := gen.ReleaseManyParams{Locks: int64(len(w.locks))}
		for _, o := range w.locks {
			p.Keys = append(p.Keys, o.lock)
			p.Tokens = append(p.Tokens, o.token)
		}
		for _, o := range w.locks {
			p.Keys = append(p.Keys, o.queue)
		}
		if replies, err := w.scripts.ReleaseMany(w.Context(), w.user, p); err == nil {
			freed = replies
		}
	}
	told := make([]string, len(w.locks))
	for i, o := range w.locks {
		if told[i] = "true <nil>"; freed[i] == 0 {
			ok, err := w.scripts.Release(w.Context(), w.user, gen.ReleaseParams{
				Lock: o.lock, Queue: o.queue, Waiters: o.waiters, Holders: o.holders, Grants: grants,
				Counter: []string{o.counter}, Token: o.token,
			})
			if told[i] = fmt.Sprint(ok == 1, " <nil>"); err != nil {
				told[i] = failure(err)
			}
		}
	}
	return told
}

// result writes what two runs have in common.
func result(r gen.WaitResult, err error) string {
	if err != nil {
		return failure(err)
	}
	if r.Granted { // what was confirmed keeps the longer lease, which not every script tells
		r.Remaining = 0
	}
	return fmt.Sprint(r.Granted, " ", number(r.Fence), " ", about(r.Remaining), " ", r.Score, " ", r.Ahead)
}

// about writes a remaining time as two runs have it in common, however slow the machine is.
func about(left time.Duration) string {
	switch {
	case left < 0:
		return "no end"
	case left <= 30*time.Second:
		return "as a queue"
	}
	return left.Round(1000 * time.Second).String()
}

// failure writes an error without the line of the script.
func failure(err error) string {
	text, _, _ := strings.Cut(err.Error(), " script: ")
	return strings.Replace(text, "gen: Acquire: ", "gen: Wait: ", 1)
}

// number writes a fence. Those that come from the clock differ between two runs.
func number(n int64) string {
	if now := time.Now().UnixMicro(); n > now-600e6 && n < now+600e6 {
		return "clock"
	}
	return strconv.FormatInt(n, 10)
}

// dump writes what the server has of a lock.
func (w world) dump(o one) string {
	var text []string
	for _, key := range []string{o.lock, o.queue, o.waiters, o.holders, o.counter} {
		kind, err := env.Do(w.T, w.client, "TYPE", key).ToString()
		require.NoError(w, err)
		value := ""
		switch kind {
		case "string":
			value = env.Get(w.T, w.client, key)
			if n, err := strconv.ParseInt(value, 10, 64); err == nil {
				if value = number(n); w.denied != "" {
					value = "a number"
				}
			}
		case "zset":
			members, err := env.Do(w.T, w.client, "ZRANGE", key, "0", "-1", "WITHSCORES").ToAny()
			require.NoError(w, err)
			value = fmt.Sprint(members)
		case "hash":
			tokens, err := env.Do(w.T, w.client, "HKEYS", key).AsStrSlice()
			require.NoError(w, err)
			slices.Sort(tokens)
			value = fmt.Sprint(tokens)
		}
		left, err := env.Do(w.T, w.client, "PTTL", key).ToInt64()
		require.NoError(w, err)
		text = append(text, fmt.Sprint(kind, " ", value, " ", about(time.Duration(left)*time.Millisecond)))
	}
	return strings.Join(text, "; ")
}

// grantsTold returns the grants that the process was told of, in any order.
func (w world) grantsTold() (messages []string) {
	require.NoError(w, env.Do(w.T, w.client, "SPUBLISH", grants+"p", "last").Error())
	for m := range w.heard {
		if m == "last" {
			break
		}
		if strings.HasPrefix(m, "beat ") { // the calls have taken so long that they are made again
			continue
		}
		words := strings.SplitN(m, " ", 3)
		fence, err := strconv.ParseInt(words[1], 10, 64)
		require.NoError(w, err)
		messages = append(messages, fmt.Sprint(words[0], " ", number(fence), " ", words[2]))
	}
	slices.Sort(messages)
	return messages
}

// run makes the state, calls, and returns what came of it.
func (w world) run(call func(together bool) []string, together bool) (told []string, messages []string) {
	w.Helper()
	require.NoError(w, env.Do(w.T, w.client, "CONFIG", "SET", "maxmemory", "0").Error())
	require.NoError(w, env.Do(w.T, w.client, "FLUSHALL").Error())
	var commands rueidis.Commands
	now := strconv.FormatInt(time.Now().UnixMilli(), 10)
	for _, o := range w.locks {
		for _, words := range o.state {
			words = strings.Split(strings.ReplaceAll(strings.Join(words, "\n"), "<NOW>", now), "\n")
			commands = append(commands, w.client.B().Arbitrary(words...).Build())
		}
	}
	if w.full {
		commands = append(commands, w.client.B().Arbitrary("CONFIG", "SET", "maxmemory", "1").Build())
	}
	for _, reply := range w.client.DoMulti(w.Context(), commands...) {
		require.NoError(w, reply.Error())
	}
	told = call(together)
	for i, o := range w.locks {
		told[i] += "; " + w.dump(o)
	}
	return told, w.grantsTold()
}

// same requires that one script for many locks does what a script for each of them does.
func (w world) same(call func(w world) func(bool) []string) {
	w.Helper()
	for batch := range slices.Chunk(everyone(), 128) {
		w.sameOf(batch, call)
	}
}

// sameOf is same for some locks. A grant to a waiter that cannot be told lasts two seconds: what has taken
// longer on a busy machine says nothing, and is done again with half as many locks.
func (w world) sameOf(batch []one, call func(w world) func(bool) []string) {
	w.Helper()
	w.locks = batch
	began := time.Now()
	each, granted := w.run(call(w), false)
	between := time.Now()
	together, grantedTogether := w.run(call(w), true)
	if max(between.Sub(began), time.Since(between)) > silentLease*9/10 {
		for half := range slices.Chunk(batch, (len(batch)+1)/2) {
			w.sameOf(half, call)
		}
		return
	}
	for i := range each {
		require.Equal(w, each[i], together[i], "number %d of %d: %q", i+1, len(batch), batch[i].state)
	}
	require.Equal(w, granted, grantedTogether)
}

// userWith returns a client of a user who may do all but what the rules deny.
func userWith(t *testing.T, server *env.Server, rules ...string) rueidis.Client {
	server.Do(t, append([]string{"ACL", "SETUSER", "app", "reset", "on", ">secret", "~*", "&*", "+@all"},
		rules...)...)
	return server.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "app", "secret" })
}

// One script for many locks, with a call for each that it leaves alone, does what a call for each does, and
// so does the short script for one lock: whatever state a lock is in, whatever error the server has for it,
// and wherever it stands.
func TestManyAreAsEach(t *testing.T) {
	t.Parallel()
	manyAsEach(t, func(t *testing.T, _ *env.Server, name string, w world, call func(world) func(bool) []string) {
		t.Run(name, func(t *testing.T) {
			w := w
			w.T = t
			for range 3 {
				w.same(call)
			}
		})
		t.Run(name+", without memory", func(t *testing.T) {
			w := w
			w.T, w.full = t, true
			w.same(call)
		})
	})
}

// So it does for a user who lacks the right to a command, or to one of the keys.
func TestManyAreAsEachWithoutARight(t *testing.T) {
	t.Parallel()
	env.Long(t)
	manyAsEach(t, func(t *testing.T, server *env.Server, name string, w world,
		call func(world) func(bool) []string) {
		for _, denied := range []string{
			"-get", "-mget", "-exists", "-set", "-del", "-incr", "-time", "-pttl", "-zrem", "-zadd", "-zrange",
			"-zcard",
			"-spublish", "-pubsub|shardnumsub", "-pexpire",
		} {
			switch {
			case name == "release" && denied == "-set": // nobody without it has a lock to release
				continue
			case name == "release" && denied == "-get": // for many locks, MGET reads the tokens
				continue
			case name != "release" && (denied == "-get" || denied == "-zrange"):
				continue // to take a lock that is free, the short scripts need neither
			}
			if name == "take one" {
				continue // Acquire needs fewer rights than Wait
			}
			t.Run(name+", with "+denied, func(t *testing.T) {
				w := w
				w.T, w.user, w.denied = t, userWith(t, server, denied), denied
				w.same(call)
			})
		}
		t.Run(name+", without the right to a key", func(t *testing.T) {
			for _, key := range []string{"{1}k0", "rlock:queue:{1}:k100", "{1}c335"} {
				rules := []string{"resetkeys", "~" + grants}
				for _, o := range everyone() {
					for _, k := range []string{o.lock, o.queue, o.waiters, o.holders, o.counter} {
						if k != key {
							rules = append(rules, "~"+k)
						}
					}
				}
				w := w
				w.T, w.user = t, userWith(t, server, rules...)
				w.same(call)
			}
		})
	})
}

// manyAsEach calls test on each engine for the calls that take locks, and for those that release them.
func manyAsEach(t *testing.T, test func(t *testing.T, server *env.Server, name string, w world,
	call func(world) func(bool) []string)) {
	t.Helper()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		w := world{line: newLine(t, client), user: client}
		w.heard = w.listen("p")
		test(t, server, "take", w, func(w world) func(bool) []string { return w.try })
		test(t, server, "take one", w, func(w world) func(bool) []string { return w.tryEach })
		test(t, server, "release", w, func(w world) func(bool) []string { return w.passAll })
	})
}

// A lock that one script names twice is released once, by the first who holds it, whether or not anybody
// waits for one of the others. It is free then, and the rest are as ever.
func TestManyReleasesOfOneLock(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.Start(t).Client(t)
		scripts := gen.New()
		for name, waits := range map[string]bool{"nobody waits": false, "somebody waits for another": true} {
			for i, test := range []struct {
				names, tokens string
				freed         []int64
				left          string // who has a and b then
			}{
				{"a a b", "A A B", []int64{1, 0, 1}, " "},
				{"a b a", "wrong B A", []int64{0, 1, 1}, " "},
				{"a a a b", "wrong A A wrong", []int64{0, 1, 0, 0}, " B"},
				{"a a", "wrong wrong", []int64{0, 0}, "A B"},
				{"b a", "B A", []int64{1, 1}, " "},
			} {
				var p gen.ReleaseManyParams
				for _, key := range strings.Fields(test.names) {
					p.Keys = append(p.Keys, "{1}"+key)
				}
				p.Tokens = strings.Fields(test.tokens)
				locks := len(p.Tokens)
				for _, key := range p.Keys[:locks] {
					p.Keys = append(p.Keys, "rlock:queue:"+key)
				}
				if waits {
					p.Keys = slices.Concat(p.Keys[:locks], []string{"{1}c"}, p.Keys[locks:], []string{"rlock:queue:{1}c"})
					p.Tokens = append(p.Tokens, "C")
					test.freed = append(test.freed, 0)
				}
				require.NoError(t, env.Do(t, client, "MSET", "{1}a", "A", "{1}b", "B").Error())
				require.NoError(t, env.Do(t, client, "ZADD", "rlock:queue:{1}c", "1", "1000::w").Error())
				p.Locks = int64(len(p.Tokens))
				freed, err := scripts.ReleaseMany(t.Context(), client, p)
				require.NoError(t, err)
				require.Equal(t, test.freed, freed, "%s, number %d", name, i)
				require.Equal(t, test.left, env.Get(t, client, "{1}a")+" "+env.Get(t, client, "{1}b"), "%s, number %d",
					name, i)
			}
		}
	})
}

// A script that takes many free locks asks for all of them at once whether they are free, and for the clock
// once, from which each of their fences counts.
func TestManyTakesAskOnce(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		const locks = 128
		var p gen.AcquireManyParams
		for i := range locks {
			p.Keys, p.Words = append(p.Keys, fmt.Sprint("{1}k", i)), append(p.Words, "token", "60000")
		}
		for i := range locks {
			p.Keys = append(p.Keys, fmt.Sprint("rlock:queue:{1}:k", i))
		}
		for range locks {
			p.Keys = append(p.Keys, "{1}c")
		}
		server.Do(t, "CONFIG", "RESETSTAT")
		taken, err := gen.New().AcquireMany(t.Context(), client, p)
		require.NoError(t, err)
		require.Len(t, taken, locks)
		for i, lock := range taken {
			require.Equal(t, taken[0].Value+int64(i), lock.Value, "the fences follow each other")
		}
		calls := server.CommandStats(t)
		for command, want := range map[string]int64{"time": 1, "exists": 1, "incr": locks} {
			require.Equal(t, want, calls[command], command)
		}
	})
}
