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

// wordsOfShares draws a command that the scripts about shared locks use, or may use. Times are some ticks
// after an instant.
func wordsOfShares(r *rand.Rand, from int64) []string {
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	at := func() string { return strconv.FormatInt(from+tick.Milliseconds()*int64(1+r.IntN(3)), 10) }
	name := func() string {
		return pick("7", "8") + " " + pick("1", "2") + " rlock:share:2:" + pick("1:p1", "2:q1")
	}
	switch r.IntN(12) {
	case 0:
		return []string{"SET", lockKey, "rlock:shared 7 " + pick("0", "2"), "PXAT", at()}
	case 1:
		return []string{"PEXPIREAT", pick(lockKey, holdersKey, queueKey), pick(at(), at(), "1", "x")}
	case 2:
		return []string{"PEXPIRETIME", pick(lockKey, holdersKey)}
	case 3, 4, 5:
		return []string{"ZADD", holdersKey, pick(at(), at(), "+inf", "x"), name()}
	case 6:
		return []string{"ZREM", holdersKey, name()}
	case 7:
		return pick2(r, []string{"ZCARD", holdersKey}, []string{"ZSCORE", holdersKey, name()})
	case 8:
		return []string{"ZRANGE", holdersKey, "-inf", at(), "BYSCORE"}
	case 9:
		return pick2(r, []string{"ZRANGE", holdersKey, "0", "-1"}, []string{"ZRANGE", queueKey, "0", "0"})
	case 10:
		return []string{pick("PTTL", "PERSIST", "DEL", "EXISTS"), holdersKey}
	}
	return pick2(r, []string{"ZRANGE", holdersKey, "0", "0", "WITHSCORES"}, []string{"ZRANGE", holdersKey, "-1", "-1", "WITHSCORES"})
}

// A server does what the scripts about shared locks do over the model: the same answers, and the same lock,
// sharers and queue after each call.
func TestSharedScripts(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		client := e.Start(t).Client(t)
		listen(t, client, "p")
		listen(t, client, "q")
		m := newVM(t, scripts(t))
		r := rand.New(rand.NewPCG(5, 6))
		var run execution
		tokens := []string{
			"rlock:share:0:1:p1", "rlock:share:0:1:q1", "rlock:share:0:1:r1", "rlock:share:2:1:p2", "rlock:share:2:1:q2", "rlock:share:2:2:q3", "p4", "q4",
		}
		whole := len(tokens) - 2
		shared := 0
		for i := range 4000 {
			if i%40 == 0 {
				require.NoError(t, env.Do(t, client, "FLUSHALL").Error())
				run.server = server{hearing: [maxProcesses]hearing{listening, listening}}
			}
			run.clock = time.Now().UnixMicro()
			n := r.IntN(len(tokens))
			token, lease := tokens[n], ttl
			process := short(token)[:1]
			if process == "r" {
				process = "" // it cannot be told
			}
			if r.IntN(8) == 0 {
				lease = 0
			}
			how := []gen.JoinHow{gen.JoinHowJoin, gen.JoinHowJoin, gen.JoinHowHeartbeat, gen.JoinHowTry}[r.IntN(4)]
			var got, want string
			switch c := r.IntN(10); {
			case c == 0 && r.IntN(3) == 0:
				_, err := run.do([]string{"DEL", lockKey})
				require.NoError(t, err)
				require.NoError(t, env.Do(t, client, "DEL", lockKey).Error())
			case n >= whole && c == 5:
				got, want = handsWhole(t, client, m, &run, token, tokens[whole+r.IntN(2)], lease)
			case n >= whole && c == 6:
				got, want = attachesWhole(t, client, m, &run, token, tokens[whole+r.IntN(2)])
			case n >= whole && c == 3: // as after a release that may have kept shares out
				got, want = releasesShare(t, client, m, &run, token, process, lease)
			case n >= whole && c < 3:
				got, want = passes(t, client, m, &run, token, "", process, lease)
			case n >= whole:
				got, want = joins(t, client, m, &run, token, process, lease, how)
			case c < 4:
				got, want = releasesShare(t, client, m, &run, token, process, lease)
			case c < 5:
				former := tokens[r.IntN(whole)]
				if r.IntN(2) == 0 || strings.Split(former, ":")[3] != strings.Split(token, ":")[3] {
					former = token
				}
				got, want = extendsShare(t, client, m, &run, token, former, lease)
			case c == 5 && r.IntN(2) == 0:
				got, want = changesLimitOf(t, client, m, &run, 1+r.IntN(3))
			default:
				got, want = joinsShared(t, client, m, &run, token, process, lease, gen.AcquireSharedHow(how))
			}
			require.Equal(t, want, got, "%d", i)
			state := shownShares(&run.server)
			require.Equal(t, state, realShares(t, client), "%d", i)
			if _, _, is := run.server.phase(); is {
				shared++
			}
		}
		require.Greater(t, shared, 1000, "the lock was shared after so many calls")
	})
}

