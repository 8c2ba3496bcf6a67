// Package place keeps the place of this process in the queue that the server keeps for a key. It sends the
// calls that a queue.Wait asks for, and it hears of the grant.
//
// The package does not know who wants the key, or what a lock means to its holder. It does not know how
// many callers of this process wait either: they share one Place.
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

// Place is one wait of this process in the queue that the server keeps for a key. Only one goroutine at a
// time may use a Place.
type Place struct {
	server *wire.Server
	grants *notify.Channel
	claim  *wire.Claim
	want   Want

	wait     queue.Wait
	next     queue.Event // what has happened since the last answer
	expected *notify.Expected
	fresh    string        // a token that no call has used; empty: none is made yet
	ahead    int           // how many living places may be before this one, by the last answer
	beat     clock.Instant // when to send a heartbeat
}

// Want says what a Place asks for.
type Want struct {
	TTL     time.Duration
	Fenced  bool
	Extends bool   // the caller extends the lease at once anyway
	Owner   string // what the token says about its owner

	Silent bool   // this process hears of no grants
	Since  int64  // score of an earlier place of this process in the queue; 0: none
	Token  string // for the first call; no earlier call about this key had it; empty: the Place makes one
}

// New returns a Place for the key of a Claim. The Place sends nothing before Ask.
func New(s *wire.Server, g *notify.Grants, c *wire.Claim, w Want) *Place {
	return &Place{
		server: s, grants: g.Channel(c.Key()), claim: c, want: w, fresh: w.Token,
		wait: queue.Wait{Silent: w.Silent, Since: w.Since}, next: queue.Event{What: queue.Wanted},
	}
}

// Key returns the key for which the place waits.
func (p *Place) Key() string { return p.claim.Key() }

// Token returns the token of the place. The grant gives the key to this token.
func (p *Place) Token() string { return p.wait.Token }

// Score returns the score of the place, or the score with which the place joins. 0 means none.
func (p *Place) Score() int64 { return cmp.Or(p.wait.Score, p.wait.Since) }

// Granted returns the end of the lease and the fence that the server has given to the place. The lease may
// be over. A share has a fence even if its Want is not Fenced.
func (p *Place) Granted() (deadline clock.Instant, fence uint64) {
	if p.want.Fenced || p.claim.IsShare() {
		fence = uint64(p.wait.Fence)
	}
	return p.wait.Deadline, fence
}

func (p *Place) settings() queue.Settings {
	s := queue.Settings{TTL: p.want.TTL, Fenced: p.want.Fenced, Least: 2 * p.server.RoundTrip()}
	if p.want.TTL != clock.NoExpiry {
		s.Least = max(s.Least, p.want.TTL-p.want.mayMiss())
	}
	return s
}

// mayMiss is how much of the lease may be over when a push brings the grant. If more is over, a command
// renews the lease before the place holds the lock.
func (w Want) mayMiss() time.Duration {
	if w.Extends {
		return w.TTL / 2
	}
	return min(w.TTL/10, time.Second)
}

// step tells the wait what has happened. It returns the next call, if there is one, and whether the place
// holds the lock.
func (p *Place) step(e queue.Event) (ask *queue.Request, held bool) {
	if p.fresh == "" {
		p.fresh = p.claim.NewToken(p.want.Owner)
	}
	e.Now, e.Fresh = clock.Now(), p.fresh
	if e.What == queue.BeatDue {
		e.Hears = p.grants.Begin() // also after a refusal: the server may allow it now
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

// Ask tells the server what has happened, and sends the calls that follow from it. If Ask reports neither
// held nor an error, the place is in the queue, and blocked says who has the key. After an error the caller
// may call Ask again: the wait goes on where it was.
//
// If a lease is over when the answer comes, Ask renews the lease with one heartbeat. If the second answer
// is late too, a third would be late as well. Then Ask reports held with a deadline that has passed.
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
			if at.Score == 0 { // perhaps the server finds no listener of this process
				p.grants.Recheck()
			}
		}
		e = queue.Event{What: queue.Answered, Request: *ask, Sent: at.Sent, Answer: answer(at)}
	}
}

// asking returns the event that makes the wait ask the server. A place in the queue sends a heartbeat. A
// place whose join has no answer sends the join again.
func (p *Place) asking() queue.Event {
	if p.wait.Phase == queue.Joining {
		return queue.Event{What: queue.Overdue}
	}
	return queue.Event{What: queue.BeatDue}
}

// request returns what the server is asked: the Want with a token.
func (w Want) request(token string) wire.Request {
	return wire.Request{Token: token, TTL: w.TTL, Fenced: w.Fenced}
}

// answer converts a Standing to the form that a Wait knows.
func answer(s wire.Standing) queue.Answer {
	a := queue.Answer{Granted: s.Acquired, Fence: int64(s.Fence), Remaining: s.Left, Score: s.Score}
	if s.Left == clock.NoExpiry {
		a.Remaining = -1
	}
	return a
}

// errNotHeld is the error of PassOn for a token that does not hold the key.
var errNotHeld = errors.New("the key has another token")

