// Package place keeps the place of this process in the queue that the server keeps for a key:
// it sends the calls that a queue.Wait asks for, and hears of the grant.
//
// It does not know who wants the key, what a lock is to its holder, or how many callers of this
// process wait: they share one Place.
package place

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/queue"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Place is one wait of this process for a key in the queue that the server keeps. One goroutine at
// a time may use it.
type Place struct {
	server *wire.Server
	grants *notify.Channel
	claim  *wire.Claim
	want   Want

	wait     queue.Wait
	next     queue.Event // what has happened since the last answer
	expected *notify.Expected
	fresh    string        // a token that nobody has used; empty: none is made yet
	ahead    int           // how many wait before this process and may live, by the last answer
	beat     clock.Instant // when to send a heartbeat
}

// Want says what a Place asks for.
type Want struct {
	TTL     time.Duration
	Fenced  bool
	Extends bool   // the lease is extended at once anyway
	Owner   string // what the token is to say about its owner

	Silent bool   // this process does not hear of grants
	Since  int64  // score of an earlier place of this process in the queue; 0: none
	Token  string // of the first call, which no call about this key had before; empty: a new one
}

// New returns a Place for the key of a Claim. Nothing is sent before Ask.
func New(s *wire.Server, g *notify.Grants, c *wire.Claim, w Want) *Place {
	return &Place{
		server: s, grants: g.Channel(c.Key()), claim: c, want: w, fresh: w.Token,
		wait: queue.Wait{Silent: w.Silent, Since: w.Since}, next: queue.Event{What: queue.Wanted},
	}
}

// Key returns the key for which the place waits.
func (p *Place) Key() string { return p.claim.Key() }

// Token returns the token of the place, which has the key once the place is granted.
func (p *Place) Token() string { return p.wait.Token }

// Score returns the score of the place, or the one with which it joins; 0: none.
func (p *Place) Score() int64 { return cmp.Or(p.wait.Score, p.wait.Since) }

// Granted returns the lease and the fence that the place has got. The lease may be over. The server
// may give a fence to one that wants none.
func (p *Place) Granted() (deadline clock.Instant, fence uint64) {
	if p.want.Fenced || p.claim.IsShare() {
		fence = uint64(p.wait.Fence)
	}
	return p.wait.Deadline, fence
}

// settings returns those of the steps of the wait.
func (p *Place) settings() queue.Settings {
	s := queue.Settings{TTL: p.want.TTL, Fenced: p.want.Fenced, Least: 2 * p.server.RoundTrip()}
	if p.want.TTL != clock.NoExpiry {
		s.Least = max(s.Least, p.want.TTL-p.want.mayMiss())
	}
	return s
}

// mayMiss is how much of the lease may be over when the lock is held after a push. If more is,
// one command renews the lease first.
func (w Want) mayMiss() time.Duration {
	if w.Extends {
		return w.TTL / 2
	}
	return min(w.TTL/10, time.Second)
}

// step has the wait go on with what has happened. It returns the call to make next, if there is
// one, and whether the lock is held.
func (p *Place) step(e queue.Event) (ask *queue.Request, held bool) {
	if p.fresh == "" {
		p.fresh = p.claim.NewToken(p.want.Owner)
	}
	e.Now, e.Fresh = clock.Now(), p.fresh
	if e.What == queue.BeatDue {
		e.Hears = p.grants.Begin() // also after it was refused: the right may be there again
	}
	before := p.wait.Token
	var actions []queue.Action
	p.wait, actions = p.settings().Step(p.wait, e)
	for i := range actions {
		switch r := &actions[i].Request; actions[i].Do {
		case queue.Ask:
			ask = r
		case queue.Abandon:
			if p.expected != nil && r.Token == before {
				p.expected.Abandon()
			}
			p.server.Queues().Discard(p.claim, r.Token)
		case queue.Hold:
			held = true
		}
	}
	if token := p.wait.Token; token != before && token != "" {
		if p.expected != nil {
			p.expected.Abandon()
		}
		p.expected, p.fresh = p.grants.Expect(p.claim.Key(), token), ""
	}
	return ask, held
}

