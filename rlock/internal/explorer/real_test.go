package explorer

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

func TestMain(m *testing.M) { env.Main(m, nil) }

// words draws a command that scripts use, or may use.
func words(r *rand.Rand) []string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	score := func() string { return pick("1", "2", "3", "1795307123924500", "5000000000000000") }
	name := func() string { return pick("p1", "q1", "r1", "x") }
	lease := func() string { return pick("10000", "20000", "30000") }
	switch r.IntN(19) {
	case 0:
		return []string{pick("GET", "MGET"), lockKey}
	case 1:
		return pick2(r, []string{"SET", lockKey, pick("p1", "q1")},
			[]string{"SET", lockKey, pick("p1", "q1"), "KEEPTTL"})
	case 2:
		return []string{"SET", lockKey, pick("p1", "q1"), "PX", pick(lease(), lease(), "0", "x")}
	case 3:
		return []string{"SET", lockKey, "p1", "PXAT", "1"}
	case 4:
		return []string{pick("DEL", "UNLINK"), pick(lockKey, queueKey, waitersKey, counterKey)}
	case 5:
		return append(
			[]string{"EXISTS"},
			pick2(r, []string{lockKey, queueKey, waitersKey}, []string{pick(lockKey, queueKey, counterKey)})...,
		)
	case 6:
		return []string{"PTTL", pick(lockKey, queueKey)}
	case 7:
		return []string{"PERSIST", pick(lockKey, queueKey)}
	case 8:
		return []string{"PEXPIRE", pick(lockKey, queueKey), pick(lease(), lease(), "-1", "x")}
	case 9:
		return []string{"PEXPIRE", pick(lockKey, queueKey), lease(), "GT"}
	case 10:
		return pick2(r, []string{pick("INCR", "GET"), counterKey}, []string{"SET", counterKey, score()})
	case 11:
		return []string{"ZADD", queueKey, pick(score(), score(), score(), "x"), name()}
	case 12:
		return []string{"ZREM", queueKey, name()}
	case 13:
		return pick2(r, []string{"ZCARD", queueKey}, []string{"ZSCORE", queueKey, name()})
	case 14:
		return []string{"ZRANK", queueKey, name()}
	case 15:
		return pick2(
			r, []string{"HSET", waitersKey, name(), "1700000000000 2000 20000 p"},
			[]string{"HDEL", waitersKey, name()},
		)
	case 16:
		return []string{"HGET", waitersKey, name()}
	case 17:
		return pick2(r, []string{"PUBSUB", "SHARDNUMSUB", grants + pick("p", "q")},
			[]string{"SPUBLISH", grants + "q", "x"})
	}
	if r.IntN(3) == 0 {
		return []string{"ZRANGE", queueKey, "0", "199"}
	}
	return pick2(r, []string{"ZRANGE", queueKey, "0", "0", "WITHSCORES"},
		[]string{"ZRANGE", queueKey, "-1", "-1", "WITHSCORES"})
}

func pick2(r *rand.Rand, a, b []string) []string {
	if r.IntN(2) == 0 {
		return a
	}
	return b
}

// asScript has a server run a command as a script does, and tells its reply as text.
const asScript = `local reply = redis.pcall(unpack(ARGV))
if type(reply) == 'table' and reply.err then return 'error' end
if type(reply) == 'table' and reply.ok then return 'status ' .. reply.ok end
if type(reply) == 'table' then
  local texts = {}
  for i, value in ipairs(reply) do texts[i] = type(value) .. ' ' .. tostring(value) end
  return table.concat(texts, ', ')
end
if type(reply) == 'number' then return 'number ' .. string.format('%.0f', reply) end
return type(reply) .. ' ' .. tostring(reply)`

// asText tells a reply of the model in the same way.
func asText(reply any, err error) string {
	switch r := reply.(type) {
	case nil:
		if err == nil {
			return "boolean false"
		}
	case int64:
		return fmt.Sprint("number ", r)
	case string:
		return "string " + r
	case status:
		return "status " + string(r)
	case []any:
		var texts []string
		for _, element := range r {
			texts = append(texts, asText(element, nil))
		}
		return strings.Join(texts, ", ")
	}
	return "error"
}

// unit is what a remaining time of a real server is rounded to: its clock goes on.
const unit = 10 * time.Second

// listen subscribes a client to the channel of a process.
func listen(t *testing.T, client rueidis.Client, process string) {
	t.Helper()
	dedicated, release := client.Dedicate()
	t.Cleanup(release)
	dedicated.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
	require.NoError(t, dedicated.Do(t.Context(),
		dedicated.B().Ssubscribe().Channel(grants+process).Build()).Error())
	env.Soon(t, func() bool {
		counts, err := env.Do(t, client, "PUBSUB", "SHARDNUMSUB", grants+process).AsIntMap()
		require.NoError(t, err)
		return counts[grants+process] == 1
	}, "the subscription is confirmed")
}

