package rlock

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clientoption"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/conntrack"
	"github.com/rlock-go/toolkit/rlock/internal/drain"
	"github.com/rlock-go/toolkit/rlock/internal/events"
	"github.com/rlock-go/toolkit/rlock/internal/gate"
	"github.com/rlock-go/toolkit/rlock/internal/interrupt"
	"github.com/rlock-go/toolkit/rlock/internal/leftover"
	"github.com/rlock-go/toolkit/rlock/internal/line"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/registry"
	"github.com/rlock-go/toolkit/rlock/internal/renew"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Locker takes and checks locks through one rueidis client or one Backend. Make a Locker with New, Open or
// NewWithBackend, and share it: it is safe for concurrent use. The methods of a nil or zero Locker do
// nothing. If they can fail, they return an error that matches ErrInvalid.
type Locker struct {
	client      rueidis.Client    // nil: the locks are in a Backend
	calls       *interrupt.Client // of client
	wire        *wire.Server
	server      any                    // equal for Lockers that certainly use the same server
	dialled     *conntrack.Tracker     // of a client that is the Locker's own
	lone        *interrupt.Lone        // of the same Locker
	timeOuts    *clientoption.TimeOuts // likewise; nil: nobody knows them
	toldShort   atomic.Bool            // an observer was told that a lease is too short for them
	toldPolling atomic.Bool            // an observer was told that the user lacks a right for the queue
	cluster     bool
	defaults    *settings
	listener    *notify.Listener // nil: nothing is pushed
	look        notify.Look      // of those who wait
	lines       *line.Lines
	registry    registry.Registry[*holder]
	leftover    leftover.Tokens
	waiters     registry.Registry[*waiter]
	renewals    *renew.Schedule[*scheduled]
	monitor     *notify.Monitor // nil: a loss is noticed by extensions
	grants      *notify.Grants

	counters counters

	underway   *drain.Drain // calls that acquire, and functions of Do and its kind
	closing    sync.Once
	closed     <-chan struct{} // closed by Close
	closedAt   clock.Instant   // when; set before closed is closed
	background context.Context // of calls that nobody waits for; ends with Close
	stop       context.CancelFunc
}

func (l *Locker) isClosed() bool { return isDone(l.closed) }

// isStopping reports whether the Locker acquires nothing any more: it was closed, or Shutdown was called.
func (l *Locker) isStopping() bool { return isDone(l.underway.Stopped()) }

