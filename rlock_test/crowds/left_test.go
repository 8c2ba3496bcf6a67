package crowds

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

var leftSeed = flag.Uint64("left.seed", 0, "seed of TestNothingIsLeft; 0: another one each time")

// How a use of a lock ends.
const (
	endRelease     = iota // its holders give it up
	endDeath              // they die, and their leases end
	endDel                // a stranger deletes the key
	endDelHolders         // a stranger deletes the set of the holders alone
	endSoon               // a stranger has the key end before the lease
	endLate               // a stranger has the key end after the lease
	endForce              // somebody frees each token that he sees
	endForceValue         // somebody frees the value of the key
	leftEndings           // how many there are for one key
	endFlush       = -1   // everything is deleted
	leftDeadline   = 2 * time.Minute
	leftLive       = "live" // the process that listens to its grants
	leftDead       = "dead" // one that does not
	leftGrants     = "rlock:grant:{0}:"
	leftTTL        = 250 * time.Millisecond
	leftChunk      = 500 // scripts in one pipeline
	leftBarging    = 200 * time.Millisecond
	leftCounters   = "rlock:fence:{"
	leftMostOfThem = 16384
)

// What somebody wants of a lock: the whole of it, or so many permits within a limit, or to be a reader.
type leftShare struct{ limit, permits int } // both 0: the whole lock; only limit 0: a reader

func (s leftShare) token(name string) string {
	if s.permits == 0 {
		return name
	}
	return fmt.Sprintf("rlock:share:%d:%d:%s", s.limit, s.permits, name)
}

// leftCall is somebody who wants a lock.
type leftCall struct {
	use     *leftUse
	key     string
	share   leftShare
	token   string
	process string
	ttl     time.Duration
	score   int64
	granted bool
}

// leftUse is one use of a lock, or of a set of locks that one token has.
type leftUse struct {
	keys     []string
	isSet    bool
	ending   int
	endless  bool
	barging  time.Duration
	share    leftShare
	holders  []*leftCall
	waiting  []*leftCall
	follower []*leftCall
	free     int64 // when the lock must be free, in milliseconds of the server's clock
	taken    int64 // when it was not taken yet
}

// left runs uses of locks on one server, many of them at once, step by step: each step is a few pipelines for
// all uses, so that what one of them costs in round trips and in waiting is paid once. Nothing depends on how
// long a step takes: whether a lock must be free is judged by the server's clock.
type left struct {
	t       *testing.T
	client  rueidis.Client
	scripts *gen.Scripts
	rnd     *rand.Rand
	tags    []string // a hash tag of each slot
	names   int      // of tokens
}

// After any number of uses of each kind, each ended in each way, nothing is left but fence counters, of
// which there is one a slot at most. After each, whoever comes next has the lock as soon as it must be
// free: there is no lock that nobody has, no permit is lost, and no set of holders lasts for ever beside a
// key that does not.
func TestNothingIsLeft(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		rounds, uses := 15, 2000
		if testing.Short() {
			rounds, uses = 4, 375
		}
		seed := *leftSeed
		if seed == 0 {
			seed = rand.Uint64()
		}
		t.Log("-left.seed", seed)
		client := e.Start(t).Client(t)
		l := &left{t, client, gen.New(), rand.New(rand.NewPCG(seed, 0)), slotTags(), 0}
		require.NoError(t, l.scripts.Load(t.Context(), client))
		l.listen()
		for round := range rounds {
			l.round(uses, round%4 == 3)
		}
		began := time.Now()
		env.Soon(t, func() bool { return time.Since(began) > leftDeadline || len(l.others()) == 0 }, "")
		require.Empty(t, l.others())
		t.Logf("%d uses; the last was gone after %v", rounds*uses, time.Since(began))
	})
}

