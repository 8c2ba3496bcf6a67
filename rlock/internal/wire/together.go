package wire

import (
	"context"
	"math"
	"slices"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
)

// releaseCall is one call of a release.
type releaseCall struct {
	keys  []string // of one slot
	token string
	waits bool // the token may have a place in the queue
	late  bool // a command without an answer may give the token the keys, or a place, after any release
}

// passes reports whether release.lua makes the call. release.lua passes the key on to waiters and gives up
// places. It is the only script that releases a share.
func (s calls) passes(c *releaseCall) bool {
	return len(c.keys) == 1 && (s.queue.queued() || isShare(c.token))
}

func (s calls) releaseOne(ctx context.Context, c releaseCall) redislua.Reply[int64] {
	switch {
	case len(c.keys) > 1 && s.queuesAll(c.keys):
		return s.releaseSet(ctx, c)
	case !s.passes(&c):
		return s.releaseTogether(ctx, []releaseCall{c})[0]
	}
	with := func() (int64, error) { return s.release(ctx, c) }
	if isShare(c.token) {
		return replied(with())
	}
	return replied(withQueue(s.queue, true, with, func() (int64, error) {
		reply := s.withoutQueues(ctx, []releaseCall{c})[0]
		return reply.Value, reply.Err
	}))
}

// releaseSet frees a set, mostly with one script.
func (s calls) releaseSet(ctx context.Context, c releaseCall) redislua.Reply[int64] {
	freed, err := s.scripts.ReleaseMany(ctx, s.client, releaseManyParams(c.keys, []string{c.token}, true))
	err = complete(err, len(c.keys), len(freed))
	if err == nil && !slices.ContainsFunc(freed, func(n int64) bool { return n != 1 }) {
		return redislua.Reply[int64]{Value: int64(len(c.keys))}
	}
	t := s.together([]releaseCall{c})
	set := group{c.keys, []string{c.token}, make([]int, len(c.keys))}
	t.take(set, redislua.Reply[[]int64]{Value: freed, Err: err})
	return t.rest(ctx)[0]
}

func replied(value int64, err error) redislua.Reply[int64] {
	return redislua.Reply[int64]{Value: value, Err: err}
}

// releaseTogether makes all calls, and returns their replies in the same order. It works in three steps:
//  1. Keys without waiters go together in as few scripts as possible.
//  2. Keys with waiters, shares and places go one by one.
//  3. A call whose queue was refused goes without the queue.
//
// Each step is one pipeline, or several for very many calls.
func (s calls) releaseTogether(ctx context.Context, all []releaseCall) []redislua.Reply[int64] {
	t := s.together(all)
	groups := t.groups()
	for n, reply := range s.releaseGroups(ctx, groups, true) {
		t.take(groups[n], reply)
	}
	return t.rest(ctx)
}

// together has releases that are made at the same time. It knows the calls by their positions.
type together struct {
	calls
	all     []releaseCall
	replies []redislua.Reply[int64]
	single  []releaseCall // keys that go one by one
	of      []int         // the call of each key in single
	plain   []int         // calls that go without the queues
}

func (s calls) together(all []releaseCall) *together {
	return &together{calls: s, all: all, replies: make([]redislua.Reply[int64], len(all))}
}

// group is what one release_many.lua gives up: a set, or keys with a token each.
type group struct {
	keys, tokens []string
	of           []int // the call of each key
}

// releaseManyParams returns the parameters of the script. With queues, they name the queues of the keys.
func releaseManyParams(keys, tokens []string, queues bool) gen.ReleaseManyParams {
	p := gen.ReleaseManyParams{Keys: keys, Locks: int64(len(keys)), Tokens: tokens}
	if queues {
		p.Keys = withNames(keys, 0)
	}
	return p
}

// groups returns the groups of step 1. It adds the other calls to single or plain.
func (t *together) groups() (groups []group) {
	var apart []int // calls for a key that may have waiters
	for i, c := range t.all {
		switch {
		case len(c.keys) > 1 && t.queuesAll(c.keys):
			groups = append(groups, group{c.keys, []string{c.token}, slices.Repeat([]int{i}, len(c.keys))})
		case !t.passes(&c):
			t.plain = append(t.plain, i)
		case c.waits || isShare(c.token):
			t.goesAlone(i, c.keys)
		default:
			apart = append(apart, i)
		}
	}
	for some := range slices.Chunk(apart, maxCalls) {
		if len(some) == 1 {
			t.goesAlone(some[0], t.all[some[0]].keys)
			continue
		}
		g := group{of: some}
		for _, i := range some {
			g.keys, g.tokens = append(g.keys, t.all[i].keys[0]), append(g.tokens, t.all[i].token)
		}
		groups = append(groups, g)
	}
	return groups
}

// goesAlone adds a key of a call to single.
func (t *together) goesAlone(i int, key []string) {
	t.single, t.of = append(t.single, releaseCall{keys: key, token: t.all[i].token}), append(t.of, i)
}