// isDone reports whether something has ended, which closes c then.
func isDone(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// Lock is one acquisition of a key or of a set of keys. It is safe for concurrent use. An ended Lock stays
// ended: acquire the key again. A nil or zero Lock holds nothing. Its methods return zero values, a context
// that has ended, or an error that matches ErrInvalid.
type Lock struct {
	*lease                   // that it uses, its own at first; it is set before others have the Lock
	set      *settings       // what it was acquired with; nobody changes them
	parent   context.Context // what it was acquired with
	fence    uint64
	since    clock.Instant // when it began to be held; before that, when the acquisition began
	events   *observed     // nil: nobody is told of them
	releases gate.Gate
	*extras  // nil until something needs it; made under mu, and never changed after that

	attempts  int32
	listed    registry.Entry // guarded by the registry
	state     atomic.Uint32  // see state.go
	by        method
	waits     bool         // it is in the registry of those that wait; only for the acquisition
	hasToken  bool         // its caller has got the token; guarded by mu
	leaseGone bool         // it has ended, and others have the lease; guarded by mu
	position  int32        // among the readers who share the lease; guarded by mu
	until     atomic.Int64 // a clock.Instant: its own end, where others share the lease or it is limited
	own       lease
}

// extras are what few locks need: those that are asked for their Context, acquired WithMinHold, or detached,
// permits, and readers that are extended. They are apart so that other locks stay small.
type extras struct {
	ctx       *lockContext  // made by Context; guarded by mu
	minimum   *minimum      // of WithMinHold; nil: none; guarded by mu
	handoff   *wire.Handoff // of Detach: the only one, as it knows what Attaches have done; guarded by mu
	extendTTL time.Duration // the TTL of the last Extend beside others; 0: there was none; guarded by mu
	limitedTo clock.Instant // when the lock ends at the latest; 0: nothing limits it; guarded by mu
}

// lockContext is what Context has made. It is apart because few locks are asked for it.
type lockContext struct {
	context.Context
	end  context.CancelCauseFunc
	over *reason      // why it has ended, or is about to; nil: it has not; guarded by mu
	next *lockContext // that is to end too; guarded by mu
}

// endAll ends the context and the next ones, also if a method of a caller's context panics.
func (c *lockContext) endAll() {
	if c != nil {
		defer c.next.endAll()
		c.end(c.over)
	}
}

// method is how the methods that acquire differ.
type method struct {
	wait bool // for a held lock to become free
	do   bool // for Do: extended by default, and bound to the caller's context
	lead bool // for Lead
}

// minimum is the time for which a lock keeps others out; see WithMinHold.
type minimum struct {
	until clock.Instant // when it is over. A Release before that leaves the keys a lease that ends then
	token string        // of the keys after it, so that no late command changes that lease; "": before it
}

// observed is what a Lock keeps for its observer. A nil observed has no observer.
type observed struct {
	list  events.List[Event]
	since clock.Instant // when the call began, then when the lock was held

	listed bool      // it is among those of its lease that are to be told; guarded by the lease's mu
	next   *observed // that is to be told too; guarded by the lease's mu
}

// lease is what the server has given to this process. It alone is renewed, watched, lost and given back: the
// Locks that use it are handles. Whoever gives a lease on gives its pointer on, and while it is on its way
// nobody uses it. It has one mutex, for itself and for the Locks that use it.
//
// A mutex of the registry, of a shard of the lines, or of the schedule may be locked under mu, and never mu
// under one of them.
type lease struct {
	mu         sync.Mutex
	locker     *Locker
	claim      wire.Claim   // its keys, and the commands for them that got no answer
	terms      terms.Terms  // guarded by mu from when a Lock holds it
	fence      uint64       // of who has it, or had it last; guarded by mu
	user       *Lock        // who has it alone; guarded by mu
	joint      *joint       // readers who have it together; nil: no others may have it; guarded by mu
	*watch                  // nil until somebody must learn when it is over; made under mu, once
	ended      *lockContext // the first of the contexts that are to end at unlock; guarded by mu
	line       line.Lease   // that the line has in which callers of this process wait for it
	state      leaseState   // guarded by mu
	tokenShown bool         // somebody has asked for the token, and may use it; guarded by mu
}

// joint are the readers who share a lease. The line also counts those who are about to.
type joint struct{ users []*Lock } // guarded by the lease's mu

// watch is what a lease needs that is renewed or watched.
type watch struct {
	renewal   renew.Entry
	monitor   notify.Entry
	observers *observed // the first of those that are to be told; guarded by mu
}

// leaseState is the state of a lease. Lock.hold begins it, and retire ends it.
//
//	asked ─▶ live ─▶ back, lost, expired, detached or closed
//
// A lease that is on its way from one Lock to the next is live.
type leaseState uint8

const (
	leaseAsked leaseState = iota // the server has not granted it yet
	leaseLive                    // it is renewed if somebody wants that, and its loss is noticed
	leaseBack                    // it is given back, or about to be
	leaseLost
	leaseExpired
	leaseDetached
	leaseClosed
)

// holder is a lock that is held, as the registry knows it.
type holder Lock

// Deadline is when the lock ends at the latest.
func (h *holder) Deadline() clock.Instant { return (*Lock)(h).deadline() }

// Entry is its place in the registry of the Locker.
func (h *holder) Entry() *registry.Entry { return &h.listed }

// waiter is a Lock that is being acquired by a call that waits, as the registry of these knows it. Once it is
// held, it has its entry in the registry of what is held.
type waiter Lock

// Deadline says that the wait ends by itself.
func (w *waiter) Deadline() clock.Instant { return clock.Never }

// Entry is its place in the registry.
func (w *waiter) Entry() *registry.Entry { return &w.listed }

// inLine is a lease as the lines of this process have it.
type inLine lease

// Part returns what the line knows of it.
func (s *inLine) Part() *line.Lease { return &s.line }

// Key is what the line is about.
func (s *inLine) Key() string { return s.claim.Key() }

// Deadline is when the lease is over.
func (s *inLine) Deadline() clock.Instant { return s.terms.Deadline() }

// handle is what tells the line what happens to the lease.
func (s *lease) handle() line.Handle { return line.Handle{Lease: (*inLine)(s)} }

// leaseOf returns the lease that a line has; nil: it has none.
func leaseOf(g line.Leased) *lease {
	s, _ := g.(*inLine)
	return (*lease)(s)
}

// scheduled is a lease as the schedule of renewals sees it.
type scheduled lease

// Entry returns its place on the schedule.
func (s *scheduled) Entry() *renew.Entry { return &s.renewal }

// monitored is a lease as the monitor sees it.
type monitored lease

// Entry returns what the monitor knows of the lock.
func (l *monitored) Entry() *notify.Entry { return &l.monitor }

// Monitor is the one that watches it.
func (l *monitored) Monitor() *notify.Monitor { return l.locker.monitor }

// Keys returns the lock's keys.
func (l *monitored) Keys() []string { return l.claim.Keys() }

// state is the state of a Lock for the caller who has it. Only become changes it.
//
//	acquiring ─▶ unanswered or waiting     unanswered ─▶ waiting
//	acquiring, unanswered, waiting ─▶ held or failed
//	held ─▶ released, lost, expired, limited, detached or closed
//
// It does not say whether the server has freed the keys of a lock that has ended. If a Release got no
// answer, the lock is released, and Release may be called again.
type state uint32

const (
	stateAcquiring  state = iota
	stateUnanswered       // the server does not answer the acquisition, or cannot serve yet
	stateWaiting          // the acquisition has found the key held
	stateHeld
	stateFailed   // the acquisition failed; nobody has the Lock
	stateReleased // from here on the lock has ended
	stateLost
	stateExpired
	stateLimited // it was held for as long as it may be; otherwise like stateExpired
	stateDetached
	stateClosed
)

// stateNow is what the lock is now.
func (l *Lock) stateNow() state { return state(l.state.Load()) }

// deadline is when the lock ends: with its lease, or before.
func (l *Lock) deadline() clock.Instant {
	return min(l.terms.Deadline(), clock.Instant(l.until.Load()))
}

// extends reports whether the lock is extended automatically.
func (l *Lock) extends() bool { return l.set.extends(l.by.do) }

// ttl is what an automatic extension of a lease that others share asks for on behalf of this lock. The caller
// holds mu.
func (l *Lock) ttl() time.Duration {
	if l.extras != nil && l.extendTTL > 0 {
		return l.extendTTL
	}
	return l.set.ttl
}

// needExtras makes the extras, unless the lock has them. The caller holds mu.
func (l *Lock) needExtras() {
	if l.extras == nil {
		l.extras = &extras{}
	}
}

// mint returns a new token for the lock.
func (l *Lock) mint() string { return l.claim.NewToken(l.set.owner) }
