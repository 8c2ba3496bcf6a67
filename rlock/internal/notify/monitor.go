package notify

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/lease"
)

// Held is a lock that somebody holds. The Monitor may hold a mutex while it calls Keys or
// Entry. It holds none while it calls another method, so that one may take the lock's mutex.
type Held interface {
	// Entry returns what the Monitor knows of it, always the same.
	Entry() *Entry
	// Keys returns its keys, always the same.
	Keys() []string
	// Version returns the version of its lease; false once the lock has ended.
	Version() (lease.Version, bool)
	// Owners takes the server's answer who owns each key, "" for nobody. The Monitor has
	// asked after Version returned v. If a key is another's, the lock ends. Owners reports
	// whether the lock is still held, and whether to read again because v is too old to tell.
	Owners(owners []string, v lease.Version) (held, again bool)
	// Left takes the server's answer how much of the shortest lease is left; see
	// lease.Lease.Shortened.
	Left(left time.Duration, v lease.Version, sent, received clock.Instant) lease.Verdict
}

// Entry is what a Monitor knows of a lock. The Monitor's mutex guards it.
type Entry struct {
	at       clock.Instant // when to read it or, if it is not listed, when it was read last
	stage    stage
	listed   bool   // it is to be read
	told     bool   // the server has told of a change since it was read last
	spurious uint8  // messages in a row after which a read found nothing changed
	asRead   uint32 // number of extensions when it was read last, plus 1; 0: it was not read; only a round uses it
}

// stage is how far the Monitor has come with a lock.
type stage uint8

const (
	unread  stage = iota // the Hub does not know it yet
	known                // the Hub tells of changes of its keys
	removed              // for good
)

// Server reads the keys of locks. There is an answer for each of the locks, in their order.
type Server interface {
	// Owners reads who owns keys, and has the server tell of their next change.
	Owners(ctx context.Context, locks [][]string) []Answer[string]
	// Left reads how much is left of the leases of keys: clock.NoExpiry, or Gone.
	Left(ctx context.Context, locks [][]string) []Answer[time.Duration]
}

// Answer is about the keys of one lock, in their order.
type Answer[T any] struct {
	Keys []T
	Err  error
}

// Gone is what is left of the lease of a key that is not there.
const Gone time.Duration = -1

// Monitor notices at once, where the server tells of changed keys, that a lock was lost or
// that somebody else has shortened its lease. It reads the keys of held locks with tracking
// on, so that the server tells of their next change. A message is only a hint, because every
// extension causes one: the Monitor reads the key again, and the server then tracks it again.
// The Monitor reads keys that change within a moment together, so that the extension of many
// locks costs one read for each script.
//
// A goroutine that holds its mutex takes no other.
type Monitor struct {
	calls    context.Context // of its reads
	listener *Listener
	server   Server
	after    func([]Held)

	mu      sync.Mutex
	unread  []Held // to be read
	timer   *time.Timer
	next    clock.Instant // of the next round; Never: none is planned
	reading bool          // a round is under way
}

// NewMonitor returns a Monitor that hears from listener which keys have changed, and reads
// them from server until calls ends. It calls after with the locks that it has read, and may
// read others at the same time.
func NewMonitor(calls context.Context, listener *Listener, server Server, after func([]Held)) *Monitor {
	return &Monitor{calls: calls, listener: listener, server: server, after: after, next: clock.Never}
}

const (
	firstRead   = 20 * time.Millisecond // a lock that is held for less is never read
	gatherReads = 2 * time.Millisecond
	readAgain   = time.Second // after an error; the longest pause after spurious messages too
	readTimeout = 2 * time.Second
)

// Add has the Monitor watch a lock, once it has been held for a moment.
func (m *Monitor) Add(h Held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.Entry().stage == unread {
		m.list(h, firstRead)
	}
}

// Remove has the Monitor watch a lock no more. Adding it again has no effect.
func (m *Monitor) Remove(h Held) {
	if m.remove(h.Entry()) == known {
		m.listener.hub.drop(h)
	}
}

func (m *Monitor) remove(e *Entry) (before stage) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, e.stage = e.stage, removed
	return before
}

// subscribe has the Hub tell of changes of a lock's keys.
func (m *Monitor) subscribe(h Held) {
	m.mu.Lock()
	before := h.Entry().stage
	m.mu.Unlock()
	if before != unread {
		return
	}
	m.listener.hub.hold(m, h)
	m.mu.Lock()
	gone := h.Entry().stage == removed
	if !gone {
		h.Entry().stage = known
	}
	m.mu.Unlock()
	if gone {
		m.listener.hub.drop(h)
	}
}

// changed has a lock read soon, because the server told of a change. If the server does so
// all the time without a reason, the Monitor reads the lock more and more slowly: the server's
// table of tracked keys may be full, so that each read makes the server forget another key
// and send a message about it.
func (m *Monitor) changed(h Held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := h.Entry()
	e.told = true
	wait := gatherReads
	switch {
	case e.listed || e.spurious == 0:
	case clock.Now() > e.at.After(2*readAgain):
		e.spurious = 0
	default:
		wait = e.pause()
	}
	m.list(h, wait)
}

// pause is how long the Monitor waits before it reads the lock again. Each spurious
// message makes it longer.
func (e *Entry) pause() time.Duration {
	return min(gatherReads<<e.spurious, readAgain)
}