// round makes as many uses of as many sets of keys. All of them end by FLUSHALL, or each in a way of its own.
func (l *left) round(n int, flush bool) {
	uses := make([]*leftUse, n)
	for i := range uses {
		uses[i] = l.newUse(i, flush)
	}
	before := l.now()
	l.take(uses)
	waiting := collect(uses, func(u *leftUse) []*leftCall { return u.waiting })
	l.call(gen.WaitHowJoin, waiting)
	after := l.now()
	l.end(uses)
	ended := l.now()
	for _, u := range uses {
		u.taken = before
		switch lease := leftTTL.Milliseconds(); u.ending {
		case endDeath:
			u.free = after + lease
		case endDelHolders: // nobody knows who has it, until the key ends
			u.free = after + 2*lease
		case endSoon, endLate:
			u.free = ended + u.changed().Milliseconds()
			if len(u.waiting) > 0 { // one who gets a share before that gives the key its life back
				u.free = max(u.free, after+lease)
			}
		}
	}
	l.serve(waiting)
	l.follow(uses)
	l.noFlaw(uses)
	for i, freed := range l.release(collect(uses, func(u *leftUse) []*leftCall { return u.follower })) {
		require.True(l.t, freed, "follower %d", i)
	}
	l.gone(uses)
}

// newUse returns a use of the i-th keys.
func (l *left) newUse(i int, flush bool) *leftUse {
	u := &leftUse{keys: []string{fmt.Sprint("k", i)}, ending: l.rnd.IntN(leftEndings)}
	u.endless = l.rnd.IntN(4) == 0
	if flush {
		u.ending = endFlush
	}
	if l.rnd.IntN(8) == 0 {
		u.barging = leftBarging
	}
	most := 1 // who hold it together
	switch l.rnd.IntN(4) {
	case 0:
		if l.rnd.IntN(2) == 0 {
			u.isSet = true
			u.keys = append(u.keys, fmt.Sprint("k", i, "b"), fmt.Sprint("k", i, "c"))
		}
	case 1, 2:
		u.share = leftShare{1 + l.rnd.IntN(4), 1}
		most = u.share.limit
	default:
		u.share = leftShare{0, 1}
		most = 4
	}
	// Nobody can end what has no end but who has it and who forces it.
	if u.endless && (u.ending == endDeath || u.ending == endDelHolders && u.share.permits > 0) {
		u.ending = endForceValue
	} else if u.ending == endDelHolders && u.share.permits == 0 {
		u.ending = endDeath
		u.endless = false
	}
	for range 1 + l.rnd.IntN(most) {
		call := l.newCall(u, u.share)
		if u.endless && (len(u.holders) == 0 || l.rnd.IntN(2) == 0) {
			call.ttl = 0
		}
		u.holders = append(u.holders, call)
	}
	if l.rnd.IntN(2) == 0 && !u.lastsWith() {
		for range 1 + l.rnd.IntN(3) {
			call := l.newCall(u, l.anyShare(u))
			call.key = u.keys[l.rnd.IntN(len(u.keys))]
			call.process = leftLive
			if l.rnd.IntN(3) == 0 {
				call.process = leftDead
			}
			u.waiting = append(u.waiting, call)
		}
	}
	share := l.anyShare(u)
	for _, key := range u.keys {
		for range max(share.limit, 1) {
			call := l.newCall(u, share)
			call.key, call.ttl = key, time.Hour
			if l.rnd.IntN(3) == 0 {
				call.ttl = 0
			}
			u.follower = append(u.follower, call)
		}
	}
	return u
}

// lastsWith reports whether the holders keep their shares if another gets one: the life that a stranger gives
// the key gets longer then, and it is that of a holder who is dead and whose share has no end.
func (u *leftUse) lastsWith() bool {
	return u.endless && u.share.permits > 0 && (u.ending == endSoon || u.ending == endLate)
}

func (l *left) newCall(u *leftUse, share leftShare) *leftCall {
	l.names++
	token := share.token(fmt.Sprint("t", l.names))
	return &leftCall{use: u, key: u.keys[0], share: share, token: token, ttl: leftTTL}
}

// anyShare is what those want who come later: mostly the same, because that is what a lost permit is
// noticed by.
func (l *left) anyShare(u *leftUse) leftShare {
	switch l.rnd.IntN(6) {
	case 0:
		return leftShare{}
	case 1:
		return leftShare{0, 1}
	case 2:
		return leftShare{1 + l.rnd.IntN(4), 1}
	}
	return u.share
}

// changed is the life that a stranger gives the key.
func (u *leftUse) changed() time.Duration {
	if u.ending == endSoon {
		return leftTTL / 5
	}
	return 3 * leftTTL
}

