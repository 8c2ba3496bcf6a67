package explorer

import (
	"context"
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
	name := func() string { return pick("20000:p:p1", "20000:q:q1", "20000::r1", "x") }
	lease := func() string { return pick("10000", "20000", "30000") }
	switch r.IntN(17) {
	case 0:
		return []string{pick("GET", "MGET"), lockKey}
	case 1:
		return pick2(r, []string{"SET", lockKey, pick("p1", "q1")}, []string{"SET", lockKey, pick("p1", "q1"), "KEEPTTL"})
	case 2:
		return []string{"SET", lockKey, pick("p1", "q1"), "PX", pick(lease(), lease(), "0", "x")}
	case 3:
		return []string{"SET", lockKey, "p1", "PXAT", "1"}
	case 4:
		return []string{"DEL", pick(lockKey, queueKey, counterKey)}
	case 5:
		return append([]string{"EXISTS"}, pick2(r, []string{lockKey, queueKey}, []string{pick(lockKey, queueKey, counterKey)})...)
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
		return pick2(r, []string{"PUBSUB", "SHARDNUMSUB", grants + pick("p", "q")}, []string{"SPUBLISH", grants + "q", "x"})
	}
	return pick2(r, []string{"ZRANGE", queueKey, "0", "0", "WITHSCORES"}, []string{"ZRANGE", queueKey, "-1", "-1", "WITHSCORES"})
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

// listen subscribes a client to the channel of a process.
func listen(t *testing.T, client rueidis.Client, process string) {
	t.Helper()
	dedicated, release := client.Dedicate()
	t.Cleanup(release)
	dedicated.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
	require.NoError(t, dedicated.Do(t.Context(), dedicated.B().Ssubscribe().Channel(grants+process).Build()).Error())
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
			left := []int64{run.server.left, run.server.queueLeft, run.server.shareLeft}
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
	return fmt.Sprint((at - from + tick.Milliseconds()/2) / tick.Milliseconds())
}

// rounded returns a remaining time in whole ticks, because a server's clock goes on.
func rounded(t *testing.T, reply string) string {
	text, is := strings.CutPrefix(reply, "number ")
	require.True(t, is, reply)
	ms, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	if ms > 0 {
		ms = (ms + tick.Milliseconds() - 1) / tick.Milliseconds()
	}
	return fmt.Sprint(ms)
}

// A server does what the scripts do over the model: the same answers, and the same lock and
// queue after each call.
func TestScripts(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		client := e.Start(t).Client(t)
		listen(t, client, "p")
		listen(t, client, "q")
		m := newVM(t, scripts(t))
		r := rand.New(rand.NewPCG(3, 4))
		var run execution
		tokens := []string{"p1", "p2", "p3", "q1", "q2", "q3", "r1", "r2"}
		for i := range 4000 {
			if i%40 == 0 {
				require.NoError(t, env.Do(t, client, "FLUSHALL").Error())
				run.server = server{hearing: [maxProcesses]hearing{listening, listening}}
			}
			run.clock = time.Now().UnixMicro()
			token, again := tokens[r.IntN(len(tokens))], ""
			process := token[:1]
			if token == "r2" {
				process = "" // it cannot be told
			}
			lease := ttl
			if r.IntN(8) == 0 {
				lease = 0
			}
			var got, want string
			switch c := r.IntN(10); {
			case c == 0:
				_, err := run.do([]string{"DEL", lockKey})
				require.NoError(t, err)
				require.NoError(t, env.Do(t, client, "DEL", lockKey).Error())
			case c < 4:
				if r.IntN(2) == 0 && process != "" {
					again = process + strconv.Itoa(1+r.IntN(3))
				}
				got, want = passes(t, client, m, &run, token, again, process, lease)
			case c < 5:
				got, want = extendsBoth(t, client, m, &run, token, lease)
			default:
				if r.IntN(5) == 0 {
					got, want = triesBoth(t, client, m, &run, token, lease)
					break
				}
				how := []gen.JoinHow{gen.JoinHowJoin, gen.JoinHowJoin, gen.JoinHowHeartbeat, gen.JoinHowTry}[r.IntN(4)]
				got, want = joins(t, client, m, &run, token, process, lease, how)
			}
			require.Equal(t, want, got, "%d", i)
			require.Equal(t, shown(&run.server), shownReal(t, client), "%d", i)
		}
	})
}

