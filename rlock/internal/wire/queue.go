package wire

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
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

// Refuse notes that the user was refused a place in the queue of a key, and could ask for the key without.
func (q *Queues) Refuse(refusal error) { q.calls.queue.went(refusal, false) }

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
	Ahead  int   // how many wait before it; while the first is silent, 11 at most
}

// Ask takes the key of a Claim, or asks for a Place in its queue. It sends one command, once.
func (q *Queues) Ask(ctx context.Context, c *Claim, r Request, p Place) (Standing, error) {
	how := gen.WaitHowJoin
	if p.Keep {
		how = gen.WaitHowHeartbeat
	}
	params := q.calls.waitParams(c, &r, how)
	params.Since = p.Since
	if p.Silent {
		params.Process = ""
	}
	q.server.acquisitions.Add(1)
	sent := clock.Now()
	reply, err := q.calls.scripts.Wait(ctx, q.calls.client, params)
	err = Redact(err, r.Token)
	if OutcomeOf(err) == Indeterminate {
		c.UnsettlePlace(c.key[0], r.Token)
	} else {
		q.server.roundTrip.note(sent)
	}
	st := Standing{waitAnswer(c, reply), reply.Score, int(reply.Ahead)}
	st.Sent = sent
	return st, err
}

// waitParams are those of a call about the key of a Claim, or about a share of it.
func (s calls) waitParams(c *Claim, r *Request, how gen.WaitHow) gen.WaitParams {
	names := slot.NamesOf(c.key[0])
	p := gen.WaitParams{
		Lock: c.key[0], Queue: names.Queue, Waiters: names.Waiters, Holders: names.Holders,
		Grants: s.queue.grants(c.key[0]), Token: r.Token, TTL: ttlParam(r.TTL), Process: s.queue.process, How: how,
		Barging: s.queue.barging,
	}
	if r.Fenced || c.IsShare() {
		p.Counter = slot.FenceCounter(c.key[0])
	}
	return p
}

func waitAnswer(c *Claim, r gen.WaitResult) Answer {
	return Answer{Acquired: r.Granted, Fence: uint64(r.Fence), Held: c.key[0], Left: remaining(r.Remaining)}
}

// releaseParams are those of a call that gives up what a token has of a key: the key, a share of it, or a
// place in its queue.
func (s calls) releaseParams(key, token string) gen.ReleaseParams {
	names := slot.NamesOf(key)
	return gen.ReleaseParams{
		Lock: key, Queue: names.Queue, Waiters: names.Waiters, Holders: names.Holders, Grants: s.queue.grants(key),
		Counter: slot.FenceCounter(key), Token: token, Barging: s.queue.barging,
	}
}

// Discard has the reaper take the token of a wait for the key of a Claim out of the queue, or pass
// the key on if it has the token.
func (q *Queues) Discard(c *Claim, token string) {
	late := !c.Settled() && c.rare.loose == token
	if late {
		c.rare.settle()
	}
	q.discard(c.key[0], token, late)
}

// DiscardStray is Discard for the token of a grant that this process does not expect. The server has granted
// it before it has said so.
func (q *Queues) DiscardStray(key, token string) { q.discard(key, token, false) }

// placeStays stands for the lease of what may have a place in a queue: the place does not end with the
// lease that it asks for.
const placeStays = clock.NoExpiry

func (q *Queues) discard(key, token string, late bool) {
	q.server.reap(releaseCall{keys: []string{key}, token: token, waits: true, late: late}, placeStays)
}
