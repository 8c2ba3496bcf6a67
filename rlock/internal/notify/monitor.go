package notify

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
)

// Held is a lock that somebody holds. The Monitor may hold a mutex while it calls Keys, Entry or
// Monitor. It holds none while it calls another method, so that one may take the lock's mutex.
type Held interface {
	// Entry returns what the Monitor knows of it, always the same.
	Entry() *Entry
	// Monitor returns the one that watches it, always the same.
	Monitor() *Monitor
	// Keys returns its keys, always the same.
	Keys() []string
	// Version returns the version of its lease; false once the lock has ended.
	Version() (terms.Version, bool)
	// Owners takes the server's answer who owns each key, "" for nobody. The Monitor has
	// asked after Version returned v. If a key is another's, the lock ends. Owners reports
	// whether the lock is still held, and whether to read again because v is too old to tell.
	Owners(owners []string, v terms.Version) (held, again bool)
	// Left takes the server's answer how much of the shortest lease is left; see
	// terms.Terms.Shortened.
	Left(left time.Duration, v terms.Version, sent, received clock.Instant) terms.Verdict
}

// Entry is what a Monitor knows of a lock. The Monitor's mutex guards it.
type Entry struct {
	at       clock.Instant // when to read it or, if it is not listed, when it was read last
	stage    stage
	listed   bool  // it is to be read
	told     bool  // the server has told of a change since it was read last
	spurious uint8 // messages in a row after which a read found nothing changed
	// number of extensions when it was read last, plus 1; 0: it was not read; only a round uses it
	asRead uint32
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
	// Slot returns which slot a key is in. Keys that are read together are all in one slot.
	Slot(key string) uint16
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
// It reads each slot by itself, so that a node of a cluster that is silent keeps no lock of another
// node from being read: of a slot that is being read, what changes meanwhile is read after that.
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
	next    clock.Instant    // of the next round; Never: none is planned
	reading map[place][]Held // the places that are being read, with what is to be read there after that
}

// place is where a lock is read from. What is at one place is read together, and nothing of it is read
// twice at the same time.
type place struct {
	slot uint16
	// of a lock whose keys are in several slots, which is read by itself; nil: of any lock of the slot
	alone *Entry
}

// NewMonitor returns a Monitor that hears from listener which keys have changed, and reads
// them from server until calls ends. It calls after with the locks that it has read, and may
// read others at the same time.
func NewMonitor(calls context.Context, listener *Listener, server Server, after func([]Held)) *Monitor {
	return &Monitor{calls: calls, listener: listener, server: server, after: after, next: clock.Never,
		reading: map[place][]Held{}}
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
	m.listener.hub.hold(h)
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

// heard notes that the server has told of a change of a key of a lock.
func (m *Monitor) heard(h Held) {
	m.listener.SetHeard(true)
	m.changed(h)
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
	case e.spurious == 0:
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
	if at >= m.next {
		return
	}
	m.next = at
	if m.timer == nil {
		m.timer = time.AfterFunc(at.Until(), m.round)
	} else {
		m.timer.Reset(at.Until())
	}
}

// round begins to read locks. They are taken off the list before they are read: what changes
// from then on is read once more.
func (m *Monitor) round() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.next = clock.Never
	for p, due := range m.take() {
		m.reading[p] = nil
		go m.readAt(p, due)
	}
	for _, h := range m.unread {
		m.plan(h.Entry().at)
	}
}

// reading is a lock that is being read.
type reading struct {
	held    Held
	keys    []string      // all its keys, or those of one slot
	told    bool          // the server told of a change
	foreign bool          // no extension of the lock itself explains the change
	version terms.Version // before it was read
}

func heldOf(due []reading) []Held {
	all := make([]Held, len(due))
	for i, r := range due {
		all[i] = r.held
	}
	return all
}