// take takes the answer of release_many.lua for a group. The script leaves keys that have waiters.
func (t *together) take(g group, reply redislua.Reply[[]int64]) {
	isSet := len(g.tokens) == 1
	for k, i := range g.of {
		switch r := &t.replies[i]; {
		case isSet && t.queue.goesWithout(reply.Err):
			if r.Err == nil {
				t.plain = append(t.plain, i)
			}
			r.Err = reply.Err
		case reply.Err == nil && reply.Value[k] == 0, !isSet && OutcomeOf(reply.Err) == Refused:
			t.goesAlone(i, g.keys[k:k+1])
		case reply.Err != nil:
			r.Err = reply.Err
		case reply.Value[k] == 1:
			r.Value++
		default:
			r.Value = math.MinInt32 // the tally refuses this value
		}
	}
}

// rest makes the calls of the steps 2 and 3.
func (t *together) rest(ctx context.Context) []redislua.Reply[int64] {
	t.oneByOne(ctx)
	for n, reply := range t.withoutQueues(ctx, at(t.all, t.plain)) {
		i := t.plain[n]
		refusal := t.replies[i].Err
		if reply.Err == nil {
			t.queue.went(refusal, true)
		}
		if stays := t.all[i].waits && reply.Err == nil && reply.Value == 0; stays && movesNow(refusal) {
			continue // try again later: the token may have a place in the queue
		}
		t.replies[i] = reply
	}
	return t.replies
}

// oneByOne runs release.lua for each single key.
func (t *together) oneByOne(ctx context.Context) {
	if len(t.single) == 0 {
		return
	}
	params := make([]gen.ReleaseParams, len(t.single))
	for n, c := range t.single {
		params[n] = t.releaseParams(c.keys[0], c.token)
	}
	one := func(*gen.ReleaseParams) int64 { return 1 }
	for n, reply := range inPipelines(params, one, func(some []gen.ReleaseParams) []redislua.Reply[int64] {
		return t.scripts.ReleaseBatch(ctx, t.client, some)
	}) {
		i := t.of[n]
		r := &t.replies[i]
		r.Value += reply.Value
		if reply.Err != nil && (r.Err == nil || OutcomeOf(r.Err) == Refused) {
			r.Err = reply.Err
		}
		if c := &t.all[i]; len(c.keys) == 1 && !isShare(c.token) && t.queue.goesWithout(reply.Err) {
			t.plain = append(t.plain, i)
		}
	}
}

// withoutQueues frees keys without their queues. Each reply says how many keys were freed.
func (s calls) withoutQueues(ctx context.Context, all []releaseCall) []redislua.Reply[int64] {
	groups := make([]group, len(all))
	for n, c := range all {
		groups[n] = group{keys: c.keys, tokens: []string{c.token}}
	}
	replies := make([]redislua.Reply[int64], len(all))
	for n, reply := range s.releaseGroups(ctx, groups, false) {
		replies[n].Err = reply.Err
		for _, freed := range reply.Value {
			if freed != 0 && freed != 1 {
				replies[n].Value = math.MinInt32 // the tally refuses this value
			}
			replies[n].Value += freed
		}
	}
	return replies
}

// longPipeline is the most keys in one pipeline, which takes about 20 ms. If the context of a pipeline
// ends, none of its calls has an answer. So of very many releases, the first pipelines still succeed.
const longPipeline = 1 << 13

// inPipelines runs calls in pipelines, one after the other. It stops if a pipeline gets no answer, since
// the next one would wait as long again. The calls that are left get the error of that pipeline. keys
// returns the number of keys of a call.
func inPipelines[P, R any](
	calls []P, keys func(call *P) int64, run func(some []P) []redislua.Reply[R],
) []redislua.Reply[R] {
	replies := make([]redislua.Reply[R], 0, len(calls))
	for len(calls) > 0 {
		n, sum := 0, int64(0)
		for n < len(calls) && (n == 0 || sum+keys(&calls[n]) <= longPipeline) {
			sum += keys(&calls[n])
			n++
		}
		some := run(calls[:n])
		calls, replies = calls[n:], append(replies, some...)
		if slices.ContainsFunc(some, func(r redislua.Reply[R]) bool { return OutcomeOf(r.Err) != Indeterminate }) {
			continue
		}
		return append(replies, slices.Repeat([]redislua.Reply[R]{{Err: some[0].Err}}, len(calls))...)
	}
	return replies
}

// releaseGroups runs release_many.lua for each group.
func (s calls) releaseGroups(ctx context.Context, groups []group, queues bool) []redislua.Reply[[]int64] {
	if len(groups) == 0 {
		return nil
	}
	params := make([]gen.ReleaseManyParams, len(groups))
	for n, g := range groups {
		params[n] = releaseManyParams(g.keys, g.tokens, queues)
	}
	locks := func(p *gen.ReleaseManyParams) int64 { return p.Locks }
	replies := inPipelines(params, locks, func(some []gen.ReleaseManyParams) []redislua.Reply[[]int64] {
		return s.locks.ReleaseManyBatch(ctx, s.client, some)
	})
	for n, g := range groups {
		replies[n].Err = complete(replies[n].Err, len(g.keys), len(replies[n].Value))
	}
	return replies
}
