package notify

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
)

// Held is a lock that is held. The Monitor may hold a mutex while it calls Keys, Entry or Monitor. It holds
// none while it calls another method, so that method may take the mutex of the lock.
type Held interface {
	// Entry returns what the Monitor knows of the lock. It is always the same.
	Entry() *Entry
	// Monitor returns the Monitor that watches the lock. It is always the same.
	Monitor() *Monitor
	// Keys returns the keys. They are always the same.
	Keys() []string
	// Version returns the version of the lease. It returns false once the lock has ended.
	Version() (terms.Version, bool)
	// Owners takes the owner of each key from the server's answer. "" means none. The Monitor has sent the
	// read after Version returned v. If a key has another owner, the lock ends. Owners reports whether the
	// lock is still held. again reports that v is too old to tell, so the Monitor must read again.
	Owners(owners []string, v terms.Version) (held, again bool)
	// Left takes from the server's answer how much of the shortest lease is left: see
	// terms.Terms.Shortened.
	Left(left time.Duration, v terms.Version, sent, received clock.Instant) terms.Verdict
}

// Entry is what a Monitor knows of a lock. The mutex of the Monitor guards it.
type Entry struct {
	at       clock.Instant // when to read the lock, if it is listed; otherwise when it was last read
	stage    stage
	listed   bool  // the Monitor must read the lock
	told     bool  // the server has told of a change since the last read
	spurious uint8 // messages in a row whose read found nothing changed
	// The number of extensions of the lock that had been sent at the last read, plus 1. 0 means that the lock
	// was not read. If the number has not changed, no extension explains a change of the key. Only a round
	// uses asRead.
	asRead uint32
}

// stage says how far the Monitor has come with a lock.
type stage uint8

const (
	unread  stage = iota // the Hub does not know it yet
	known                // the Hub tells of changes of its keys
	removed              // the Monitor never watches it again
)

// Server reads the keys of locks. It returns one answer for each lock, in the order of the locks.
type Server interface {
	// Slot returns the slot of a key. Keys that are read together are all in one slot.
	Slot(key string) uint16
	// Owners reads the owners of keys, and makes the server tell of the next change of these keys.
	Owners(ctx context.Context, locks [][]string) []Answer[string]
	// Left reads how much is left of the lease of each key: clock.NoExpiry if the lease has no end, Gone if
	// there is no key.
	Left(ctx context.Context, locks [][]string) []Answer[time.Duration]
}

// Answer is the answer for the keys of one lock, in their order.
type Answer[T any] struct {
	Keys []T
	Err  error
}

// Gone is the answer for a key that does not exist.
const Gone time.Duration = -1

// If the server tells of changed keys, the Monitor notices at once that a lock is lost, or that another
// client has shortened its lease. It reads the keys of held locks with tracking on, so that the server tells
// of their next change. A message is only a hint, because every extension causes one too. So the Monitor
// reads the key again, and this read makes the server track the key again. If several keys change within
// gatherReads, the Monitor reads them together. So one script that extends many locks causes one read.
//
// The Monitor reads each slot by itself, so that a silent node delays no lock of another node. While it
// reads a slot, further changes of that slot wait for the next read.
//
// A goroutine that holds Monitor.mu takes no other mutex.
type Monitor struct {
	calls    context.Context // the context of the reads
	listener *Listener
	server   Server
	after    func([]Held)

	mu      sync.Mutex
	unread  []Held // locks to read
	timer   *time.Timer
	next    clock.Instant    // of the next round; Never: none is planned
	reading map[place][]Held // the places of the reads under way, with the locks to read there next
}

// place is where the Monitor reads a lock. It reads the locks of one place together, and makes one read of
// a place at a time.
type place struct {
	slot uint16
	// The lock, if its keys are in several slots: it is read by itself. nil for all locks of one slot.
	alone *Entry
}

