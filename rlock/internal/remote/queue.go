package remote

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/reaper"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// queueing is how this process uses the queues that the server keeps.
type queueing struct {
	process string        // the name of this process in them
	slots   bool          // the keys are of a cluster: the process has a channel for each slot
	barging time.Duration // for how long in each second a free key stays free although others wait
	mode                  // whether it does
}

// grants returns what the channels start with on which processes are told of grants of a key.
func (q *queueing) grants(key string) string {
	if q.slots {
		return slot.Grants(key)
	}
	return slot.AllGrants
}

// Queues are those that the server keeps for the keys of locks.
type Queues struct {
	calls  calls
	server *Server
}

// Queues returns the queues of the server.
func (s *Server) Queues() *Queues { return &s.queues }

// LetBarge has scripts of this Server leave a free key free for barging in each second of the server's
// clock, although processes wait for it. It is called before the first one.
func (q *Queues) LetBarge(barging time.Duration) { q.calls.queue.barging = barging }

// Barging returns for how long in each second a free key stays free; 0: it does not.
func (q *Queues) Barging() time.Duration { return q.calls.queue.barging }

// Choose has calls use the queues in a Mode. It is called before the first one.
func (q *Queues) Choose(m Mode) { q.calls.queue.chosen = m }

// Used reports whether acquisitions wait in the queue of a key, and releases pass the key on to the first in
// it.
func (q *Queues) Used() bool { return q.calls.queue.queued() }

// Refusal returns why the queues are not used any more; nil: they are, or nobody wants them.
func (q *Queues) Refusal() error {
	if refusal := q.calls.queue.refusal.Load(); refusal != nil {
		return *refusal
	}
	return nil
}

// Channel is the channel on which this process is told of grants of a key: on a cluster that of the
// key's slot, and otherwise the same for all keys.
func (q *Queues) Channel(key string) string { return q.calls.queue.grants(key) + q.calls.queue.process }

// Insists reports whether a refusal is the error of its call: the user lacks a right, and callers want to
// wait in the queues and not without.
func (q *Queues) Insists(refusal error) bool {
	return q.calls.queue.chosen == Queued && Forbidden(refusal)
}

// Refuse notes that the user was refused a place in the queue of a key, and could take the key without.
func (q *Queues) Refuse(refusal error) { q.calls.queue.went(refusal, nil) }

// Place says how a Request asks for a place in the queue of its key.
type Place struct {
	Keep   bool  // a heartbeat: keeps the place that the token has, and never makes one
	Silent bool  // the server need not tell this process of a grant
	Since  int64 // score of an earlier token of the same wait; 0: none
}

// Standing is what the server says to a Request for a Place.
type Standing struct {
	Answer       // if Acquired, Left is what is left of the lease
	Score  int64 // of the place in the queue; 0: none
	Ahead  int   // how many wait before it
}

// Ask takes the key of a Claim, or asks for a Place in its queue. It sends one command, once.
func (q *Queues) Ask(ctx context.Context, c *Claim, r Request, p Place) (Standing, error) {
	how := gen.JoinHowJoin
	if p.Keep {
		how = gen.JoinHowHeartbeat
	}
	q.server.acquisitions.Add(1)
	sent := clock.Now()
	st, err := q.ask(ctx, c, r, p, how)
	err = Redact(err, r.Token)
	if OutcomeOf(err) == Indeterminate {
		c.AddPossibleJoin(c.key[0], r.Token, r.TTL, p.Silent)
	} else {
		q.server.roundTrip.note(sent)
	}
	st.Sent = sent
	return st, err
}

// ask is Ask for a whole key or a share.
func (q *Queues) ask(ctx context.Context, c *Claim, r Request, p Place, how gen.JoinHow) (Standing, error) {
	s := q.calls
	if c.IsShare() {
		params := s.shares().params(c.key[0], r.Token, r.TTL, p.Silent)
		params.How, params.Since = gen.AcquireSharedHow(how), p.Since
		return s.shares().ask(ctx, params)
	}
	params := s.joinParams(c, r, how)
	params.Since = p.Since
	if p.Silent {
		params.Process = ""
	}
	reply, err := s.scripts.Join(ctx, s.client, params)
	return Standing{joinAnswer(c, reply), reply.Score, int(reply.Ahead)}, err
}