// The model answers each command as servers do, whatever came before.
func TestServer(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		client := e.Start(t).Client(t)
		listen(t, client, "q")
		r := rand.New(rand.NewPCG(1, 2))
		run := execution{server: server{hearing: [maxProcesses]hearing{1: listening}}}
		from := int64(0)
		for i := range 4000 {
			if i%40 == 0 {
				require.NoError(t, env.Do(t, client, "FLUSHALL").Error())
				run.server = server{hearing: run.server.hearing}
				from = time.Now().UnixMilli()
				run.clock = from * 1000 // the model's clock stands still until the next time
			}
			command := words(r)
			if r.IntN(3) == 0 {
				command = wordsOfShares(r, from)
			}
			left := []int64{run.server.left, run.server.queueLeft, run.server.waitLeft, run.server.shareLeft}
			want := asText(run.do(command))
			got, err := env.Do(t, client, append([]string{"EVAL", asScript, "0"}, command...)...).ToString()
			require.NoError(t, err)
			if command[0] == "PTTL" {
				got, want = rounded(t, got), rounded(t, want)
			}
			if command[0] == "PEXPIRETIME" {
				got, want = since(t, from, got), since(t, from, want)
			}
			if len(command) == 4 && command[3] == "GT" && slices.Contains(left, milliseconds(command[2])) {
				continue // the server's clock has gone on, so it may give what the model has left
			}
			// Redis 8 writes a large score in another form, which the scripts read as a number.
			require.Equal(t, want, strings.ReplaceAll(got, "5e+15", "5000000000000000"), "%d: %q", i, command)
		}
	})
}

func milliseconds(text string) int64 {
	ms, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0
	}
	return ms
}

// since returns the ticks between two instants, the later of which may be some seconds later still.
func since(t *testing.T, from int64, reply string) string {
	text, is := strings.CutPrefix(reply, "number ")
	require.True(t, is, reply)
	at, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	if at < 0 {
		return text
	}
	return fmt.Sprint((at - from + unit.Milliseconds()/2) / unit.Milliseconds())
}

// rounded returns a remaining time in whole ticks, because a server's clock goes on.
func rounded(t *testing.T, reply string) string {
	text, is := strings.CutPrefix(reply, "number ")
	require.True(t, is, reply)
	ms, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	if ms > 0 {
		ms = (ms + unit.Milliseconds() - 1) / unit.Milliseconds()
	}
	return fmt.Sprint(ms)
}

// wordsOfShares draws a command that the scripts use about those who share a lock, or may use. Times are some
// units after an instant.
func wordsOfShares(r *rand.Rand, from int64) []string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	at := func() string { return strconv.FormatInt(from+unit.Milliseconds()*int64(1+r.IntN(3)), 10) }
	name := func() string {
		return pick("7", "8") + " " + pick("1", "2") + " rlock:share:2:" + pick("1:p1", "2:q1")
	}
	switch r.IntN(12) {
	case 0:
		return []string{"SET", lockKey, "rlock:" + pick("readers", "permits") + " 7", "PXAT", at()}
	case 1:
		return []string{"PEXPIREAT", pick(lockKey, holdersKey, queueKey), pick(at(), at(), "1", "x")}
	case 2:
		return pick2(
			r, []string{"ZADD", holdersKey, pick("1", "2"), "7"}, []string{"ZADD", holdersKey, "1", "7", at(), name()},
		)
	case 3, 4:
		return []string{"ZADD", holdersKey, pick(at(), at(), "+inf", "x"), name()}
	case 5:
		return []string{"ZADD", holdersKey, "XX", "GT", pick(at(), at(), "+inf"), name()}
	case 6:
		return []string{"ZREM", holdersKey, name()}
	case 7:
		return pick2(r, []string{"ZCARD", holdersKey}, []string{"ZSCORE", holdersKey, name()})
	case 8:
		return []string{"ZRANGE", holdersKey, firstEnd, at(), "BYSCORE", "LIMIT", "0", "64"}
	case 9:
		return []string{"ZRANGE", holdersKey, "0", "0"}
	case 10:
		return []string{pick("PTTL", "PERSIST", "DEL", "EXISTS"), holdersKey}
	}
	first := pick("0", "1", "-1")
	last := first
	if first == "0" {
		last = pick("0", "1")
	}
	return []string{"ZRANGE", holdersKey, first, last, "WITHSCORES"}
}