// Ask tells the server what has happened, and sends what has to be sent. If it reports neither
// held nor an error, the place is in the queue, and blocked says who has the key. After an error
// Ask may be called again: the wait goes on where it was.
//
// If a lease is over when the answer comes, a heartbeat renews it, once. If that answer is late as
// well, the next one would be too: Ask reports held, and the deadline has passed.
func (p *Place) Ask(ctx context.Context) (held bool, blocked wire.Answer, err error) {
	late := 0
	for e := p.next; ; {
		ask, held := p.step(e)
		if held || ask == nil {
			return held, blocked, nil
		}
		if e.What == queue.Answered && e.Answer.Granted {
			if late++; late == 2 {
				p.wait.Fence, p.wait.Deadline = e.Answer.Fence, clock.LeaseEnd(e.Sent, e.Answer.Remaining)
				return true, blocked, nil
			}
		}
		at, err := p.server.Queues().Ask(ctx, p.claim, p.want.request(ask.Token), wire.Place{
			Keep: ask.Call == queue.Heartbeat, Silent: ask.Silent, Since: ask.Since,
		})
		if err != nil {
			p.next = p.asking()
			return false, wire.Answer{}, err
		}
		if !at.Acquired {
			p.answered(at.Ahead)
			blocked = at.Answer
			if at.Score == 0 { // perhaps it counted nobody who listens
				p.grants.Recheck()
			}
		}
		e = queue.Event{What: queue.Answered, Request: *ask, Sent: at.Sent, Answer: answer(at)}
	}
}

// asking is the event that has the wait ask the server: with a heartbeat if it has a place, and
// otherwise with its join, which has got no answer yet.
func (p *Place) asking() queue.Event {
	if p.wait.Phase == queue.Joining {
		return queue.Event{What: queue.Overdue}
	}
	return queue.Event{What: queue.BeatDue}
}

// request is the Want with a token, as the server is asked.
func (w Want) request(token string) wire.Request {
	return wire.Request{Token: token, TTL: w.TTL, Fenced: w.Fenced}
}

// answer is a Standing as a Wait knows it.
func answer(s wire.Standing) queue.Answer {
	a := queue.Answer{Granted: s.Acquired, Fence: int64(s.Fence), Remaining: s.Left, Score: s.Score}
	if s.Left == clock.NoExpiry {
		a.Remaining = -1
	}
	return a
}

// errNotHeld is the error of a PassOn of a token that does not hold the key.
var errNotHeld = errors.New("the key has another token")

// PassOn releases the key of the Claim, which has token, to the process that waits first, and joins
// behind all others, in one script. freed reports whether the key has been released. held reports
// that nobody else waited, so that the place has the key. If it reports neither held nor an error,
// the place is in the queue. After an error there is no place.
func (p *Place) PassOn(ctx context.Context, c *wire.Claim, token string) (freed, held bool, err error) {
	p.wait = queue.Wait{Phase: queue.Held, Token: token, Silent: p.want.Silent, Deadline: clock.Never}
	ask, _ := p.step(queue.Event{What: queue.Released})
	defer func() {
		if !freed { // also when user code has panicked: the new token is nowhere, or may be anywhere
			p.claim.UnsettlePlace(p.claim.Key(), ask.Again)
			p.Abandon()
			p.wait = queue.Wait{}
		}
	}()
	passed, err := p.server.Queues().Pass(ctx, c, token, p.want.request(ask.Again), ask.Silent)
	if err == nil && !passed.Freed {
		err = errNotHeld
	}
	if err != nil {
		return false, false, err
	}
	_, held = p.step(queue.Event{What: queue.Answered, Request: *ask, Sent: passed.Sent,
		Answer: answer(passed.Standing)})
	p.answered(1)
	p.next = p.asking()
	return true, held, nil
}

// Confirm tells the server that the token has the key by another way than its place, and ends the
// place if the server says so too. Otherwise the place goes on.
func (p *Place) Confirm(ctx context.Context) (confirmed bool, err error) {
	keep := wire.Place{Keep: true, Silent: p.wait.Silent}
	at, err := p.server.Queues().Ask(ctx, p.claim, p.want.request(p.wait.Token), keep)
	if err == nil && at.Acquired {
		p.expected.Taken()
		return true, nil
	}
	return false, err
}

// Interrupted notes that user code has ended an Ask, so that a call of it may be under way.
func (p *Place) Interrupted() {
	if p.wait.Token == "" { // it was not about a call
		return
	}
	p.claim.UnsettlePlace(p.claim.Key(), p.wait.Token)
}

// Leave gives the place up. What the server has of it is taken back in the background.
func (p *Place) Leave() { p.step(queue.Event{What: queue.Left}) }

// Abandon gives up a place that has got the key, or may have got it.
func (p *Place) Abandon() {
	p.expected.Abandon()
	p.server.Queues().Discard(p.claim, p.wait.Token)
}

// GoesOn notes for a Claim that goes on with the token of the place what its calls may have done.
func (p *Place) GoesOn(c *wire.Claim) { c.GoOn(p.claim) }

// HandedOver ends a place whose key has another token now.
func (p *Place) HandedOver() {
	p.expected.Abandon()
	if !p.claim.Settled() {
		p.server.Queues().Discard(p.claim, p.wait.Token)
	}
}

// Taken ends a place whose key somebody holds now.
func (p *Place) Taken() { p.expected.Taken() }

// answered takes how many wait before the place.
func (p *Place) answered(ahead int) {
	p.ahead = ahead
	p.beat = clock.Now().After(p.interval())
}

