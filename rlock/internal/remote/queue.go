package remote

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/reaper"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// queueing is how this process uses the queues that the server keeps.
type queueing struct {
	process string       // the name of this process in them
	never   bool         // the keys are of a cluster
	refused atomic.Int64 // a clock.Instant: until then no call asks for them, because the user was refused; 0: never
}

// grants is what the channels start with on which processes are told of grants.
const grants = slot.Grants

// Queues are those that the server keeps for the keys of locks.
type Queues struct {
	calls  calls
	server *Server
}

// Queues returns the queues of the server.
func (s *Server) Queues() *Queues { return &s.queues }

// Usable reports whether acquisitions of one key may wait in the queue of the key, and releases
// pass the lock on to the first in it. They do not on a cluster, or if the user lacks the rights:
// the first call that shows it is repeated without the queue, and so are others for Patience. Then a
// call asks again, because somebody may have granted the rights.
func (q *Queues) Usable() bool { return q.calls.queues() }

func (s calls) queues() bool {
	if s.queue.never {
		return false
	}
	until := s.queue.refused.Load()
	return until == 0 || clock.Now() >= clock.Instant(until)
}

// Channel is the channel on which this process is told of grants.
func (q *Queues) Channel() string { return grants + q.calls.queue.process }

// Forbidden reports whether the user lacked a right to run a command.
func Forbidden(err error) bool {
	if err == nil {
		return false
	}
	var server *rueidis.RedisError
	if !errors.As(err, &server) {
		return false
	}
	// Redis 7.0 has words of its own for the commands of a script, and Valkey others.
	text := server.Error()
	return strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "ACL failure") || strings.Contains(text, "user executing the script can't")
}

// withoutQueue notes that a call without the queue went well, or failed in another way, after the
// user was not allowed to make it with the queue.
func (s calls) withoutQueue(err error) {
	if !Forbidden(err) {
		s.refuse()
	}
}

func (s calls) refuse() { s.queue.refused.Store(int64(clock.Now().After(Patience))) }

// Refuse notes that the user may not use the queues.
func (q *Queues) Refuse() { q.calls.refuse() }

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
	params := q.calls.joinParams(c, r, how)
	params.Since = p.Since
	if p.Silent {
		params.Process = ""
	}
	q.server.acquisitions.Add(1)
	sent := clock.Now()
	reply, err := q.calls.scripts.Join(ctx, q.calls.client, params)
	err = Redact(err, r.Token)
	if OutcomeOf(err) == Indeterminate {
		c.AddPossible(r.Token, 1)
	} else {
		q.server.roundTrip.note(sent)
	}
	st := Standing{joinAnswer(c, reply), reply.Score, int(reply.Ahead)}
	st.Sent = sent
	return st, err
}

func (s calls) joinParams(c *Claim, r Request, how gen.JoinHow) gen.JoinParams {
	p := gen.JoinParams{
		Lock: c.key[0], Queue: slot.Queue(c.key[0]), Grants: grants,
		Token: r.Token, TTL: ttlParam(r.TTL), Process: s.queue.process, How: how,
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
		Lock: c.key[0], Queue: slot.Queue(c.key[0]), Grants: grants, Counter: slot.FenceCounter(c.key[0]),
		Token: token, Process: q.calls.queue.process, Again: next.Token, AgainTTL: ttlParam(next.TTL),
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
		Lock: key, Queue: slot.Queue(key), Grants: grants, Counter: slot.FenceCounter(key), Token: token, Process: s.queue.process,
	}
}

// Discard has the reaper take the token of a wait for the key of a Claim out of the queue, or pass
// the key on if it has the token. ttl is the one with which the token has joined.
func (q *Queues) Discard(c *Claim, token string, ttl time.Duration, silent bool) {
	unanswered := 0
	if c.Possible() > 0 && c.rare.token == token {
		unanswered, c.rare.unanswered = c.rare.unanswered, 0
	}
	q.discard(c.key[0], token, ttl, silent, unanswered)
}

// DiscardStray is Discard for a token of which nothing is known: that of a grant that this process
// does not expect, or of a call without an answer.
func (q *Queues) DiscardStray(key, token string, ttl time.Duration, silent bool) {
	q.discard(key, token, ttl, silent, 1)
}

func (q *Queues) discard(key, token string, ttl time.Duration, silent bool, unanswered int) {
	q.server.reaper.Add(reaper.Item{Keys: []string{key}, Token: token, TTL: ttl, Silent: silent, Unanswered: unanswered}, ttl)
}

// freeing is one call of a release.
type freeing struct {
	keys   []string // of one slot
	token  string
	ttl    time.Duration // with which the token may have joined the queue
	silent bool
}

// releaseOne frees keys of one slot; a single key it passes on.
func (s calls) releaseOne(ctx context.Context, c *Claim, token string) (freed int64, err error) {
	if s.queues() && !c.IsSet() {
		passed, refusal := s.scripts.Pass(ctx, s.client, s.passParams(c.key[0], token))
		if !Forbidden(refusal) {
			if passed {
				freed = 1
			}
			return freed, refusal
		}
		defer func() { s.withoutQueue(err) }()
	}
	freed, err = s.scripts.Release(ctx, s.client, gen.ReleaseParams{Locks: c.Keys(), Token: token})
	return freed, err
}

// releaseEach makes all the calls, in one pipeline for single keys and one for sets. It returns
// their replies in the same order.
func (s calls) releaseEach(ctx context.Context, all []freeing) []gen.Reply[int64] {
	replies := make([]gen.Reply[int64], len(all))
	var plain []int
	if !s.queues() {
		plain = make([]int, len(all))
		for i := range all {
			plain[i] = i
		}
	} else if plain = s.passEach(ctx, all, replies); len(plain) == 0 {
		return replies
	}
	params := make([]gen.ReleaseParams, len(plain))
	for n, i := range plain {
		params[n] = gen.ReleaseParams{Locks: all[i].keys, Token: all[i].token}
	}
	for n, reply := range s.scripts.ReleaseBatch(ctx, s.client, params) {
		i := plain[n]
		if Forbidden(replies[i].Err) {
			s.withoutQueue(reply.Err)
		}
		replies[i] = reply
	}
	return replies
}

// passEach makes the calls for single keys. It returns the positions of those that remain.
func (s calls) passEach(ctx context.Context, all []freeing, replies []gen.Reply[int64]) (remain []int) {
	var (
		params []gen.PassParams
		asked  []int
	)
	for i, f := range all {
		if len(f.keys) > 1 {
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
		replies[i].Err = reply.Err
		if reply.Value {
			replies[i].Value = 1
		}
		if Forbidden(reply.Err) {
			remain = append(remain, i)
		}
	}
	return remain
}