func (s calls) joinParams(c *Claim, r Request, how gen.JoinHow) gen.JoinParams {
	p := gen.JoinParams{
		Lock: c.key[0], Queue: slot.Queue(c.key[0]), Grants: s.queue.grants(c.key[0]),
		Token: r.Token, TTL: ttlParam(r.TTL), Process: s.queue.process, How: how, Barging: s.queue.barging,
	}
	if r.Fenced {
		p.Counter = slot.FenceCounter(c.key[0])
	}
	return p
}

func joinAnswer(c *Claim, r gen.JoinResult) Answer {
	return Answer{Acquired: r.Granted, Fence: uint64(r.Fence), Held: c.key[0], Left: remaining(r.Remaining)}
}

// Passed is what Pass has done.
type Passed struct {
	Freed bool // the key had the token, and has it no longer
	Standing
}

// Pass releases a key that has token. The first in the queue has the key then; if another process
// waits, next gets a place behind all others, and otherwise the key. It sends one command, once.
// After an error, nobody knows what has happened.
func (q *Queues) Pass(ctx context.Context, c *Claim, token string, next Request, silent bool) (p Passed, err error) {
	params := gen.RequeueParams{
		Lock: c.key[0], Queue: slot.Queue(c.key[0]), Grants: q.calls.queue.grants(c.key[0]), Counter: slot.FenceCounter(c.key[0]),
		Token: token, Process: q.calls.queue.process, Again: next.Token, AgainTTL: ttlParam(next.TTL), Barging: q.calls.queue.barging,
	}
	if silent {
		params.Process = ""
	}
	c.tally.perhaps = true // until there is an answer
	sent := clock.Now()
	reply, err := q.calls.scripts.Requeue(ctx, q.calls.client, params)
	err = Redact(err, token, next.Token)
	if OutcomeOf(err) != Indeterminate {
		c.tally.perhaps = false
	}
	p.Freed = err == nil && reply.Freed
	p.Standing = Standing{Answer{Sent: sent, Acquired: reply.Granted, Fence: uint64(reply.Fence), Left: remaining(reply.Remaining)}, reply.Score, 0}
	return p, err
}

func (s calls) passParams(key, token string) gen.PassParams {
	return gen.PassParams{
		Lock: key, Queue: slot.Queue(key), Grants: s.queue.grants(key), Counter: slot.FenceCounter(key), Token: token, Process: s.queue.process, Barging: s.queue.barging,
	}
}

// Discard has the reaper take the token of a wait for the key of a Claim out of the queue, or pass
// the key on if it has the token. ttl is the one with which the token has joined.
func (q *Queues) Discard(c *Claim, token string, ttl time.Duration, silent bool) {
	q.discard(c.key[0], token, ttl, silent, c.takePossible(token))
}

// DiscardGranted is Discard for a token that has got the key, or may have got it.
func (q *Queues) DiscardGranted(c *Claim, token string, ttl time.Duration, silent bool) {
	q.discard(c.key[0], token, ttl, silent, max(c.takePossible(token), 1))
}

// takePossible returns for how many calls of a token the reaper has to look, and forgets them. It is one
// more than have got no answer: another may have been answered, and the reaper would stop when it has
// undone that one.
func (c *Claim) takePossible(token string) (n int) {
	if c.rare != nil && token != "" && c.rare.kept.token == token {
		n, c.rare.kept = c.rare.kept.calls, kept{}
		return n
	}
	if c.Possible() == 0 || c.rare.token != token {
		return 0
	}
	n = c.rare.unanswered + 1
	c.rare.forget()
	return n
}

// KeepsPlace notes that a token keeps its place until another one of the same wait has one, and is discarded
// then. What calls of the other may have done is counted apart, so that none of either is forgotten.
func (c *Claim) KeepsPlace(token string) {
	if n := c.takePossible(token); n > 0 {
		c.rare.kept = kept{token, n}
	}
}

// DiscardStray is Discard for the token of a grant that this process does not expect. The server has granted
// it before it has said so, so one answer is enough.
func (q *Queues) DiscardStray(key, token string, ttl time.Duration, silent bool) {
	q.discard(key, token, ttl, silent, 0)
}

// placeStays stands for the lease of what may have a place in a queue: the place does not end with the
// lease that it asks for.
const placeStays = clock.NoExpiry