// NewMonitor returns a Monitor that hears of changed keys from listener, and reads them from server until
// calls ends. It calls after with the locks that it has read. It may read other locks at the same time.
func NewMonitor(calls context.Context, listener *Listener, server Server, after func([]Held)) *Monitor {
	return &Monitor{calls: calls, listener: listener, server: server, after: after, next: clock.Never,
		reading: map[place][]Held{}}
}

const (
	firstRead   = 20 * time.Millisecond // the Monitor never reads a lock that is held for less
	gatherReads = 2 * time.Millisecond
	readAgain   = time.Second // after an error; also the longest pause after spurious messages
	readTimeout = 2 * time.Second
)

// Add makes the Monitor watch a lock once the lock has been held for firstRead.
func (m *Monitor) Add(h Held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if h.Entry().stage == unread {
		m.list(h, firstRead)
	}
}

// Remove makes the Monitor forget a lock. A later Add has no effect.
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

// subscribe makes the Hub tell of changes of the keys of a lock.
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

// changed plans a read of a lock, because the server told of a change. If the server does that all the time
// without a reason, the Monitor reads the lock more and more slowly. The server's table of tracked keys may
// be full: then each read makes the server forget another key and send a message about it.
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

// pause returns for how long the Monitor waits before it reads the lock again. Each spurious message makes
// the pause longer.
func (e *Entry) pause() time.Duration {
	return min(gatherReads<<e.spurious, readAgain)
}

// list plans a read of a lock after wait. An earlier plan stays. The caller holds mu.
func (m *Monitor) list(h Held, wait time.Duration) {
	e, at := h.Entry(), clock.Now().After(wait)
	if !e.listed {
		e.listed, e.at = true, at
		m.unread = append(m.unread, h)
	}
	e.at = min(e.at, at)
	m.plan(e.at)
}

// plan starts a round at that instant, or earlier. The caller holds mu.
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

// round starts the reads that are due. It takes the locks off the list first, so a change from then on
// causes another read.
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

// reading is a lock that the Monitor reads now.
type reading struct {
	held    Held
	keys    []string      // all its keys, or the keys in one slot
	told    bool          // the server told of a change
	foreign bool          // no extension of the lock itself explains the change
	version terms.Version // before the read
}

func heldOf(due []reading) []Held {
	all := make([]Held, len(due))
	for i, r := range due {
		all[i] = r.held
	}
	return all
}

// take removes the locks that are due from the list, and returns them. A lock whose pause after spurious
// messages is not over stays on the list. A lock whose place is being read goes on the list of that place.
// The caller holds mu.
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

// readAt reads the locks of a place. After that it lists the locks whose keys changed there meanwhile.
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

// prepare makes the Hub tell of changes before the first read of the keys. It reports false if the lock has
// ended.
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

// read reads the locks of a place and tells the locks what it finds. It returns the locks that it could not
// read.
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

// owners reads the owners of the keys. It returns the locks that it could not read, and the held locks
// whose keys another client has changed.
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

// tell tells a lock who owns its keys, and reports whether the lock is still held.
func (m *Monitor) tell(r reading, owners []string) (held bool) {
	held, again := r.held.Owners(owners, r.version)
	if again {
		m.changed(r.held)
	}
	return held
}

// left reads how much is left of leases that another client may have shortened.
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

// judge takes the server's answer about the leases of the keys of a lock. The shortest lease counts. judge
// reports false if the Monitor must read the lock again.
func (m *Monitor) judge(
	r reading, answer Answer[time.Duration], sent, received clock.Instant,
) (settled bool) {
	if answer.Err != nil {
		return false
	}
	found := terms.Unharmed
	switch least := slices.Min(answer.Keys); least {
	case Gone:
		found = terms.Settled // nothing to do: the server also sends a message that the key is gone
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

// calm notes that the read had a reason, so the Monitor reads the lock soon the next time.
func (m *Monitor) calm(h Held) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h.Entry().spurious = 0
}