func joinsShared(t *testing.T, client rueidis.Client, m *vm, run *execution, token, process string, lease time.Duration, how gen.AcquireSharedHow) (got, want string) {
	t.Helper()
	r, err := gen.New().AcquireShared(t.Context(), client, gen.AcquireSharedParams{Lock: lockKey, Holders: holdersKey, Queue: queueKey, Grants: grants, Counter: counterKey,
		Token: token, TTL: lease, Process: process, How: how})
	require.NoError(t, err)
	reply, refused, err := m.call(run, "acquire_shared", sharedKeys, []string{token, leaseText(lease), process, string(how), "0", ""})
	require.NoError(t, err)
	require.False(t, refused)
	return fmt.Sprint(answered(r.Granted, r.Fence, r.Remaining, r.Score, r.Ahead), r.Limit),
		fmt.Sprint(answered(reply[0] == 1, reply[1], time.Duration(reply[2])*time.Millisecond, reply[3], reply[4]), reply[5])
}

func releasesShare(t *testing.T, client rueidis.Client, m *vm, run *execution, token, process string, lease time.Duration) (got, want string) {
	t.Helper()
	freed, err := gen.New().ReleaseShared(t.Context(), client, gen.ReleaseSharedParams{Lock: lockKey, Holders: holdersKey, Queue: queueKey, Grants: grants, Counter: counterKey,
		Token: token, TTL: lease, Process: process})
	require.NoError(t, err)
	reply, refused, err := m.call(run, "release_shared", sharedKeys, []string{token, leaseText(lease), process, ""})
	require.NoError(t, err)
	require.False(t, refused)
	return fmt.Sprint(freed), fmt.Sprint(reply[0] == 1)
}

func handsWhole(t *testing.T, client rueidis.Client, m *vm, run *execution, token, next string, lease time.Duration) (got, want string) {
	t.Helper()
	r, err := gen.New().HandOver(t.Context(), client, gen.HandOverParams{Lock: lockKey, Queue: queueKey, Counter: []string{counterKey},
		Token: token, Next: next, TTL: lease, Fences: 1})
	require.NoError(t, err)
	reply, refused, err := m.call(run, "hand_over", []string{lockKey, queueKey, counterKey}, []string{token, next, leaseText(lease), "1", ""})
	require.NoError(t, err)
	require.False(t, refused)
	return fmt.Sprint(r.HandedOver, r.Waits > 0), fmt.Sprint(reply[0] == 1, reply[3] > 0)
}

func attachesWhole(t *testing.T, client rueidis.Client, m *vm, run *execution, token, former string) (got, want string) {
	t.Helper()
	r, err := gen.New().Attach(t.Context(), client, gen.AttachParams{Locks: []string{lockKey}, Token: token, Former: []string{former}})
	require.NoError(t, err)
	reply, refused, err := m.call(run, "attach", []string{lockKey}, []string{token, former})
	require.NoError(t, err)
	require.False(t, refused)
	return fmt.Sprint(r.Position, (r.Remaining.Milliseconds()+9999)/10000), fmt.Sprint(reply[0], (reply[1]+9999)/10000)
}

func changesLimitOf(t *testing.T, client rueidis.Client, m *vm, run *execution, limit int) (got, want string) {
	t.Helper()
	r, err := gen.New().ChangeLimit(t.Context(), client, gen.ChangeLimitParams{Lock: lockKey, Holders: holdersKey, Queue: queueKey, Grants: grants, Limit: int64(limit)})
	require.NoError(t, err)
	reply, refused, err := m.call(run, "change_limit", []string{lockKey, holdersKey, queueKey, grants}, []string{strconv.Itoa(limit)})
	require.NoError(t, err)
	require.False(t, refused)
	return fmt.Sprint(r), fmt.Sprint(reply[0])
}

func extendsShare(t *testing.T, client rueidis.Client, m *vm, run *execution, token, former string, lease time.Duration) (got, want string) {
	t.Helper()
	has, err := gen.New().ExtendShared(t.Context(), client, gen.ExtendSharedParams{Lock: lockKey, Holders: holdersKey, Token: token, TTL: lease, Former: []string{former}})
	require.NoError(t, err)
	reply, refused, err := m.call(run, "extend_shared", sharedKeys[:2], []string{token, leaseText(lease), former})
	require.NoError(t, err)
	require.False(t, refused)
	return fmt.Sprint(has), fmt.Sprint(reply[0] == 1)
}

// shownShares tells the lock, who shares it, and the queue in its order. A phase has another number on a
// server than in the model, and leases that end in one millisecond have no order.
func shownShares(s *server) string {
	var sharers, waiters []string
	for _, h := range s.sharers[:s.shares] {
		sharers = append(sharers, h.name)
	}
	for _, m := range s.queue[:s.members] {
		waiters = append(waiters, m.name)
	}
	return tellShares(s.lock, sharers, waiters)
}

func tellShares(lock string, sharers, waiters []string) string {
	if rest, is := strings.CutPrefix(lock, "rlock:shared "); is {
		phase, limit, _ := strings.Cut(rest, " ")
		lock = "shared " + limit
		for i, name := range sharers {
			if of, is := strings.CutPrefix(name, phase+" "); is {
				sharers[i] = of
			}
		}
	}
	present := slices.DeleteFunc(sharers, func(name string) bool { return strings.Count(name, " ") > 1 })
	slices.Sort(present)
	return fmt.Sprint(lock, present, waiters)
}

func realShares(t *testing.T, client rueidis.Client) string {
	t.Helper()
	list := func(key string) []string {
		members, err := env.Do(t, client, "ZRANGE", key, "0", "-1").AsStrSlice()
		require.NoError(t, err)
		return members
	}
	return tellShares(env.Get(t, client, lockKey), list(holdersKey), list(queueKey))
}