// PassOn runs one script. The script releases the key of c, which token holds, to the process that waits
// first. Then the script puts this place at the end of the queue.
//
// freed reports that the script has released the key. held reports that no other process waited, so the
// place has the key. If PassOn reports neither held nor an error, the place is in the queue. After an error
// there is no place.
func (p *Place) PassOn(ctx context.Context, c *wire.Claim, token string) (freed, held bool, err error) {
	p.wait = queue.Wait{Phase: queue.Held, Token: token, Silent: p.want.Silent, Deadline: clock.Never}
	ask, _ := p.step(queue.Event{What: queue.Released})
	defer func() {
		if !freed { // also if user code panics: the server perhaps has the new token
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

// Confirm tells the server that a call outside the place has found the key with the token of the place. If
// the server agrees, Confirm ends the place. Otherwise the place goes on.
func (p *Place) Confirm(ctx context.Context) (confirmed bool, err error) {
	keep := wire.Place{Keep: true, Silent: p.wait.Silent}
	at, err := p.server.Queues().Ask(ctx, p.claim, p.want.request(p.wait.Token), keep)
	if err == nil && at.Acquired {
		p.expected.Taken()
		return true, nil
	}
	return false, err
}

// Interrupted notes that user code has ended an Ask. A call of that Ask may still be under way.
func (p *Place) Interrupted() {
	if p.wait.Token == "" { // the Ask made no call
		return
	}
	p.claim.UnsettlePlace(p.claim.Key(), p.wait.Token)
}

// Leave gives the place up. The reaper frees in the background what the server may have of it.
func (p *Place) Leave() { p.step(queue.Event{What: queue.Left}) }

// Abandon gives up a place that has got the key, or may have got it.
func (p *Place) Abandon() {
	p.expected.Abandon()
	p.server.Queues().Discard(p.claim, p.wait.Token)
}

// The Claim c continues with the token of the place. GoesOn tells c what the calls of the place may have done
// at the server.
func (p *Place) GoesOn(c *wire.Claim) { c.GoOn(p.claim) }

// HandedOver ends a place whose key now has another token.
func (p *Place) HandedOver() {
	p.expected.Abandon()
	if !p.claim.Settled() {
		p.server.Queues().Discard(p.claim, p.wait.Token)
	}
}

// Taken ends a place whose grant has a holder now.
func (p *Place) Taken() { p.expected.Taken() }

// answered notes how many processes wait before the place.
func (p *Place) answered(ahead int) {
	p.ahead = ahead
	p.beat = clock.Now().After(p.interval())
}

// A heartbeat does three things. It keeps the place, since the server forgets a queue after 30 seconds. It
// finds a grant whose message was lost. It passes on a lock whose holder has died.
//
// The first five places send heartbeats often. The places behind send them more slowly, so that a thousand
// processes send fewer than a hundred a second.
//
// A silent place gets no message of its grant. It reads the token of its key through the cache after each
// change. A client without a cache, and a waiter for a share, find the grant only by a heartbeat. So a
// silent place sends heartbeats often, wherever it stands: see interval.
const (
	heartbeat        = time.Second
	longestHeartbeat = 15 * time.Second
)

// spread is the pause between the heartbeats of two neighbours once the lease of the holder is over. The
// first two places send theirs at once and pass the lock on. If both are dead, the first living place
// behind them does it. So each dead place delays the places behind it by spread. spread also bounds what a
// thousand processes send.
//
// While the server waits for the heartbeat of the first place, it tells each place that at most 11 places are
// before it. So a place adds at most ten times spread, half a second. Without this limit, 200 processes that
// die together would delay the others by ten seconds.
const spread = 50 * time.Millisecond

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

// follows reports whether the process must notice at once that the key is free without a grant. That
// happens if the holder dies or a client deletes the key. The first two places must notice: no message
// tells the second place that it is the first now.
func (p *Place) follows() bool { return p.ahead <= 1 }

// The first two places send their heartbeats first. stagger returns how much later this place sends its
// heartbeat. left is the time
// until the lease, or the barging, ends.
//
// At the end of barging there is no pause. Only a process that asked the server during the barging knows of
// the barging, so few processes send a heartbeat then. The process that freed the key is one of these, at the
// end of the queue. The places before it do not know of the barging and send nothing, so this process must
// not wait for them.
//
// If one script could not remove all dead places before this one, the server answers that one millisecond is
// left. Then there is no pause either.
func (p *Place) stagger(left time.Duration) time.Duration {
	if left <= max(p.server.Queues().Barging(), time.Millisecond) {
		return 0
	}
	return time.Duration(max(p.ahead-1, 0)) * spread
}

// Await waits until Ask has something to do: the server has granted the lock, the key may be free, a
// heartbeat is due, or end has come. left is the known rest of the lease of the holder. crowded reports
// that the server granted the lock while other processes wait for it.
func (p *Place) Await(
	ctx context.Context, w *notify.Wait, left time.Duration, end clock.Instant,
) (crowded bool, err error) {
	end = min(end, p.beat)
	if left > 0 && p.follows() { // perhaps no message comes then: the key is shared, or barging keeps it free
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
		w.Token = "" // w goes on without the place, and the key may keep the token until the reaper frees it
	} else {
		w.Leave() // leaves its last key; otherwise the waiter behind w hears of no change of that key
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

// Rest waits before the next call to a server that has not answered. It ends after pause, at end, or when
// the server has granted the lock. crowded means the same as in Await.
func (p *Place) Rest(
	ctx context.Context, w *notify.Wait, pause time.Duration, end clock.Instant,
) (crowded bool, err error) {
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

// Beating reports whether Ask would send only a heartbeat.
func (p *Place) Beating() bool { return p.next.What == queue.BeatDue }