// both are a server and the model of one, on which the same scripts run.
type both struct {
	t      *testing.T
	client rueidis.Client
	vm     *vm
	model  execution
	texts  map[string]string

	want, got string // what the last script has answered
}

// run runs a script on both, and notes the answers.
func (b *both) run(params any) {
	b.t.Helper()
	call := env.WordsOf(b.t, b.client, params)
	script, keys, args := scriptNames[call.SHA1], call.Keys, call.Args
	b.model.clock = time.Now().UnixMicro()
	want, refused, err := b.vm.call(&b.model, script, keys, args)
	require.NoError(b.t, err)
	words := append([]string{"EVAL", b.texts[script], strconv.Itoa(len(keys))}, keys...)
	reply := env.Do(b.t, b.client, append(words, args...)...)
	if refused {
		b.want, b.got = "an error", "no error"
		if reply.Error() != nil {
			b.got = b.want
		}
		return
	}
	require.NoError(b.t, reply.Error())
	got, err := reply.AsIntSlice()
	if err != nil {
		var one int64
		one, err = reply.AsInt64()
		got = []int64{one}
	}
	require.NoError(b.t, err)
	got, want = b.roughly(script, got), b.roughly(script, want)
	b.want, b.got = fmt.Sprintf("%s %q: %v", script, args, want), fmt.Sprintf("%s %q: %v", script, args, got)
}

// roughly returns a reply without the differences that there may be: a server counts fences, scores and time
// in another way than the model.
func (b *both) roughly(script string, reply []int64) []int64 {
	b.t.Helper()
	fields := fieldsOf(b.t, b.texts[script])
	if fields == nil {
		return reply
	}
	require.Len(b.t, reply, len(fields), "%s returns %q", script, fields)
	rough := slices.Clone(reply)
	for i, field := range fields {
		switch name, kind, _ := strings.Cut(field, " "); {
		// The value of acquire is a fence after outcome 1, and else what is left of the lease.
		case kind == "duration" || name == "value" && reply[0] != 1:
			rough[i] = units(reply[i])
		case slices.Contains([]string{"fence", "score", "value", "waits"}, name):
			rough[i] = some(reply[i])
		}
	}
	return rough
}

// fieldsOf returns the names and the types of the values that a script returns, as its header declares them;
// nil if it does not return a list of named values.
func fieldsOf(t *testing.T, text string) []string {
	t.Helper()
	_, header, is := strings.Cut(text, "\n-- returns: ")
	require.True(t, is)
	line, _, _ := strings.Cut(header, "\n")
	if !strings.Contains(line, " ") {
		return nil
	}
	return strings.Split(line, ", ")
}

// units rounds a remaining time up; what is negative says something else.
func units(ms int64) int64 {
	if ms > 0 {
		return (ms + unit.Milliseconds() - 1) / unit.Milliseconds()
	}
	return ms
}

func some(n int64) int64 { return count(n > 0) }

// A server does what the scripts do over the model: the same answers, and the same keys after each call.
func TestScripts(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		b := &both{t: t, client: e.Start(t).Client(t), texts: scripts(t)}
		b.vm = newVM(t, b.texts)
		listen(t, b.client, "p")
		listen(t, b.client, "q")
		r := rand.New(rand.NewPCG(3, 4))
		tokens := []string{
			"p1", "p2", "q1", "q2", "r1", "rlock:share:0:1:p3", "rlock:share:0:1:q3", "rlock:share:0:1:r3",
			"rlock:share:2:1:p4", "rlock:share:2:1:q4", "rlock:share:2:2:q5", "rlock:share:3:1:p6",
		}
		shared, began := 0, time.Now()
		for i := range 6000 {
			late := time.Since(began) > time.Second // then the server may have missed those who wait
			if i%40 == 0 || late {
				require.NoError(t, env.Do(t, b.client, "FLUSHALL").Error())
				b.model.server, began = server{hearing: [maxProcesses]hearing{listening, listening}}, time.Now()
			}
			b.step(r, tokens)
			model, real := shown(&b.model.server), shownReal(t, b.client)
			if time.Since(began) > time.Second {
				continue
			}
			require.Equal(t, b.want, b.got, "%d", i)
			require.Equal(t, model, real, "%d", i)
			if _, _, is := b.model.server.phase(); is {
				shared++
			}
		}
		require.Greater(t, shared, 1000, "the lock was shared after so many calls")
	})
}