// take has all holders get their locks.
func (l *left) take(uses []*leftUse) {
	l.call(gen.WaitHowTry, collect(uses, func(u *leftUse) []*leftCall {
		if u.isSet {
			return nil
		}
		return u.holders
	}))
	var sets []gen.AcquireAllParams
	for _, u := range uses {
		if u.isSet {
			params := gen.AcquireAllParams{Token: u.holders[0].token, TTL: u.holders[0].ttl, Queued: true}
			params.Locks = int64(len(u.keys))
			params.Keys = append(params.Keys, u.keys...)
			for _, key := range u.keys {
				params.Keys = append(params.Keys, l.name("queue", key))
			}
			for _, key := range u.keys {
				params.Keys = append(params.Keys, l.counter(key))
			}
			sets = append(sets, params)
		}
	}
	for _, reply := range batches(l, sets, l.scripts.AcquireAllBatch) {
		require.True(l.t, reply.Acquired)
	}
	for _, u := range uses {
		for _, call := range u.holders {
			// All of a limit fit, but a part of the time nobody shares a lock that is open to strangers.
			require.True(l.t, call.granted || u.isSet || u.barging > 0, "%+v", call)
		}
	}
}

// call has each of them try, join or beat, and notes what they get.
func (l *left) call(how gen.WaitHow, calls []*leftCall) {
	params := make([]gen.WaitParams, len(calls))
	for i, c := range calls {
		params[i] = gen.WaitParams{
			Lock: c.key, Queue: l.name("queue", c.key), Waiters: l.name("waiters", c.key),
			Holders: l.name("holders", c.key), Grants: leftGrants, Counter: []string{l.counter(c.key)},
			Token: c.token, TTL: c.ttl, Process: c.process, How: how, Since: c.score, Barging: c.use.barging,
		}
	}
	for i, reply := range batches(l, params, l.scripts.WaitBatch) {
		calls[i].granted, calls[i].score = reply.Granted, max(reply.Score, calls[i].score)
		if reply.Score == 0 {
			calls[i].score = -calls[i].score // it has no place any more
		}
	}
}

// end ends the uses as they are to end.
func (l *left) end(uses []*leftUse) {
	var released []*leftCall
	var commands, values [][]string
	var forced []*leftCall
	for _, u := range uses {
		for _, key := range u.keys {
			switch u.ending {
			case endDel:
				commands = append(commands, []string{"DEL", key})
			case endDelHolders:
				commands = append(commands, []string{"DEL", l.name("holders", key)})
			case endSoon, endLate:
				commands = append(commands, []string{"PEXPIRE", key, fmt.Sprint(u.changed().Milliseconds())})
			case endForceValue:
				values = append(values, []string{"GET", key})
				forced = append(forced, &leftCall{use: u, key: key})
			case endRelease, endForce:
				for _, holder := range u.holders {
					released = append(released, &leftCall{use: u, key: key, token: holder.token})
				}
			}
		}
		if u.ending == endFlush {
			commands = [][]string{{"FLUSHALL"}}
		}
	}
	l.do(commands)
	for i, value := range l.do(values) {
		forced[i].token, _ = value.ToString()
		if forced[i].token != "" { // else it is over already
			released = append(released, forced[i])
		}
	}
	l.release(released)
}

// release gives up what the tokens have, and reports of each whether it had it.
func (l *left) release(calls []*leftCall) (freed []bool) {
	params := make([]gen.ReleaseParams, len(calls))
	for i, c := range calls {
		params[i] = gen.ReleaseParams{
			Lock: c.key, Queue: l.name("queue", c.key), Waiters: l.name("waiters", c.key),
			Holders: l.name("holders", c.key), Grants: leftGrants, Counter: []string{l.counter(c.key)},
			Token: c.token, Barging: c.use.barging,
		}
	}
	for _, reply := range batches(l, params, l.scripts.ReleaseBatch) {
		freed = append(freed, reply == 1)
	}
	return freed
}