// list has a lock read after wait, or earlier if that is planned. The caller holds mu.
func (m *Monitor) list(h Held, wait time.Duration) {
	e, at := h.Entry(), clock.Now().After(wait)
	if !e.listed {
		e.listed, e.at = true, at
		m.unread = append(m.unread, h)
	}
	e.at = min(e.at, at)
	m.plan(e.at)
}

// plan has a round start at that instant, or earlier. The caller holds mu.
func (m *Monitor) plan(at clock.Instant) {
	if m.reading || at >= m.next {
		return // a round that ends plans the next
	}
	m.next = at
	if m.timer == nil {
		m.timer = time.AfterFunc(at.Until(), m.round)
	} else {
		m.timer.Reset(at.Until())
	}
}

// round reads locks. They are taken off the list before they are read: what changes
// from then on is read in another round.
func (m *Monitor) round() {
	m.mu.Lock()
	m.next = clock.Never
	if m.reading {
		m.mu.Unlock()
		return
	}
	m.reading = true
	due := m.take()
	m.mu.Unlock()

	defer m.after(heldOf(due))
	unread := due
	defer func() { // also when a hook of the client ends the goroutine
		m.mu.Lock()
		defer m.mu.Unlock()
		m.reading = false
		for _, r := range unread {
			e := r.held.Entry()
			e.told = e.told || r.told
			m.list(r.held, readAgain)
		}
		for _, h := range m.unread {
			m.plan(max(h.Entry().at, clock.Now().After(gatherReads)))
		}
	}()
	unread = m.read(due)
}

// reading is a lock that is being read.
type reading struct {
	held    Held
	told    bool          // the server told of a change
	foreign bool          // no extension of the lock itself explains the change
	version lease.Version // before it was read
}

func heldOf(due []reading) []Held {
	all := make([]Held, len(due))
	for i, r := range due {
		all[i] = r.held
	}
	return all
}

// take removes from the list the locks that are read now, and returns them. A lock whose pause
// after spurious messages is not over stays on the list. The caller holds mu.
func (m *Monitor) take() (due []reading) {
	at := clock.Now()
	m.unread = slices.DeleteFunc(m.unread, func(h Held) bool {
		e := h.Entry()
		if e.spurious > 0 && e.at > at.After(e.pause()/4) {
			return false
		}
		due = append(due, reading{held: h, told: e.told})
		e.listed, e.told, e.at = false, false, at
		return true
	})
	return due
}

// prepare has the Hub tell of changes, before the keys are read for the first time. It
// reports false if the lock has ended.
func (m *Monitor) prepare(r *reading) bool {
	version, held := r.held.Version()
	if !held {
		return false
	}
	e := r.held.Entry()
	r.version = version
	r.foreign = r.told && e.asRead == version.Sent+1
	e.asRead = version.Sent + 1
	m.subscribe(r.held)
	return true
}

// read reads locks, tells them what was found, and returns those that it could not read.
func (m *Monitor) read(due []reading) (unread []reading) {
	known := make([]reading, 0, len(due))
	for _, r := range due {
		if m.prepare(&r) {
			known = append(known, r)
		}
	}
	ctx, cancel := context.WithTimeout(m.calls, readTimeout)
	defer cancel()
	unread, foreign := m.owners(ctx, known)
	return append(unread, m.left(ctx, foreign)...)
}

func keysOf(locks []reading) [][]string {
	keys := make([][]string, len(locks))
	for i, r := range locks {
		keys[i] = r.held.Keys()
	}
	return keys
}

// owners reads who owns the keys. It returns the locks that it could not read, and the held
// locks whose keys somebody else has changed.
func (m *Monitor) owners(ctx context.Context, locks []reading) (unread, foreign []reading) {
	if len(locks) == 0 {
		return nil, nil
	}
	for i, answer := range m.server.Owners(ctx, keysOf(locks)) {
		r := locks[i]
		if answer.Err != nil {
			unread = append(unread, r)
			continue
		}
		held, again := r.held.Owners(answer.Keys, r.version)
		if again {
			m.changed(r.held)
		}
		if held && r.foreign {
			foreign = append(foreign, r)
		} else {
			m.calm(r.held)
		}
	}
	return unread, foreign
}

// left asks how much is left of leases that somebody else may have shortened.
func (m *Monitor) left(ctx context.Context, locks []reading) (unread []reading) {
	if len(locks) == 0 {
		return nil
	}
	sent := clock.Now()
	answers := m.server.Left(ctx, keysOf(locks))
	received := clock.Now()
	for i, answer := range answers {
		r := locks[i]
		if answer.Err != nil || m.judge(r, slices.Min(answer.Keys), sent, received) == lease.Unsettled {
			unread = append(unread, r)
		}
	}
	return unread
}

// judge takes the server's answer about a lock: least is what is left of the shortest lease
// of its keys.
func (m *Monitor) judge(r reading, least time.Duration, sent, received clock.Instant) lease.Verdict {
	found := lease.Unharmed
	switch least {
	case Gone:
		found = lease.Settled // the server will tell
	case clock.NoExpiry:
	default:
		found = r.held.Left(least, r.version, sent, received)
	}
	if found != lease.Unharmed {
		m.calm(r.held)
		return found
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := r.held.Entry(); e.pause() < readAgain {
		e.spurious++
	}
	return found
}

// calm notes that there was a reason to read the lock, so that it is read soon the next time.
func (m *Monitor) calm(h Held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h.Entry().spurious = 0
}
