package wire

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// Batch is how many leases one script extends. A larger script would keep the server from its other clients
// for longer, and gain little.
const Batch = 100

// Extension asks for a new lease of the keys of a lock.
type Extension struct {
	Parts  [][]string    // the keys; on a cluster, one part for each slot
	Token  string        // the token that the keys have, or get by this call
	Former []string      // other tokens that the keys may have before the call
	TTL    time.Duration // of the lease; clock.NoExpiry: the lease does not end
}

// Extended is the answer to an Extension.
type Extended struct {
	Lost string // a key that has none of the tokens; "": none. The keys of its part are unchanged.
	Err  error  // see OutcomeOf; nil if Lost is set
}

// Extend makes many extensions at once, up to Batch of them with one script. Each time a call to the server
// returns, Extend calls answered with the extensions of that call: their positions in list, and their
// answers. Each extension is in one call of answered. Extend makes these calls in goroutines of its own,
// and returns when all of them are done.
//
// If user code panics in a call, the extensions of that call have no answer, and Extend panics. If user
// code ends the goroutine of a call, the extensions of that call have no answer.
//
// If the server refuses a script, the reason may be one key: the user has lost the right to it, or its slot
// moves. Then each extension gets its own call, so that the other locks keep their lease. A key that has
// another type by now counts as lost in a script for several keys. In a script of its own it is an error.
//
// If an Extension has Former tokens, the keys get the Token and exactly the new lease.
func (s *Server) Extend(
	ctx context.Context, list []Extension, answered func(positions []int, answers []Extended),
) {
	each := func(positions []int) {
		if len(positions) > 0 {
			answered(positions, s.calls.extendEach(ctx, at(list, positions)))
		}
	}
	many := func(batches [][]int) {
		positions, answers, refused := s.calls.extendMany(ctx, list, batches)
		AtOnce(2, func(i int) { // refused extensions do not wait for what answered does
			if i == 0 {
				each(refused)
			} else if len(positions) > 0 {
				answered(positions, answers)
			}
		})
	}
	batches, single := batchesOf(list, s.cluster, s.batch())
	var calls []func()
	if s.cluster || s.backed { // a silent node must not cost the other locks their leases: see apart
		for i := range batches {
			calls = append(calls, func() { many(batches[i : i+1]) })
		}
		for i := range single {
			calls = append(calls, func() { each(single[i : i+1]) })
		}
	} else {
		if len(batches) > 0 {
			calls = append(calls, func() { many(batches) })
		}
		if len(single) > 0 {
			calls = append(calls, func() { each(single) })
		}
	}
	AtOnce(len(calls), func(i int) { calls[i]() })
}

// batch returns how many leases one script extends. A backend answers for each lease by itself.
func (s *Server) batch() int {
	if s.backed {
		return 1
	}
	return Batch
}

// ExtendWhile extends what another acquisition has of a key, unless its lease ends later anyway. It repeats
// the command for Patience while ctx lasts. It reports false if the token has nothing of the key.
func (s *Server) ExtendWhile(
	ctx context.Context, key, token string, ttl time.Duration,
) (held bool, err error) {
	var answer Extended
	err = RetryFor(ctx, Patience, func(ctx context.Context) error {
		answer = s.calls.extend(ctx, []Extension{{Parts: [][]string{{key}}, Token: token, TTL: ttl}})[0]
		return answer.Err
	})
	return answer.Lost == "", err
}

// extendEach sends a call for each part of each extension, all in one pipeline. It returns the answers in
// the order of list. On a cluster it returns after every node has answered.
func (s calls) extendEach(ctx context.Context, list []Extension) []Extended {
	var changes, plain []int
	for i, e := range list {
		if len(e.Former) > 0 {
			changes = append(changes, i)
		} else {
			plain = append(plain, i)
		}
	}
	if changes == nil {
		return s.extend(ctx, list)
	}
	answers := make([]Extended, len(list))
	for n, answer := range s.replace(ctx, at(list, changes)) {
		answers[changes[n]] = answer
	}
	if plain != nil {
		for n, answer := range s.extend(ctx, at(list, plain)) {
			answers[plain[n]] = answer
		}
	}
	return answers
}

// extend is extendEach for extensions that change no token.
func (s calls) extend(ctx context.Context, list []Extension) []Extended {
	var params []gen.ExtendParams
	for _, e := range list {
		for _, keys := range e.Parts {
			params = append(params, e.params(keys))
		}
	}
	replies := make([]redislua.Reply[int64], 0, len(params))
	for _, reply := range s.extendScripts(ctx, params) {
		replies = append(replies, first(reply.Value, reply.Err))
	}
	return answersOf(list, replies)
}

// replace is extendEach for extensions that change tokens.
func (s calls) replace(ctx context.Context, list []Extension) []Extended {
	var params []gen.AttachParams
	for _, e := range list {
		for _, keys := range e.Parts {
			params = append(params, gen.AttachParams{
				Keys: keysOf(keys, e.Token), Token: e.Token, TTL: ttlParam(e.TTL), Former: e.Former,
			})
		}
	}
	replies := make([]redislua.Reply[int64], 0, len(params))
	for _, reply := range s.scripts.AttachBatch(ctx, s.client, params) {
		replies = append(replies, redislua.Reply[int64]{Value: reply.Value.Position, Err: reply.Err})
	}
	return answersOf(list, replies)
}