// serve has those who wait and live get what they wait for, and give it up. One whose grant was over before
// it asked goes on with another token, as a caller does that has lost its place.
func (l *left) serve(waiting []*leftCall) {
	var live []*leftCall
	for _, c := range waiting {
		if c.process == leftLive {
			live = append(live, c)
		}
	}
	for began := time.Now(); len(live) > 0; {
		first := live[0]
		require.Less(
			l.t, time.Since(began), leftDeadline, "%d wait for ever: %+v, %+v", len(live), first, first.use,
		)
		var got, rest, again []*leftCall
		for _, c := range live {
			switch {
			case c.granted:
				got = append(got, c)
			default:
				rest = append(rest, c)
			}
		}
		l.release(got)
		l.call(gen.WaitHowHeartbeat, rest)
		for _, c := range rest {
			if !c.granted && c.score <= 0 {
				l.names++
				c.token, c.score = c.share.token(fmt.Sprint("t", l.names)), -c.score
				again = append(again, c)
			}
		}
		l.call(gen.WaitHowJoin, again)
		live = rest
	}
}

// follow has the followers get the locks. A try that the server makes when a lock must be free must succeed.
func (l *left) follow(uses []*leftUse) {
	calls := collect(uses, func(u *leftUse) []*leftCall { return u.follower })
	for began := time.Now(); len(calls) > 0; {
		require.Less(l.t, time.Since(began), leftDeadline, "%+v", calls[0])
		before := l.now()
		var rest, tries []*leftCall
		for _, c := range calls {
			if before <= c.use.free && c.use.lastsWith() {
				rest = append(rest, c)
			} else {
				tries = append(tries, c)
			}
		}
		l.call(gen.WaitHowTry, tries)
		after := l.now()
		for _, c := range tries {
			u := c.use
			if !c.granted {
				open := u.barging > 0 && (before%1000 < leftBarging.Milliseconds() || before/1000 != after/1000)
				require.True(l.t, before <= u.free || open, "nobody has %q, and it is not free: %+v", c.key, u)
				rest = append(rest, c)
			} else if u.ending == endDeath && c.share.permits == 0 && !u.endless {
				require.GreaterOrEqual(l.t, after, u.taken+leftTTL.Milliseconds(), "%q has another holder: %+v", c.key, u)
			}
		}
		calls = rest
	}
	// As many as fit have got in, and nobody else does.
	var more []*leftCall
	for _, u := range uses {
		for _, key := range u.keys {
			call := l.newCall(u, u.follower[0].share)
			call.ttl = time.Hour
			if call.key = key; call.share.limit == 0 {
				call.share, call.token = leftShare{}, "another"
			}
			more = append(more, call)
		}
	}
	l.call(gen.WaitHowTry, more)
	for _, c := range more {
		require.False(l.t, c.granted, "%q has too many holders: %+v", c.key, c.use)
	}
	// What one of several holders of permits gives up, another gets.
	var leave, enter []*leftCall
	for _, c := range more {
		if u := c.use; c.share.limit > 1 && u.barging == 0 && c.key == u.keys[0] {
			leave, enter = append(leave, u.follower[0]), append(enter, c)
			u.follower[0] = c
		}
	}
	for i, freed := range l.release(leave) {
		require.True(l.t, freed, "%+v", leave[i])
	}
	l.call(gen.WaitHowTry, enter)
	for _, c := range enter {
		require.True(l.t, c.granted, "a permit of %q is lost: %+v", c.key, c.use)
	}
}

// flaw tells what is wrong with the keys of a lock that is shared. A set that a stranger has left without
// its key may be there as long as somebody has the whole lock.
const flaw = `
local value, set = redis.call('GET', KEYS[1]), redis.call('ZRANGE', KEYS[2], 0, -1, 'WITHSCORES')
local phase = value and string.match(value, '^rlock:%a+ (%d+)$')
if not phase then
  return ''
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local used, last = 0, 0
if set[1] ~= phase then
  return 'the set is lost, or is not that of this phase'
end
for i = 3, #set, 2 do
  used = used + string.match(set[i], '^' .. phase .. ' (%d+) ')
  last = math.max(last, tonumber(set[i + 1]))
end
if used ~= tonumber(set[2]) then
  return 'the permits in use are counted wrongly'
end
for _, key in ipairs(KEYS) do
  local left = redis.call('PTTL', key)
  if left < 0 and last ~= math.huge then
    return key .. ' lasts for ever, and no lease does'
  elseif left >= 0 and now + left < last then
    return key .. ' ends before a lease'
  end
end
return ''`

