// Package queue decides what this process does in the queue that the server keeps for a key. Its one
// function, Settings.Step, takes a Wait and an event. It returns the next Wait and the calls to make. It
// sends nothing and reads no clock.
package queue

import (
	"cmp"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Wait is one wait of this process in the queue that the server keeps for a key. It lasts from the first
// call until the process has the key. All callers of this process that want the key share one Wait. After the
// grant a Wait handles only one event of the lock, Released: the process gives the lock up and joins the
// queue again in one call.
//
//	idle ─Wanted─▶ joining ─queued─▶ waiting ─gone─▶ joining, with a new token
//	               joining or waiting ─granted─▶ held
//	               joining or waiting ─Left─▶ idle
//	held ─Released─▶ passing, with a new token
//	               passing ─queued─▶ waiting     passing ─granted─▶ held     passing ─gone─▶ joining
//
// A token enters the queue once and is never used again, because a message about its former place may still
// be on its way.
type Wait struct {
	Phase Phase
	Token string
	// If true, the server does not send a message when it grants the lock to Token. This process hears no
	// messages, or did not hear earlier ones.
	Silent bool
	Former string // with Passing: the token that gives the lock up; "": none
	Since  int64  // the score with which Token joins; 0: at the end of the queue
	Score  int64  // the last one that the server said; 0: none
	Gone   int    // how often the server had lost a token of this wait; at most 2

	// The process counts a pushed lease from Anchor. It counts from FirstSend if it sent two calls that
	// insert Token. The second call may have inserted the token again after the grant, so its answer does not
	// prove that the grant came after this call.
	FirstSend clock.Instant // when the first call with Token was sent
	Anchor    clock.Instant // the sending time of the last call that the server answered with a place
	Anchored  bool
	Repeated  bool

	Fence    int64
	Deadline clock.Instant
}

// Phase says where a Wait is.
type Phase uint8

// The phases of a Wait. The zero Wait is idle.
const (
	Idle    Phase = iota
	Joining       // the join has no answer yet
	Waiting       // the token is in the queue, as far as this process knows
	Passing       // Former gives the lock up, and Token joins behind all others; the call has no answer yet
	Held
)

// Call says which script a Request runs.
type Call uint8

// The calls of a Wait.
const (
	Join      Call = iota // scripts/wait.lua
	Heartbeat             // scripts/wait.lua, which inserts nothing then
	// scripts/release.lua releases the key or leaves the queue. scripts/requeue.lua also joins again.
	Pass
)

// Request is a call of a script about a token.
type Request struct {
	Call   Call
	Token  string
	Again  string // with Pass: the token that joins
	Silent bool
	Since  int64
}

// about returns the token that the answer of the server is about. It is empty if the answer is about no
// token.
func (r Request) about() string {
	if r.Call == Pass {
		return r.Again
	}
	return r.Token
}

// Answer is the answer of a script. If it has neither Granted nor a Score, the server does not know the
// token.
type Answer struct {
	Granted   bool
	Fence     int64
	Remaining time.Duration // of the lease; negative: the lease does not end
	Score     int64         // of the place in the queue; 0: none
}

// Happening says what an Event tells.
type Happening uint8

// What may happen to a Wait.
const (
	Wanted   Happening = iota // a caller of this process wants the key, and the process listens for grants
	Answered                  // Answer has come to Request, which was sent at Sent
	// The server has pushed a grant: Token, Answer.Fence and Answer.Remaining are as granted.
	Told
	Overdue  // a join has got no answer
	BeatDue  // a heartbeat is due, or the process listens again after a break
	Left     // the last caller has gone
	Released // the holder gives the lock up, and another caller of this process wants it
)

// Event is something that happens to a Wait.
type Event struct {
	What    Happening
	Now     clock.Instant
	Request Request
	Sent    clock.Instant
	Answer  Answer
	Token   string
	Hears   bool   // with BeatDue: the process listens for grants
	Fresh   string // a token that no call has used, in case the step needs one
}

// Deed says what an Action is.
type Deed uint8

// What the owner of a Wait must do.
const (
	Ask     Deed = iota // send Request
	Abandon             // repeat Request (a Pass) until the server answers; longer if another call may be late
	Hold                // the process holds the lock, with Wait.Fence until Wait.Deadline
)

// Action is what the owner of a Wait does after a step. The owner does the actions in the order of the
// list.
type Action struct {
	Do      Deed
	Request Request
}

// Settings are the same for all steps of a Wait.
type Settings struct {
	TTL    time.Duration // of the lock; clock.NoExpiry: it does not end
	Fenced bool          // the lock has a fence
	Least  time.Duration // how much of a pushed lease must be left: two round trips, to extend it in time
}

// Step returns the next Wait, and what its owner must do.
func (s Settings) Step(w Wait, e Event) (Wait, []Action) {
	t := step{Settings: s, Wait: w, Event: e}
	switch e.What {
	case Wanted:
		if w.Phase == Idle {
			t.Wait = Wait{Silent: w.Silent, Since: w.Since}
			t.join()
		}
	case Answered:
		t.answered()
	case Told:
		t.told()
	case Overdue:
		if w.Phase == Joining {
			t.Repeated = true
			t.ask(t.joining())
		}
	case BeatDue:
		if w.Phase == Waiting {
			t.Silent = !e.Hears || w.Gone == 2
			t.beat()
		}
	case Left:
		t.leave()
	case Released:
		if w.Phase == Held {
			t.pass()
		}
	}
	return t.Wait, t.actions
}

type step struct {
	Settings
	Wait
	Event
	actions []Action
}

func (t *step) ask(r Request) { t.actions = append(t.actions, Action{Do: Ask, Request: r}) }

func (t *step) abandon(token string) {
	t.actions = append(t.actions, Action{Do: Abandon, Request: Request{Call: Pass, Token: token}})
}

func (t *step) beat() {
	t.Phase = Waiting
	t.ask(Request{Call: Heartbeat, Token: t.Wait.Token, Silent: t.Silent})
}

func (t *step) begin() {
	t.Wait.Token, t.FirstSend = t.Fresh, t.Now
	t.Anchored, t.Anchor, t.Repeated, t.Score = false, 0, false, 0
}

func (t *step) join() {
	t.begin()
	t.Phase = Joining
	t.ask(t.joining())
}

func (t *step) joining() Request {
	return Request{Call: Join, Token: t.Wait.Token, Silent: t.Silent, Since: t.Since}
}

func (t *step) answered() {
	token, a := t.Request.about(), t.Answer
	switch {
	case token == "":
	case token != t.Wait.Token || t.Phase == Idle:
		if a.Granted || a.Score != 0 {
			t.abandon(token)
		}
	case t.Phase == Held:
	case a.Granted:
		t.hold(clock.LeaseEnd(t.Sent, t.lasting(a.Remaining)), 1)
	case a.Score != 0 && (t.Score == 0 || a.Score <= t.Score):
		t.Phase, t.Score = Waiting, a.Score
		if !t.Anchored || t.Sent > t.Anchor {
			t.Anchored, t.Anchor = true, t.Sent
		}
	default:
		// The server does not know the token, or a late first call has inserted it anew at the end.
		t.gone()
	}
}

// gone is for a token that the server does not know any more. The wait joins again with a new token and the
// old score. If the server loses a second token, perhaps it knows of no listener in this process. Then the
// wait asks the server to send no message of the grant, and finds the grant by its own calls.
func (t *step) gone() {
	t.abandon(t.Wait.Token)
	if t.Phase == Passing {
		t.abandon(t.Former)
		t.Former = ""
	}
	t.Gone = min(t.Gone+1, 2)
	t.Silent, t.Since = t.Silent || t.Gone == 2, cmp.Or(t.Score, t.Since)
	t.join()
}

func (t *step) lasting(left time.Duration) time.Duration {
	if left < 0 {
		return clock.NoExpiry
	}
	return left
}

// hold takes the grant if enough of the lease is left. Otherwise a heartbeat asks whether the token still
// has the lock, and renews the lease.
func (t *step) hold(deadline clock.Instant, least time.Duration) {
	if deadline < t.Now.After(least) {
		t.beat()
		return
	}
	t.Phase, t.Deadline, t.Fence = Held, deadline, t.Answer.Fence
	t.Former, t.Since, t.Score, t.Gone = "", 0, 0, 0
	t.actions = append(t.actions, Action{Do: Hold})
}

func (t *step) told() {
	if t.Event.Token != t.Wait.Token || t.Phase == Idle {
		if t.Phase != Passing || t.Event.Token != t.Former {
			t.abandon(t.Event.Token)
		}
		return
	}
	if t.Phase == Held {
		return
	}
	if t.TTL == clock.NoExpiry || t.Fenced && t.Answer.Fence == 0 {
		t.beat() // a push grants ten seconds for NoExpiry; its fence is 0 if the release named no counter
		return
	}
	from := t.FirstSend
	if t.Anchored && !t.Repeated {
		from = t.Anchor
	}
	t.hold(clock.LeaseEnd(from, t.Answer.Remaining), t.Least)
}

func (t *step) leave() {
	if t.Phase == Joining || t.Phase == Waiting {
		t.abandon(t.Wait.Token)
		t.Wait = Wait{}
	}
}

// pass gives the lock up and joins behind all others, in one call.
func (t *step) pass() {
	t.Wait = Wait{Phase: Passing, Former: t.Wait.Token, Silent: t.Silent}
	t.begin()
	t.ask(Request{Call: Pass, Token: t.Former, Again: t.Wait.Token, Silent: t.Silent})
}