func (q *Queues) discard(key, token string, ttl time.Duration, silent bool, unanswered int) {
	q.server.reap(reaper.Item{
		Keys: []string{key}, Token: token, Waits: true, TTL: ttl, Silent: silent, Unanswered: unanswered,
	}, placeStays)
}

// freeing is one call of a release.
type freeing struct {
	keys   []string // of one slot
	token  string
	waits  bool          // it may have a place in the queue
	ttl    time.Duration // with which it has joined then
	silent bool
}

// releaseOne frees keys of one slot; a single key it passes on.
func (s calls) releaseOne(ctx context.Context, c *Claim, token string) (freed int64, err error) {
	if isShare(token) {
		reply := s.shares().release(ctx, []freeing{{keys: c.Keys(), token: token}})[0]
		if reply.Value {
			freed = 1
		}
		return freed, reply.Err
	}
	keys := c.Keys()
	if s.queuesAll(keys) {
		var refusal error
		if c.IsSet() {
			freed, refusal = s.scripts.PassAll(ctx, s.client, s.queue.passAllParams(keys, token))
		} else {
			freed, refusal = s.pass(ctx, keys[0], token)
		}
		if !s.queue.goesWithout(refusal) {
			return freed, refusal
		}
		defer func() { s.queue.went(refusal, err) }()
	}
	freed, err = s.scripts.Release(ctx, s.client, gen.ReleaseParams{Locks: keys, Token: token})
	return freed, err
}

// releaseTogether makes all the calls, in one pipeline for single keys, one for sets and one for shares.
// It returns their replies in the same order.
func releaseTogether(ctx context.Context, s calls, all []freeing) []gen.Reply[int64] {
	var shares, whole []int
	for i, f := range all {
		if isShare(f.token) {
			shares = append(shares, i)
		}
	}
	if shares == nil {
		return s.releaseWhole(ctx, all)
	}
	replies := make([]gen.Reply[int64], len(all))
	for n, reply := range s.shares().release(ctx, at(all, shares)) {
		replies[shares[n]].Err = reply.Err
		if reply.Value {
			replies[shares[n]].Value = 1
		}
	}
	for i, f := range all {
		if !isShare(f.token) {
			whole = append(whole, i)
		}
	}
	for n, reply := range s.releaseWhole(ctx, at(all, whole)) {
		replies[whole[n]] = reply
	}
	return replies
}

// releaseWhole is releaseTogether for whole keys.
func (s calls) releaseWhole(ctx context.Context, all []freeing) []gen.Reply[int64] {
	replies := make([]gen.Reply[int64], len(all))
	plain := passSets(ctx, s, all, s.passEach(ctx, all, replies), replies)
	if len(plain) == 0 {
		return replies
	}
	params := make([]gen.ReleaseParams, len(plain))
	for n, i := range plain {
		params[n] = gen.ReleaseParams{Locks: all[i].keys, Token: all[i].token}
	}
	for n, reply := range s.scripts.ReleaseBatch(ctx, s.client, params) {
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

// passEach makes the calls for single keys whose queues may be used. It returns the positions of those that remain.
func (s calls) passEach(ctx context.Context, all []freeing, replies []gen.Reply[int64]) (remain []int) {
	var (
		params []gen.PassParams
		asked  []int
		behind []freeing // places that may have kept shares out
	)
	for i, f := range all {
		if len(f.keys) > 1 || !s.queue.queued() {
			remain = append(remain, i)
			continue
		}
		p := s.passParams(f.keys[0], f.token)
		p.TTL = ttlParam(f.ttl)
		if f.silent {
			p.Process = ""
		}
		params, asked = append(params, p), append(asked, i)
	}
	if len(params) == 0 {
		return remain
	}
	for n, reply := range s.scripts.PassBatch(ctx, s.client, params) {
		i := asked[n]
		replies[i] = reply
		if reply.Value == sharesWait {
			replies[i].Value = 0
			if all[i].waits {
				behind = append(behind, all[i])
			}
		}
		if s.queue.goesWithout(reply.Err) {
			remain = append(remain, i)
		}
	}
	if len(behind) > 0 { // without an answer, the heartbeats of those who wait do it
		s.shares().release(ctx, behind)
	}
	return remain
}