func leaseText(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

var realKeys = []string{lockKey, queueKey, grants, counterKey}

// answered tells what matters of an answer: scores and fences are there, or are not.
func answered(granted bool, fence int64, remaining time.Duration, score, ahead int64) string {
	return fmt.Sprint(granted, fence > 0, (remaining.Milliseconds()+9999)/10000, score > 0, ahead)
}

func joins(t *testing.T, client rueidis.Client, m *vm, run *execution, token, process string, lease time.Duration, how gen.JoinHow) (got, want string) {
	t.Helper()
	r, err := gen.New().Join(t.Context(), client, gen.JoinParams{Lock: lockKey, Queue: queueKey, Grants: grants, Counter: []string{counterKey},
		Token: token, TTL: lease, Process: process, How: how})
	require.NoError(t, err)
	reply, refused, err := m.call(run, "join", realKeys, []string{token, leaseText(lease), process, string(how), "0", ""})
	require.NoError(t, err)
	require.False(t, refused)
	return answered(r.Granted, r.Fence, r.Remaining, r.Score, r.Ahead),
		answered(reply[0] == 1, reply[1], time.Duration(reply[2])*time.Millisecond, reply[3], reply[4])
}

func triesBoth(t *testing.T, client rueidis.Client, m *vm, run *execution, token string, lease time.Duration) (got, want string) {
	t.Helper()
	r, err := gen.New().Try(t.Context(), client, gen.TryParams{Lock: lockKey, Queue: queueKey, Counter: []string{counterKey}, Token: token, TTL: lease})
	require.NoError(t, err)
	reply, refused, err := m.call(run, "try", []string{lockKey, queueKey, counterKey}, []string{token, leaseText(lease)})
	require.NoError(t, err)
	require.False(t, refused)
	text := func(outcome, value int64) string {
		if outcome == 2 {
			value = (value + 9999) / 10000 // of what is left, which is not the same
		}
		return fmt.Sprint(outcome, " ", value)
	}
	if r.Outcome == 1 && reply[0] == 1 {
		return fmt.Sprint(r.Value > 0), fmt.Sprint(reply[1] > 0)
	}
	return text(r.Outcome, r.Value), text(reply[0], reply[1])
}

func passes(t *testing.T, client rueidis.Client, m *vm, run *execution, token, again, process string, lease time.Duration) (got, want string) {
	t.Helper()
	if again == "" {
		freed, err := gen.New().Pass(t.Context(), client, gen.PassParams{Lock: lockKey, Queue: queueKey, Grants: grants, Counter: []string{counterKey},
			Token: token, TTL: lease, Process: process})
		require.NoError(t, err)
		reply, refused, err := m.call(run, "pass", realKeys, []string{token, leaseText(lease), process, ""})
		require.NoError(t, err)
		require.False(t, refused)
		return fmt.Sprint(freed), fmt.Sprint(reply[0])
	}
	r, err := gen.New().Requeue(t.Context(), client, gen.RequeueParams{Lock: lockKey, Queue: queueKey, Grants: grants, Counter: []string{counterKey},
		Token: token, TTL: lease, Process: process, Again: again, AgainTTL: lease})
	require.NoError(t, err)
	reply, refused, err := m.call(run, "requeue", realKeys, []string{token, leaseText(lease), process, again, leaseText(lease), ""})
	require.NoError(t, err)
	require.False(t, refused)
	return fmt.Sprint(r.Freed) + answered(r.Granted, r.Fence, r.Remaining, r.Score, 0),
		fmt.Sprint(reply[0] == 1) + answered(reply[1] == 1, reply[2], time.Duration(reply[3])*time.Millisecond, reply[4], 0)
}

func extendsBoth(t *testing.T, client rueidis.Client, m *vm, run *execution, token string, lease time.Duration) (got, want string) {
	t.Helper()
	position, err := gen.New().Extend(t.Context(), client, gen.ExtendParams{Locks: []string{lockKey}, Token: token, TTL: lease})
	require.NoError(t, err)
	reply, refused, err := m.call(run, "extend", []string{lockKey}, []string{token, leaseText(lease)})
	require.NoError(t, err)
	require.False(t, refused)
	return fmt.Sprint(position), fmt.Sprint(reply[0])
}

// shown tells the lock and the queue in its order.
func shown(s *server) string {
	text := s.lock
	for _, m := range s.queue[:s.members] {
		text += " " + m.name
	}
	return text
}

func shownReal(t *testing.T, client rueidis.Client) string {
	t.Helper()
	members, err := client.Do(context.Background(), client.B().Zrange().Key(queueKey).Min("0").Max("-1").Build()).AsStrSlice()
	require.NoError(t, err)
	return strings.Join(append([]string{env.Get(t, client, lockKey)}, members...), " ")
}
