package wire

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// Request says how to take the keys of a Claim.
type Request struct {
	Token  string
	TTL    time.Duration
	Fenced bool

	// Keep has the keys of a set, sorted. The token takes the free keys, slot by slot, up to the first held
	// key, and keeps them. If Keep is nil, the token takes all keys or none.
	Keep []string

	// Patience is for how long each of several slots may be silent. With 0 only the client and the context
	// end the wait.
	Patience time.Duration
}

// Answer is the server's answer to a Request.
type Answer struct {
	Sent     clock.Instant // when the command that started the lease was sent, or earlier
	Acquired bool          // the keys have the token
	Fence    uint64
	Held     string        // a key that has another token
	Left     time.Duration // of the lease of that token; 0: not known
	Kept     int           // how many keys of Request.Keep have the token, in their order
}

// Acquire makes one attempt to take the keys. It repeats a command that got no answer, and notes the
// command in the Claim. That is safe because the script knows the token.
//
// If the keys are in several slots, Acquire takes one slot after the other. If it does not get all slots,
// it frees the keys that it has taken, unless r.Keep is set. After that the Claim needs a new token: a late
// release of this attempt must not free what the next attempt takes.
func (s *Server) Acquire(ctx context.Context, c *Claim, r Request) (Answer, error) {
	switch {
	case c.SpansSlots():
		return s.acquireParts(ctx, c, r)
	case r.Keep != nil:
		return s.acquire(ctx, c, r.Keep, r)
	}
	return s.acquire(ctx, c, c.Keys(), r)
}

// acquire takes keys of one slot.
func (s *Server) acquire(ctx context.Context, c *Claim, keys []string, r Request) (a Answer, failure error) {
	var counters []string
	if r.Fenced {
		counters = slot.FenceCounters(keys)
	}
	_ = RetryTimes(ctx, Attempts, func(ctx context.Context) (err error) {
		s.acquisitions.Add(1)
		sent := clock.Now()
		switch {
		case c.IsShare():
			var reply gen.WaitResult
			reply, err = s.calls.scripts.Wait(ctx, s.calls.client, s.calls.waitParams(c, &r, gen.WaitHowTry))
			a = waitAnswer(c, reply)
		case c.IsSet():
			a, err = s.calls.acquireSet(ctx, keys, counters, &r)
		default:
			a, err = s.calls.acquireOne(ctx, c, &r)
		}
		if a.Sent == 0 { // a call that goes with others sets its own, later time
			a.Sent = sent
		}
		if err == nil && !a.Acquired {
			s.roundTrip.note(a.Sent)
		}
		failure = Redact(err, r.Token)
		if OutcomeOf(failure) == Indeterminate && !unsent(failure) {
			c.Unsettle(r.Token)
		}
		if s.closed.Load() {
			if errors.Is(failure, rueidis.ErrClosing) {
				return nil // another caller has found the client closed for good, so a repetition is useless
			}
			s.closed.Store(false)
		}
		return failure
	})
	return a, failure
}

// acquireOne takes a key, but does not overtake the waiters in its queue.
func (s calls) acquireOne(ctx context.Context, c *Claim, r *Request) (Answer, error) {
	without := func() (Answer, error) {
		reply, err := s.locks.Acquire(ctx, s.client, r.params(c, c.key[0]))
		a, _ := tryAnswer(c.key[0], reply.Outcome, reply.Value)
		return a, err
	}
	if !s.queue.queued() {
		return without()
	}
	return withQueue(s.queue, false, func() (Answer, error) { return s.try(ctx, c, r) }, without)
}

// acquireParts takes all parts, or frees the parts that it has taken.
func (s *Server) acquireParts(ctx context.Context, c *Claim, r Request) (Answer, error) {
	whole := Answer{Sent: clock.Now(), Acquired: true}
	parts := c.BySlot()
	fences := make([]uint64, len(parts))
	for i, keys := range parts {
		if r.Keep != nil {
			keys = slices.Sorted(slices.Values(keys))
		}
		patient, cancel := clock.Within(ctx, r.Patience)
		a, err := s.acquire(patient, c, keys, r)
		cancel()
		if err != nil || !a.Acquired {
			if r.Keep == nil {
				s.RollBack(ctx, c, parts[:i], r)
			}
			a.Kept += whole.Kept
			return a, err
		}
		fences[i] = a.Fence
		whole.Fence = max(whole.Fence, a.Fence)
		if r.Keep != nil {
			whole.Kept += len(keys)
		}
	}
	// for the RollBack too: if it has no time left, the reaper frees the keys
	ctx, cancel := clock.Within(ctx, r.Patience)
	defer cancel()
	lost, err := s.calls.raiseFence(ctx, parts, fences, whole.Fence, r.Token)
	if err != nil || lost != "" {
		if r.Keep == nil {
			s.RollBack(ctx, c, parts, r)
		}
		return Answer{Held: lost, Kept: whole.Kept}, err // the token has the other keys, so Kept counts all
	}
	return whole, nil
}

