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
	server      any                    // equal in Lockers that certainly use the same server
	dialled     *conntrack.Tracker     // of the client of Open; otherwise nil
	lone        *interrupt.Lone        // of the client of Open; otherwise nil
	timeOuts    *clientoption.TimeOuts // of the client of Open; nil: unknown
	toldShort   atomic.Bool            // EventShortLease has been told
	toldPolling atomic.Bool            // EventPolling has been told
	cluster     bool
	defaults    *settings
	listener    *notify.Listener // nil: the server pushes nothing
	look        notify.Look      // of waiters
	lines       *line.Lines
	registry    registry.Registry[*holder]
	leftover    leftover.Tokens
	waiters     registry.Registry[*waiter]
	renewals    *renew.Schedule[*scheduled]
	monitor     *notify.Monitor // nil: extensions notice a loss
	grants      *notify.Grants

	counters counters

	underway   *drain.Drain // calls that acquire, and functions of Do and its variants
	closing    sync.Once
	closed     <-chan struct{} // closed by Close
	closedAt   clock.Instant   // time of Close; set before closed is closed
	background context.Context // of calls in the background; ends with Close
	stop       context.CancelFunc
}

func (l *Locker) isClosed() bool { return isDone(l.closed) }

// isStopping reports whether the Locker was closed, or Shutdown has begun. Then it acquires nothing.
func (l *Locker) isStopping() bool { return isDone(l.underway.Stopped()) }

// isDone reports whether c is closed.
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
	*lease                   // the lease in use: at first &own; set before another goroutine has the Lock
	set      *settings       // of the acquisition; never changed
	parent   context.Context // of the acquisition
	fence    uint64
	since    clock.Instant // start of the hold; before the grant, start of the acquisition
	events   *observed     // nil: no observer
	releases gate.Gate
	*extras  // nil until needed; made under mu, then never changed

	attempts  int32
	listed    registry.Entry // guarded by the registry
	state     atomic.Uint32  // see state.go
	by        method
	waits     bool         // it is in the registry of waiters; only the acquisition uses waits
	hasToken  bool         // its caller has the token; guarded by mu
	leaseGone bool         // it has ended, and other Locks have the lease; guarded by mu
	position  int32        // among the readers of the lease; guarded by mu
	until     atomic.Int64 // a clock.Instant: its own end, if the lease is shared or the lock limited
	own       lease
}

// extras has the fields that few locks need: locks with a Context, WithMinHold or Detach, permits, and
// readers that are extended. They are separate, so other locks stay small.
type extras struct {
	ctx       *lockContext  // from Context; guarded by mu
	minimum   *minimum      // of WithMinHold; nil: none; guarded by mu
	handoff   *wire.Handoff // of Detach, which always returns this one: it records the Attaches; guarded by mu
	extendTTL time.Duration // the TTL of the last Extend of a shared lease; 0: none; guarded by mu
	limitedTo clock.Instant // the latest end of the lock; 0: no limit; guarded by mu
}

// lockContext is the context from Context. It is separate because few locks need it.
type lockContext struct {
	context.Context
	end  context.CancelCauseFunc
	over *reason      // why it has ended or will end; nil: it has not ended; guarded by mu
	next *lockContext // the next context to end; guarded by mu
}

// endAll ends the context and the next ones, even if a method of a caller's context panics.
func (c *lockContext) endAll() {
	if c != nil {
		defer c.next.endAll()
		c.end(c.over)
	}
}

// method has the differences between the methods that acquire.
type method struct {
	wait bool // until a held lock is free
	do   bool // for Do: extends by default, and ends with the caller's context
	lead bool // for Lead
}

// minimum is the time in which a lock keeps others out; see WithMinHold.
type minimum struct {
	until clock.Instant // its end; an earlier Release lets the keys keep a lease until this end
	token string        // of the keys after that Release; late commands have the old token; "": no Release yet
}

// observed has the data of a Lock for its observer. A nil observed has no observer.
type observed struct {
	list  events.List[Event]
	since clock.Instant // start of the call, then start of the hold

	listed bool      // it is in the list of observers to tell; guarded by the lease's mu
	next   *observed // the next observer to tell; guarded by the lease's mu
}

// lease is a lease that the server has granted to this process. The process renews, watches, loses and gives
// back leases. The Locks that use a lease are handles. A hand-over passes the pointer of the lease on, and
// meanwhile no Lock uses the lease. One mutex guards the lease and the Locks that use it.
//
// Code that holds mu may lock a mutex of the registry, of a shard of the lines, or of the schedule. Code that
// holds one of these never locks mu.
type lease struct {
	mu         sync.Mutex
	locker     *Locker
	claim      wire.Claim   // its keys, and the commands for them without an answer
	terms      terms.Terms  // guarded by mu after the grant
	fence      uint64       // of the present or last holder; guarded by mu
	user       *Lock        // the only user; guarded by mu
	joint      *joint       // readers that share it; nil: it cannot be shared; guarded by mu
	*watch                  // nil until the Locker must notice the end of the lease; made under mu, once
	ended      *lockContext // the first of the contexts that end at unlock; guarded by mu
	line       line.Lease   // its part in the line of this process
	state      leaseState   // guarded by mu
	tokenShown bool         // a caller has asked for the token and may use it; guarded by mu
}