// take removes from the list the locks that are read now, and returns them. A lock whose pause
// after spurious messages is not over stays on the list. One of a place that is being read comes on
// the list of that place. The caller holds mu.
func (m *Monitor) take() (due map[place][]reading) {
	due = map[place][]reading{}
	at := clock.Now()
	m.unread = slices.DeleteFunc(m.unread, func(h Held) bool {
		e := h.Entry()
		if e.spurious > 0 && e.at > at.After(e.pause()/4) {
			return false
		}
		p := m.placeOf(h)
		if later, busy := m.reading[p]; busy {
			m.reading[p] = append(later, h)
			return true
		}
		due[p] = append(due[p], reading{held: h, keys: h.Keys(), told: e.told})
		e.listed, e.told, e.at = false, false, at
		return true
	})
	return due
}

func (m *Monitor) placeOf(h Held) place {
	keys := h.Keys()
	p := place{slot: m.server.Slot(keys[0])}
	for _, key := range keys[1:] {
		if m.server.Slot(key) != p.slot {
			return place{alone: h.Entry()}
		}
	}
	return p
}

// readAt reads the locks of a place. What was to be read there meanwhile comes on the list again then.
func (m *Monitor) readAt(p place, due []reading) {
	defer m.after(heldOf(due))
	unread := due
	defer func() { // also when a hook of the client ends the goroutine
		m.mu.Lock()
		defer m.mu.Unlock()
		for _, r := range unread {
			e := r.held.Entry()
			e.told = e.told || r.told
			m.list(r.held, readAgain)
		}
		for _, h := range m.reading[p] {
			m.unread = append(m.unread, h)
			m.plan(max(h.Entry().at, clock.Now().After(gatherReads)))
		}
		delete(m.reading, p)
	}()
	unread = m.read(p, due)
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

// read reads the locks of a place, tells them what was found, and returns those that it could not read.
func (m *Monitor) read(p place, due []reading) (unread []reading) {
	known := make([]reading, 0, len(due))
	for _, r := range due {
		if m.prepare(&r) {
			known = append(known, r)
		}
	}
	if len(known) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(m.calls, readTimeout)
	defer cancel()
	if p.alone != nil {
		return m.readParts(ctx, known[0])
	}
	unread, foreign := m.owners(ctx, known)
	return append(unread, m.left(ctx, foreign)...)
}

func keysOf(locks []reading) [][]string {
	keys := make([][]string, len(locks))
	for i, r := range locks {
		keys[i] = r.keys
	}
	return keys
}

// owners reads who owns the keys. It returns the locks that it could not read, and the held
// locks whose keys somebody else has changed.
func (m *Monitor) owners(ctx context.Context, locks []reading) (unread, foreign []reading) {
	for i, answer := range m.server.Owners(ctx, keysOf(locks)) {
		r := locks[i]
		switch {
		case answer.Err != nil:
			unread = append(unread, r)
		case m.tell(r, answer.Keys) && r.foreign:
			foreign = append(foreign, r)
		default:
			m.calm(r.held)
		}
	}
	return unread, foreign
}

// tell tells a lock who owns its keys, and reports whether it is still held.
func (m *Monitor) tell(r reading, owners []string) (held bool) {
	held, again := r.held.Owners(owners, r.version)
	if again {
		m.changed(r.held)
	}
	return held
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
		if !m.judge(locks[i], answer, sent, received) {
			unread = append(unread, locks[i])
		}
	}
	return unread
}

// judge takes the server's answer about the leases of a lock's keys, of which the shortest counts. It reports
// false if the lock must be read again.
func (m *Monitor) judge(r reading, answer Answer[time.Duration], sent,
	received clock.Instant) (settled bool) {
	if answer.Err != nil {
		return false
	}
	found := terms.Unharmed
	switch least := slices.Min(answer.Keys); least {
	case Gone:
		found = terms.Settled // the server will tell
	case clock.NoExpiry:
	default:
		found = r.held.Left(least, r.version, sent, received)
	}
	if found != terms.Unharmed {
		m.calm(r.held)
		return found != terms.Unsettled
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if e := r.held.Entry(); e.pause() < readAgain {
		e.spurious++
	}
	return true
}

// calm notes that there was a reason to read the lock, so that it is read soon the next time.
func (m *Monitor) calm(h Held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h.Entry().spurious = 0
}
