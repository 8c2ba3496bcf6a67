package wire

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// tryCall asks for a key without a place in its queue.
type tryCall struct {
	key, token string
	ttl        time.Duration
	fenced     bool
}

type (
	tryCombiner     = combiner[tryCall, Answer]
	releaseCombiner = combiner[releaseCall, int64]
)

// What acquire.lua and acquire_many.lua answer for a lock.
const (
	outcomeTaken = 1
	outcomeHeld  = 2
)

// try takes a key. It goes together with other calls if calls for other keys are under way.
func (s calls) try(ctx context.Context, c *Claim, r *Request) (Answer, error) {
	p := s.combiners.enter(c.key[0])
	defer p.leave()
	if a, err, shared := p.tries.together(ctx, tryCall{c.key[0], r.Token, r.TTL, r.Fenced}); shared {
		return a, err
	}
	defer p.tries.answered()
	reply, err := s.scripts.Acquire(ctx, s.client, r.params(c, slot.Queue(c.key[0])))
	if a, done := tryAnswer(c.key[0], reply.Outcome, reply.Value); done || err != nil {
		return a, err
	}
	waited, err := s.scripts.Wait(ctx, s.client, s.waitParams(c, r, gen.WaitHowTry))
	return waitAnswer(c, waited), err
}

// params returns the parameters of a call that takes the key of a Claim if no process waits in its queue.
func (r *Request) params(c *Claim, queue string) gen.AcquireParams {
	p := gen.AcquireParams{Lock: c.key[0], Queue: queue, Token: r.Token, TTL: ttlParam(r.TTL)}
	if r.Fenced {
		p.Counter = slot.FenceCounter(c.key[0])
	}
	return p
}

// tryAnswer returns the answer of a script that tries to take a key. done is false if the script has done
// nothing.
func tryAnswer(key string, outcome, value int64) (a Answer, done bool) {
	a.Held = key
	switch outcome {
	case outcomeTaken:
		a.Acquired, a.Fence = true, uint64(value)
	case outcomeHeld:
		a.Left = remaining(milliseconds(value))
	default:
		return a, false
	}
	return a, true
}

// release gives up a key or a share of it. A release of a whole key goes together with other calls if calls
// for other keys are under way.
func (s calls) release(ctx context.Context, c releaseCall) (freed int64, err error) {
	if !isShare(c.token) {
		p := s.combiners.enter(c.keys[0])
		defer p.leave()
		if freed, err, shared := p.releases.together(ctx, c); shared {
			return freed, err
		}
		defer p.releases.answered()
	}
	return s.scripts.Release(ctx, s.client, s.releaseParams(c.keys[0], c.token))
}

type words struct{ keys, args []string }

var spareWords = sync.Pool{New: func() any { return new(words) }}

func (w *words) free() {
	clear(w.keys)
	clear(w.args)
	w.keys, w.args = w.keys[:0], w.args[:0]
	spareWords.Put(w)
}

func (s calls) tryMany(ctx context.Context, batch []*member[tryCall, Answer]) error {
	fenced := 0
	for i, m := range batch { // fenced calls come first
		if m.params.fenced {
			batch[i], batch[fenced] = batch[fenced], m
			fenced++
		}
	}
	w := spareWords.Get().(*words)
	defer w.free()
	var (
		last time.Duration // the last TTL; text is its text
		text string
	)
	for _, m := range batch {
		if ttl := ttlParam(m.params.ttl); ttl != last {
			last, text = ttl, ""
			if ttl != 0 {
				text = strconv.FormatInt(ttl.Milliseconds(), 10)
			}
		}
		w.keys, w.args = append(w.keys, m.params.key), append(w.args, m.params.token, text)
	}
	w.keys = slot.AppendNames(w.keys, w.keys, fenced)
	sent := clock.Now()
	replies, err := s.scripts.AcquireMany(ctx, s.client, gen.AcquireManyParams{Keys: w.keys, Words: w.args})
	if err = complete(err, len(batch), len(replies)); err != nil {
		for _, m := range batch {
			err = Redact(err, m.params.token)
		}
		return err
	}
	for i, m := range batch {
		a, done := tryAnswer(m.params.key, replies[i].Outcome, replies[i].Value)
		a.Sent = sent
		m.result, m.alone = a, !done
	}
	return nil
}

func (s calls) releaseMany(ctx context.Context, batch []*member[releaseCall, int64]) error {
	w := spareWords.Get().(*words)
	defer w.free()
	for _, m := range batch {
		w.keys, w.args = append(w.keys, m.params.keys[0]), append(w.args, m.params.token)
	}
	w.keys = slot.AppendNames(w.keys, w.keys, 0)
	replies, err := s.scripts.ReleaseMany(ctx, s.client, gen.ReleaseManyParams{
		Keys: w.keys, Locks: int64(len(batch)), Tokens: w.args,
	})
	if err = complete(err, len(batch), len(replies)); err != nil {
		return Redact(err, w.args...)
	}
	for i, m := range batch {
		m.result, m.alone = 1, replies[i] != 1
	}
	return nil
}

// complete refuses an answer that does not have a reply for each call.
func complete(err error, calls, replies int) error {
	if err == nil && replies != calls {
		return fmt.Errorf(
			"the server answers %d calls with %d replies: something between them changes answers",
			calls, replies,
		)
	}
	return err
}