// joint has the readers that share a lease. The line also counts readers that are about to join.
type joint struct{ users []*Lock } // guarded by the lease's mu

// watch has the fields of a lease that is renewed or watched.
type watch struct {
	renewal   renew.Entry
	monitor   notify.Entry
	observers *observed // the first observer to tell; guarded by mu
}

// leaseState is the state of a lease. Lock.hold begins it, and retire ends it.
//
//	asked ─▶ live ─▶ back, lost, expired, detached or closed
//
// A lease that is on its way from one Lock to the next is live.
type leaseState uint8

const (
	leaseAsked leaseState = iota // the server has not granted it yet
	leaseLive                    // it is renewed if a user wants that, and its loss is noticed
	leaseBack                    // the process gives it back, or has done so
	leaseLost
	leaseExpired
	leaseDetached
	leaseClosed
)

// holder is a held lock in the registry.
type holder Lock

// Deadline returns the latest end of the lock.
func (h *holder) Deadline() clock.Instant { return (*Lock)(h).deadline() }

// Entry returns its place in the registry of the Locker.
func (h *holder) Entry() *registry.Entry { return &h.listed }

// waiter is a Lock of a call that waits, in the registry of waiters. After the grant, its entry is in the
// registry of held locks.
type waiter Lock

// Deadline returns Never: a wait has no deadline of its own.
func (w *waiter) Deadline() clock.Instant { return clock.Never }

// Entry returns its place in the registry.
func (w *waiter) Entry() *registry.Entry { return &w.listed }

// inLine is a lease in the lines of this process.
type inLine lease

// Part returns the part of the lease that the line knows.
func (s *inLine) Part() *line.Lease { return &s.line }

// Key returns the key of the line.
func (s *inLine) Key() string { return s.claim.Key() }

// Deadline returns the end of the lease.
func (s *inLine) Deadline() clock.Instant { return s.terms.Deadline() }

// handle returns the handle through which the lease reports to the line.
func (s *lease) handle() line.Handle { return line.Handle{Lease: (*inLine)(s)} }

// leaseOf returns the lease of a line, or nil if there is none.
func leaseOf(g line.Leased) *lease {
	s, _ := g.(*inLine)
	return (*lease)(s)
}

// scheduled is a lease on the schedule of renewals.
type scheduled lease

// Entry returns its place on the schedule.
func (s *scheduled) Entry() *renew.Entry { return &s.renewal }

// monitored is a lease in the monitor.
type monitored lease

// Entry returns the part of the lease that the monitor knows.
func (l *monitored) Entry() *notify.Entry { return &l.monitor }

// Monitor returns the monitor that watches the lease.
func (l *monitored) Monitor() *notify.Monitor { return l.locker.monitor }

// Keys returns the lock's keys.
func (l *monitored) Keys() []string { return l.claim.Keys() }

// state is the state of a Lock for its caller. Only become changes it.
//
//	acquiring ─▶ unanswered or waiting     unanswered ─▶ waiting
//	acquiring, unanswered, waiting ─▶ held or failed
//	held ─▶ released, lost, expired, limited, detached or closed
//
// The state does not say whether the server has freed the keys of an ended lock. After a Release without an
// answer the state is released, and a caller may call Release again.
type state uint32

const (
	stateAcquiring  state = iota
	stateUnanswered       // the server does not answer the acquisition, or cannot serve yet
	stateWaiting          // the acquisition has found the key held
	stateHeld
	stateFailed   // the acquisition failed; no caller has the Lock
	stateReleased // from here on the lock has ended
	stateLost
	stateExpired
	stateLimited // the time of WithMaxHold is over; otherwise like stateExpired
	stateDetached
	stateClosed
)

// stateNow returns the present state of the lock.
func (l *Lock) stateNow() state { return state(l.state.Load()) }

// deadline returns the end of the lock: the end of its lease, or earlier.
func (l *Lock) deadline() clock.Instant {
	return min(l.terms.Deadline(), clock.Instant(l.until.Load()))
}

// extends reports whether the Locker extends the lock automatically.
func (l *Lock) extends() bool { return l.set.extends(l.by.do) }

// ttl returns the TTL of automatic extensions for this lock, if others share its lease. The caller holds mu.
func (l *Lock) ttl() time.Duration {
	if l.extras != nil && l.extendTTL > 0 {
		return l.extendTTL
	}
	return l.set.ttl
}

// needExtras makes the extras if the lock has none. The caller holds mu.
func (l *Lock) needExtras() {
	if l.extras == nil {
		l.extras = &extras{}
	}
}

// mint returns a new token for the lock.
func (l *Lock) mint() string { return l.claim.NewToken(l.set.owner) }