// Heartbeats keep a place, find a grant whose message was lost, and pass a lock on whose holder
// has died. The first five in the queue send them often. Those behind send them more slowly, so
// that a thousand processes together send fewer than a hundred a second, but still often enough
// to keep the queue, which the server forgets after 30 seconds. A silent place finds its grant by the token
// of its key, which it reads through the cache after each change. A client without a cache, and one that
// waits for a share, finds it by nothing but a heartbeat, so a silent place sends them often wherever it
// stands; see interval.
const (
	heartbeat        = time.Second
	longestHeartbeat = 15 * time.Second
)

// spread is how long each place sends its heartbeat after the one before it when the lease of the
// holder is over. The first two pass the lock on at once. If they are dead too, the first that lives
// does, so each dead one costs the others that long. It bounds what a thousand processes send. While
// the server waits for the first to beat, it counts no more than 11 of those before a place: so 200
// who died together cost half a second and not ten.
const spread = 50 * time.Millisecond

// interval is how long to wait before the next heartbeat.
func (p *Place) interval() time.Duration {
	interval := heartbeat
	if p.wait.Silent {
		interval = notify.LongestPoll
	}
	if p.want.TTL != clock.NoExpiry {
		interval = min(interval, p.want.TTL/4)
	}
	if p.wait.Silent {
		return interval
	}
	interval = min(interval*time.Duration(max(4+p.ahead, 8))/8, longestHeartbeat)
	return interval - rand.N(interval/10+1)
}

// follows reports whether the place is so near the head of the queue that its process must notice
// at once if the key becomes free without a grant: because its holder has died, or somebody has
// deleted it. It is so for the first two, because nobody tells the second that it is the first now.
func (p *Place) follows() bool { return p.ahead <= 1 }

// stagger is how long after the first two this place sends its heartbeat when what it waits for has
// ended. There is none at the end of barging: only processes that have asked within that time know that
// the key is kept free, which are few, however many wait. The process that has freed the key is one of
// them, and the last in the queue, so it must not wait for the others, who know nothing. There is none
// either if the server could not take out all dead before the place in one script, and so has it come
// again after a millisecond.
func (p *Place) stagger(left time.Duration) time.Duration {
	if left <= max(p.server.Queues().Barging(), time.Millisecond) {
		return 0
	}
	return time.Duration(max(p.ahead-1, 0)) * spread
}

// Await waits until there is something to Ask about: the server has granted the lock, the key may be
// free, a heartbeat is due, or end has come. left is what is left of the lease of key's holder, as
// far as is known. crowded reports that the lock was granted while others wait for it.
func (p *Place) Await(ctx context.Context, w *notify.Wait, left time.Duration,
	end clock.Instant) (crowded bool, err error) {
	end = min(end, p.beat)
	if left > 0 && p.follows() { // the key may not change then: it is shared, or stays free until then
		end = min(end, clock.Now().After(clock.JustAfter(left)))
	}
	if (p.follows() || p.wait.Silent) && w.Listener != nil {
		w.Wake = p.expected.Wake()
		w.Foreign = wire.Foreign
		if p.wait.Silent {
			w.Token = p.wait.Token
		}
		err = w.Await(ctx, p.claim.Key(), end.Until(), left, end)
		w.Foreign = nil
		w.Token = "" // w goes on without the place, whose key may have the token until the reaper frees it
	} else {
		w.Leave() // of a key for which it has waited before: who waits for that key behind it would not be told
		pause := end.Until()
		if p.follows() || left > 0 && left < longestHeartbeat {
			pause = min(pause, clock.JustAfter(left+p.stagger(left)))
		}
		_, err = clock.Receive(ctx, p.expected.Wake(), pause, w.Stop)
	}
	if err != nil {
		return false, err
	}
	p.next = queue.Event{What: queue.BeatDue}
	return p.told(), nil
}

// Rest waits for pause, but no longer than until end, or until the server has granted the lock, before
// the server is asked again that has not answered. crowded is as Await has it.
func (p *Place) Rest(ctx context.Context, w *notify.Wait, pause time.Duration,
	end clock.Instant) (crowded bool, err error) {
	w.Wake = p.expected.Wake()
	if err := w.Sleep(ctx, pause, 0, end); err != nil {
		return false, err
	}
	return p.told(), nil
}

// told takes a grant that the server has pushed, if there is one.
func (p *Place) told() (crowded bool) {
	g, granted := p.expected.Take()
	if granted {
		p.next = queue.Event{What: queue.Told, Token: g.Token,
			Answer: queue.Answer{Granted: true, Fence: int64(g.Fence), Remaining: g.Lease}}
	}
	return granted && g.Waiting > 0
}

// Beating reports whether Ask would send a heartbeat, and has no news.
func (p *Place) Beating() bool { return p.next.What == queue.BeatDue }