// noFlaw requires that the keys of all locks are whole.
func (l *left) noFlaw(uses []*leftUse) {
	var commands [][]string
	for _, u := range uses {
		for _, key := range u.keys {
			commands = append(commands, []string{"EVAL", flaw, "2", key, l.name("holders", key)})
		}
	}
	for i, reply := range l.do(commands) {
		text, err := reply.ToString()
		require.NoError(l.t, err)
		require.Empty(l.t, text, "%q", commands[i][3:])
	}
}

// gone requires that no lock and no holder is left, though places of the dead may be.
func (l *left) gone(uses []*leftUse) {
	var commands [][]string
	for _, u := range uses {
		for _, key := range u.keys {
			commands = append(commands, []string{"EXISTS", key, l.name("holders", key)})
		}
	}
	for i, reply := range l.do(commands) {
		n, err := reply.AsInt64()
		require.NoError(l.t, err)
		require.Zero(l.t, n, "%q", commands[i])
	}
}

// others returns the names of the keys that are not fence counters, of which there are not too many.
func (l *left) others() (names []string) {
	all, err := env.Do(l.t, l.client, "KEYS", "*").AsStrSlice()
	require.NoError(l.t, err)
	counters := 0
	for _, name := range all {
		if strings.HasPrefix(name, leftCounters) {
			counters++
		} else {
			names = append(names, name)
		}
	}
	require.LessOrEqual(l.t, counters, leftMostOfThem)
	return names
}

// listen has the server see that somebody listens in the one process that lives.
func (l *left) listen() {
	const channel = leftGrants + leftLive
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	l.t.Cleanup(func() { cancel(); <-done })
	go func() {
		defer close(done)
		subscribe := l.client.B().Ssubscribe().Channel(channel).Build()
		_ = l.client.Receive(ctx, subscribe, func(rueidis.PubSubMessage) {})
	}()
	env.Soon(l.t, func() bool {
		reply, err := env.Do(l.t, l.client, "PUBSUB", "SHARDNUMSUB", channel).ToArray()
		require.NoError(l.t, err)
		n, _ := reply[1].AsInt64()
		return n == 1
	}, "it listens")
}

// do runs commands, a few hundred in one pipeline.
func (l *left) do(commands [][]string) (replies []rueidis.RedisResult) {
	for len(commands) > 0 {
		n := min(len(commands), leftChunk)
		some := make(rueidis.Commands, n)
		for i, words := range commands[:n] {
			some[i] = l.client.B().Arbitrary(words...).Build()
		}
		replies, commands = append(replies, l.client.DoMulti(l.t.Context(), some...)...), commands[n:]
	}
	return replies
}

// now returns the server's clock in milliseconds.
func (l *left) now() int64 {
	parts, err := env.Do(l.t, l.client, "TIME").AsIntSlice()
	require.NoError(l.t, err)
	return parts[0]*1000 + parts[1]/1000
}

func (l *left) name(of, key string) string {
	return "rlock:" + of + ":{" + l.tags[redislua.Slot(key)] + "}:" + key
}

func (l *left) counter(key string) string { return leftCounters + l.tags[redislua.Slot(key)] + "}" }

// batches makes calls of a script, a few hundred in one pipeline.
func batches[P, R any](
	l *left, all []P, call func(context.Context, rueidis.Client, []P) []redislua.Reply[R],
) (values []R) {
	for len(all) > 0 {
		n := min(len(all), leftChunk)
		for _, reply := range call(l.t.Context(), l.client, all[:n]) {
			require.NoError(l.t, reply.Err)
			values = append(values, reply.Value)
		}
		all = all[n:]
	}
	return values
}

func collect(uses []*leftUse, of func(*leftUse) []*leftCall) (calls []*leftCall) {
	for _, u := range uses {
		calls = append(calls, of(u)...)
	}
	return calls
}

// slotTags returns a hash tag of each slot, the smallest number: that is how rlock names what belongs to a
// lock.
func slotTags() []string {
	tags := make([]string, leftMostOfThem)
	for n, found := 0, 0; found < len(tags); n++ {
		tag := fmt.Sprint(n)
		if slot := redislua.Slot(tag); tags[slot] == "" {
			tags[slot], found = tag, found+1
		}
	}
	return tags
}
