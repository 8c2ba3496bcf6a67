package wire

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// queueing says how this process uses the queues of the server.
type queueing struct {
	process string        // the name of this process in the queues
	slots   bool          // the server is a cluster: the process has a channel for each slot
	barging time.Duration // for how long in each second a free key stays free although others wait
	mode                  // whether it uses them
}

// grants returns the start of the channel names that carry grants of a key.
func (q *queueing) grants(key string) string {
	if q.slots {
		return slot.Grants(key)
	}
	return slot.AllGrants
}

// Queues are the queues that the server keeps for the keys of locks.
type Queues struct {
	calls  calls
	server *Server
}

// Queues returns the queues of the server.
func (s *Server) Queues() *Queues { return &s.queues }

// LetBarge makes scripts of this Server leave a free key free for barging in each second of the server's
// clock. Waiting processes do not get the key in that time. Call it before the first call to the server.
func (q *Queues) LetBarge(barging time.Duration) { q.calls.queue.barging = barging }

// Barging returns for how long in each second a free key stays free. 0 means that it never does.
func (q *Queues) Barging() time.Duration { return q.calls.queue.barging }

// Choose sets the Mode in which calls use the queues. Call it before the first call to the server.
func (q *Queues) Choose(m Mode) { q.calls.queue.chosen = m }

// Used reports whether acquisitions wait in the queue of a key, and releases pass the key on to the first
// place.
func (q *Queues) Used() bool { return q.calls.queue.queued() }

// Refusal returns the refusal that has ended the use of the queues. nil means that the queues are used, or
// that the Mode never used them.
func (q *Queues) Refusal() error {
	if refusal := q.calls.queue.refusal.Load(); refusal != nil {
		return *refusal
	}
	return nil
}

// Channel returns the channel that carries the grants of a key to this process. On a cluster it is the
// channel of the key's slot. Otherwise it is the same for all keys.
func (q *Queues) Channel(key string) string { return q.calls.queue.grants(key) + q.calls.queue.process }

// Insists reports whether a call must return a refusal as its error. It must if the user lacks a right and
// the Mode is Queued.
func (q *Queues) Insists(refusal error) bool {
	return q.calls.queue.chosen == Queued && Forbidden(refusal)
}

// Refuse notes that the server refused the user a place in the queue of a key, but not the key without a
// place.
func (q *Queues) Refuse(refusal error) { q.calls.queue.went(refusal, false) }

// Place says how a Request asks for a place in the queue of its key.
type Place struct {
	Keep   bool  // a heartbeat: it keeps the place of the token, and never makes one
	Silent bool  // the server sends this process no message of a grant
	Since  int64 // score of an earlier token of the same wait; 0: none
}

// Standing is the server's answer to a Request for a Place.
type Standing struct {
	Answer       // if Acquired, Left is the rest of the lease
	Score  int64 // of the place in the queue; 0: none
	Ahead  int   // how many places are before it; at most 11 while the first is silent
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

// waitParams returns the parameters of a call about the key of a Claim, or about a share of it.
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

// releaseParams returns the parameters of a call that gives up what a token has of a key: the key, a share
// of it, or a place in its queue.
func (s calls) releaseParams(key, token string) gen.ReleaseParams {
	names := slot.NamesOf(key)
	return gen.ReleaseParams{
		Lock: key, Queue: names.Queue, Waiters: names.Waiters, Holders: names.Holders, Grants: s.queue.grants(key),
		Counter: slot.FenceCounter(key), Token: token, Barging: s.queue.barging,
	}
}

// Discard gives up the token of a wait for the key of a Claim. The reaper takes the token out of the queue,
// or passes the key on if the token has it.
func (q *Queues) Discard(c *Claim, token string) {
	late := !c.Settled() && c.rare.loose == token
	if late {
		c.rare.settle()
	}
	q.discard(c.key[0], token, late)
}

// DiscardStray is Discard for the token of a grant that this process does not expect. The token cannot get
// the key later: the server granted it before it sent the message.
func (q *Queues) DiscardStray(key, token string) { q.discard(key, token, false) }

// placeStays stands for the lease of a token that may have a place in a queue. The place does not end with
// the lease that it asks for.
const placeStays = clock.NoExpiry

func (q *Queues) discard(key, token string, late bool) {
	q.server.reap(releaseCall{keys: []string{key}, token: token, waits: true, late: late}, placeStays)
}