// step makes a call of one of the tokens.
func (b *both) step(r *rand.Rand, tokens []string) {
	token, other := tokens[r.IntN(len(tokens))], tokens[r.IntN(len(tokens))]
	process, lease := short(token)[:1], 2*unit
	if process == "r" {
		process = "" // it cannot be told
	}
	if r.IntN(8) == 0 {
		lease = 0
	}
	leased := []string{lockKey}
	if isShare(token) {
		leased = append(leased, holdersKey)
	}
	if isShare(other) != isShare(token) || isShare(token) &&
		strings.Split(other, ":")[3] != strings.Split(token, ":")[3] {
		other = token
	}
	counter := []string{counterKey}
	switch c := r.IntN(12); {
	case c == 0 && r.IntN(3) == 0:
		command := []string{"DEL", []string{lockKey, queueKey}[r.IntN(2)]}
		_, err := b.model.do(command)
		require.NoError(b.t, err)
		require.NoError(b.t, env.Do(b.t, b.client, command...).Error())
	case c < 4:
		b.run(gen.ReleaseParams{
			Lock: lockKey, Queue: queueKey, Waiters: waitersKey, Holders: holdersKey, Grants: grants,
			Counter: counter, Token: token,
		})
	case c == 4:
		b.run(gen.RequeueParams{
			Lock: lockKey, Queue: queueKey, Waiters: waitersKey, Holders: holdersKey, Grants: grants,
			Counter: counter, Token: token, Again: other, TTL: lease, Process: process,
		})
	case c == 5:
		b.run(gen.ExtendParams{Keys: leased, TTL: lease, Tokens: []string{token}})
	case c == 6:
		b.run(gen.AttachParams{
			Keys: leased, Token: token, Keep: r.IntN(2) == 1, TTL: lease, Former: []string{other},
		})
	case c == 7 && !isShare(token):
		b.run(gen.HandOverParams{
			Lock: lockKey, Queue: queueKey, Counter: counter, Token: token, Next: other, TTL: lease, Fences: 1,
		})
	case c == 8 && !isShare(token):
		b.run(gen.AcquireParams{Lock: lockKey, Queue: queueKey, Counter: counter, Token: token, TTL: lease})
	default:
		b.run(gen.WaitParams{
			Lock: lockKey, Queue: queueKey, Waiters: waitersKey, Holders: holdersKey, Grants: grants,
			Counter: counter, Token: token, TTL: lease, Process: process,
			How: []gen.WaitHow{
				gen.WaitHowJoin, gen.WaitHowJoin, gen.WaitHowHeartbeat, gen.WaitHowTry,
			}[r.IntN(4)],
		})
	}
}

// shown tells the lock, who shares it, the queue in its order, and who waits.
func shown(s *server) string {
	var sharers, queue, waiters []string
	for _, h := range s.sharers[:s.shares] {
		sharers = append(sharers, h.name)
		if h.counts() {
			sharers[len(sharers)-1] += " " + strconv.FormatInt(h.left, 10)
		}
	}
	for _, m := range s.queue[:s.members] {
		queue = append(queue, m.token)
	}
	for _, e := range s.entries[:s.waiters] {
		waiters = append(waiters, fmt.Sprint(e.token, " ", e.beat, " ", e.rest))
	}
	return tells(s.lock, sharers, queue, waiters)
}

// tells leaves out the phase, which has another number on a server than in the model; leases that end in one
// millisecond have no order.
func tells(lock string, sharers, queue, waiters []string) string {
	lock, phase, _ := strings.Cut(lock, " ")
	for i, name := range sharers {
		of, rest, _ := strings.Cut(name, " ")
		if sharers[i] = rest; phase != "" && of != phase {
			sharers[i] += " of another phase"
		}
	}
	slices.Sort(sharers)
	slices.Sort(waiters)
	return fmt.Sprint(lock, sharers, queue, waiters)
}

func shownReal(t *testing.T, client rueidis.Client) string {
	t.Helper()
	list := func(words ...string) []string {
		list, err := env.Do(t, client, words...).AsStrSlice()
		require.NoError(t, err)
		return list
	}
	var sharers, waiters []string
	scores, err := env.Do(t, client, "ZRANGE", holdersKey, "0", "-1", "WITHSCORES").AsZScores()
	require.NoError(t, err)
	for _, of := range scores {
		sharers = append(sharers, of.Member)
		if !strings.Contains(of.Member, " ") {
			sharers[len(sharers)-1] += fmt.Sprint(" ", of.Score)
		}
	}
	hash, err := env.Do(t, client, "HGETALL", waitersKey).AsStrMap()
	require.NoError(t, err)
	for token, text := range hash {
		waiters = append(waiters, token+" "+strings.SplitN(text, " ", 2)[1])
	}
	return tells(env.Get(t, client, lockKey), sharers, list("ZRANGE", queueKey, "0", "-1"), waiters)
}
