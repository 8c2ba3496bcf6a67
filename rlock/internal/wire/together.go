package wire

import (
	"context"
	"math"
	"slices"

	"github.com/rlock-go/toolkit/gen"
)

// leaving is one call of a release.
type leaving struct {
	keys  []string // of one slot
	token string
	waits bool // it may have a place in the queue
	late  bool // a command without an answer may give it the keys, or a place, after any release
}

// byRelease reports whether release.lua makes the call, which also gives up places and passes the key on:
// that of a share always, because there is no other way.
func (s calls) byRelease(f *leaving) bool {
	return len(f.keys) == 1 && (s.queue.queued() || isShare(f.token))
}

// releaseOne frees keys of one slot.
func (s calls) releaseOne(ctx context.Context, c *Claim, token string) (freed int64, err error) {
	f := leaving{keys: c.Keys(), token: token}
	if !s.byRelease(&f) {
		reply := releaseTogether(ctx, s, []leaving{f})[0]
		return reply.Value, reply.Err
	}
	freed, refusal := s.release(ctx, f.keys[0], token)
	if isShare(token) || !s.queue.goesWithout(refusal) {
		return freed, refusal
	}
	reply := s.freePlain(ctx, []leaving{f})[0]
	s.queue.went(refusal, reply.Err)
	return reply.Value, reply.Err
}

// group is what one release_many.lua gives up: a set, or keys of which each has a token of its own.
type group struct {
	keys, tokens []string
	of           []int // which call each key is of
}

// releaseTogether makes all the calls, and returns their replies in the same order. Keys for which nobody
// waits go together in as few scripts as possible. Then the others go one by one, in one pipeline: keys that
// are passed on, shares and places. What is refused for its queue goes without it, in another pipeline.
func releaseTogether(ctx context.Context, s calls, all []leaving) []gen.Reply[int64] {
	var (
		replies = make([]gen.Reply[int64], len(all))
		sets    []group
		apart   []int // calls for a key that others may wait for
		single  []leaving
		of      []int // which call each of single is of
		plain   []int
	)
	for i, f := range all {
		switch {
		case len(f.keys) > 1 && s.queuesAll(f.keys):
			sets = append(sets, group{f.keys, []string{f.token}, slices.Repeat([]int{i}, len(f.keys))})
		case !s.byRelease(&f):
			plain = append(plain, i)
		case f.waits || isShare(f.token):
			single, of = append(single, f), append(of, i)
		default:
			apart = append(apart, i)
		}
	}
	for some := range slices.Chunk(apart, maxCalls) {
		g := group{of: some}
		for _, i := range some {
			g.keys, g.tokens = append(g.keys, all[i].keys[0]), append(g.tokens, all[i].token)
		}
		sets = append(sets, g)
	}
	sets = slices.DeleteFunc(sets, func(g group) bool {
		if len(g.keys) == 1 {
			single, of = append(single, all[g.of[0]]), append(of, g.of[0])
		}
		return len(g.keys) == 1
	})
	for n, reply := range s.releaseGroups(ctx, sets) {
		g := &sets[n]
		isSet, err := len(g.tokens) == 1, complete(reply.Err, len(g.keys), len(reply.Value))
		for k, i := range g.of {
			switch r := &replies[i]; {
			case isSet && s.queue.goesWithout(err):
				if r.Err == nil {
					plain = append(plain, i)
				}
				r.Err = err
			case err == nil && reply.Value[k] == 0, !isSet && OutcomeOf(err) == Refused:
				single, of = append(single, leaving{keys: g.keys[k : k+1], token: all[i].token}), append(of, i)
			case err != nil:
				r.Err = err
			case reply.Value[k] == 1:
				r.Value++
			default:
				r.Value = math.MinInt32 // which the tally refuses
			}
		}
	}
	for n, reply := range s.releaseSingle(ctx, single) {
		i := of[n]
		r := &replies[i]
		r.Value += reply.Value
		if reply.Err != nil && (r.Err == nil || OutcomeOf(r.Err) == Refused) {
			r.Err = reply.Err
		}
		if len(all[i].keys) == 1 && !isShare(all[i].token) && s.queue.goesWithout(reply.Err) {
			plain = append(plain, i)
		}
	}
	for n, reply := range s.freePlain(ctx, at(all, plain)) {
		i := plain[n]
		refusal := replies[i].Err
		s.queue.went(refusal, reply.Err)
		if stays := all[i].waits && reply.Err == nil && reply.Value == 0; stays && movesNow(refusal) {
			continue // it is tried again, because the token may have a place in the queue
		}
		replies[i] = reply
	}
	return replies
}

// releaseGroups runs release_many.lua for each, in one pipeline.
func (s calls) releaseGroups(ctx context.Context, groups []group) []gen.Reply[[]int64] {
	if len(groups) == 0 {
		return nil
	}
	params := make([]gen.ReleaseManyParams, len(groups))
	for n, g := range groups {
		params[n] = gen.ReleaseManyParams{Keys: withNames(g.keys, 0), Locks: int64(len(g.keys)), Tokens: g.tokens}
	}
	return s.scripts.ReleaseManyBatch(ctx, s.client, params)
}

// releaseSingle runs release.lua for each key, in one pipeline.
func (s calls) releaseSingle(ctx context.Context, all []leaving) []gen.Reply[int64] {
	if len(all) == 0 {
		return nil
	}
	params := make([]gen.ReleaseParams, len(all))
	for n, f := range all {
		params[n] = s.releaseParams(f.keys[0], f.token)
	}
	return s.scripts.ReleaseBatch(ctx, s.client, params)
}

// freePlain frees keys without their queues.
func (s calls) freePlain(ctx context.Context, all []leaving) []gen.Reply[int64] {
	if len(all) == 0 {
		return nil
	}
	params := make([]gen.ReleaseManyParams, len(all))
	for n, f := range all {
		params[n] = gen.ReleaseManyParams{
			Keys: f.keys, Locks: int64(len(f.keys)), Tokens: []string{f.token},
		}
	}
	replies := make([]gen.Reply[int64], len(all))
	for n, reply := range s.scripts.ReleaseManyBatch(ctx, s.client, params) {
		replies[n] = total(reply, all[n].keys)
	}
	return replies
}

// total adds up how many keys were given up.
func total(reply gen.Reply[[]int64], keys []string) (sum gen.Reply[int64]) {
	if sum.Err = complete(reply.Err, len(keys), len(reply.Value)); sum.Err != nil {
		return sum
	}
	for _, freed := range reply.Value {
		if freed != 0 && freed != 1 {
			return gen.Reply[int64]{Value: -1} // which the tally refuses
		}
		sum.Value += freed
	}
	return sum
}