// raiseFence raises the counters of all parts to the fence of the set, the largest fence of the parts. It
// returns a key that was lost meanwhile.
func (s calls) raiseFence(
	ctx context.Context, parts [][]string, fences []uint64, fence uint64, token string,
) (lost string, err error) {
	var params []gen.RaiseFenceParams
	for i, keys := range parts {
		if fences[i] < fence {
			params = append(params, gen.RaiseFenceParams{
				Keys: slices.Concat(keys, slot.FenceCounter(keys[0])), Locks: int64(len(keys)),
				Token: token, Fence: int64(fence),
			})
		}
	}
	err = RetryTimes(ctx, Attempts, func(ctx context.Context) error {
		replies := s.locks.RaiseFenceBatch(ctx, s.client, params)
		for i, reply := range replies {
			if reply.Value != 0 {
				lost = slot.KeyAt(params[i].Keys[:params[i].Locks], reply.Value)
			}
			// before Combine, since Redact would lose the outcome of a combined error
			replies[i].Err = Redact(reply.Err, token)
		}
		return Combine(replies)
	})
	return lost, err
}

// RollBack frees, all at once, the parts that a Request may have taken. The reaper frees what the server
// does not confirm, and what commands without an answer may still take. After that the Claim needs a new
// token.
func (s *Server) RollBack(ctx context.Context, c *Claim, parts [][]string, r Request) {
	params := make([]releaseCall, len(parts))
	for i, keys := range parts {
		params[i] = releaseCall{keys: keys, token: r.Token}
	}
	failed := false
	for _, reply := range s.calls.releaseAll(ctx, params) {
		failed = failed || reply.Err != nil
	}
	if failed || !c.Settled() {
		s.Abandon(c, []string{r.Token}, r.TTL)
		c.needRare().settle()
	}
}

// Try is one of many attempts. Each attempt is for one key.
type Try struct {
	Claim *Claim
	Request
	Answer Answer
	Err    error
}

// AcquireEach is Acquire for many Claims of one key. It sets the Answer or the Err of each Try.
func (s *Server) AcquireEach(ctx context.Context, tries []*Try) {
	var together [][]int
	for _, positions := range placesOf(s.calls, tries, func(t *Try) uint16 { return slot.Of(t.Claim.Key()) }) {
		together = slices.AppendSeq(together, slices.Chunk(positions, maxCalls))
	}
	for _, t := range tries {
		t.Err = errSenderEnded // until its call returns
	}
	defer func() {
		for _, t := range tries {
			if t.Err == errSenderEnded { // user code has ended the goroutine of the Try
				t.Claim.Unsettle(t.Token)
			}
		}
	}()
	atEach(together, func(positions []int) {
		alone := at(tries, positions)
		if len(alone) > 1 && s.calls.queue.queued() {
			alone = s.acquireTogether(ctx, alone)
		}
		each := make([][]int, len(alone))
		for i := range alone {
			each[i] = []int{i}
		}
		atEach(each, func(positions []int) {
			t := alone[positions[0]]
			t.Answer, t.Err = s.Acquire(ctx, t.Claim, t.Request)
		})
	})
}

// acquireTogether makes attempts with one script. It returns the attempts that the caller must make one by
// one: the script has not made them, or has no answer.
func (s *Server) acquireTogether(ctx context.Context, tries []*Try) (alone []*Try) {
	batch := make([]*member[tryCall, Answer], len(tries))
	of := make(map[*member[tryCall, Answer]]*Try, len(tries))
	for i, t := range tries {
		batch[i] = &member[tryCall, Answer]{params: tryCall{t.Claim.Key(), t.Token, t.TTL, t.Fenced}}
		of[batch[i]] = t
	}
	err := s.calls.tryMany(ctx, batch) // tryMany changes the order of batch
	for _, m := range batch {
		t := of[m]
		if OutcomeOf(err) == Indeterminate {
			t.Claim.Unsettle(t.Token)
		}
		if err != nil || m.alone {
			alone = append(alone, t)
			continue
		}
		s.acquisitions.Add(1)
		if t.Answer, t.Err = m.result, nil; !t.Answer.Acquired {
			s.roundTrip.note(t.Answer.Sent)
		}
	}
	return alone
}