// extendScripts runs extend.lua for each of params, in one pipeline. A single call costs less without a
// pipeline.
func (s calls) extendScripts(ctx context.Context, params []gen.ExtendParams) []redislua.Reply[[]int64] {
	if len(params) != 1 {
		return s.locks.ExtendBatch(ctx, s.client, params)
	}
	lost, err := s.locks.Extend(ctx, s.client, params[0])
	return []redislua.Reply[[]int64]{{Value: lost, Err: err}}
}

// first returns the first position of a lost key. 0 means that none is lost.
func first(lost []int64, err error) (reply redislua.Reply[int64]) {
	if reply.Err = err; len(lost) > 0 {
		reply.Value = lost[0]
	}
	return reply
}

// answersOf reads a reply for each part of each extension.
func answersOf(list []Extension, replies []redislua.Reply[int64]) []Extended {
	answers := make([]Extended, len(list))
	for i, e := range list {
		n := len(e.Parts)
		answers[i] = e.answer(replies[:n])
		replies = replies[n:]
	}
	return answers
}

func (e *Extension) params(keys []string) gen.ExtendParams {
	return gen.ExtendParams{Keys: keysOf(keys, e.Token), TTL: ttlParam(e.TTL), Tokens: []string{e.Token}}
}

// keysOf returns the keys for a script about a lease. For a share these are its key and the holders.
func keysOf(keys []string, token string) []string {
	if !isShare(token) {
		return keys
	}
	return []string{keys[0], slot.NamesOf(keys[0]).Holders}
}

// answer reads the replies for the parts. A reply is 0, or the position of a key that has none of the
// tokens. answer redacts each error before it combines them. A combined error is Indeterminate, and Redact
// would replace it by the refusal of one slot.
func (e *Extension) answer(replies []redislua.Reply[int64]) Extended {
	for i := range replies {
		if position := replies[i].Value; position != 0 {
			return Extended{Lost: slot.KeyAt(e.Parts[i], position)}
		}
		replies[i].Err = Redact(Redact(replies[i].Err, e.Token), e.Former...)
	}
	return Extended{Err: Combine(replies)}
}

// alike is equal for extensions that one script can make. The script gives all keys the same TTL, and on a
// cluster its keys must be in one slot.
type alike struct {
	ttl  time.Duration
	slot uint16
}

// batchesOf returns the positions of the extensions that go together in one script. single has the other
// positions: an extension of several keys, with Former tokens, of a share, or of a lease that does not end.
func batchesOf(list []Extension, cluster bool, batch int) (batches [][]int, single []int) {
	together := map[alike][]int{}
	for i, e := range list {
		several := len(e.Parts) > 1 || len(e.Parts[0]) > 1 || len(e.Former) > 0
		if several || e.TTL == clock.NoExpiry || isShare(e.Token) {
			single = append(single, i)
			continue
		}
		k := alike{ttl: e.TTL}
		if cluster {
			k.slot = slot.Of(e.Parts[0][0])
		}
		together[k] = append(together[k], i)
	}
	for _, positions := range together {
		batches = slices.AppendSeq(batches, slices.Chunk(positions, batch))
	}
	return batches, single
}

// extendMany runs extend.lua once for each batch, in one pipeline. refused has the extensions of batches
// that the server has refused. They have no answer.
func (s calls) extendMany(
	ctx context.Context, list []Extension, batches [][]int,
) (positions []int, answers []Extended, refused []int) {
	params := make([]gen.ExtendParams, len(batches))
	for i, batch := range batches {
		p := gen.ExtendParams{TTL: list[batch[0]].TTL}
		for _, e := range at(list, batch) {
			p.Keys = append(p.Keys, e.Parts[0][0])
			p.Tokens = append(p.Tokens, e.Token)
		}
		params[i] = p
	}
	for i, reply := range s.extendScripts(ctx, params) {
		if OutcomeOf(reply.Err) == Refused && len(batches[i]) > 1 {
			refused = append(refused, batches[i]...)
			continue
		}
		keys, lost := params[i].Keys, reply.Value
		if len(keys) == 1 && len(lost) > 0 && lost[0] != 0 {
			lost = []int64{1} // as for a set, whatever the number is
		}
		err := Redact(reply.Err, params[i].Tokens...)
		strange := func(n int64) bool { return n < 0 || n > int64(len(keys)) }
		if slices.ContainsFunc(lost, strange) {
			err = &redislua.ReplyError{Script: "Extend", Reason: errUnnamed}
		}
		for n, key := range keys {
			answer := Extended{Err: err}
			if err == nil && slices.Contains(lost, int64(n+1)) {
				answer = Extended{Lost: key}
			}
			positions, answers = append(positions, batches[i][n]), append(answers, answer)
		}
	}
	return positions, answers, refused
}

var errUnnamed = errors.New("is about a lock that the call does not name")

// ttlParam converts a TTL for scripts. 0 stands for a lease that does not end.
func ttlParam(ttl time.Duration) time.Duration {
	if ttl == clock.NoExpiry {
		return 0
	}
	return ttl
}
