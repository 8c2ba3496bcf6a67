package rlocktest

import (
	"slices"
	"sync"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/rlock-go/toolkit/rlock/internal/wide"
)

// tracker adds client-side caching to a miniredis: it runs the commands of all connections, remembers the
// readers of keys, and announces changes.
//
// A reader must never keep an old value without an invalidation to come. Two rules prevent that:
//
//   - The tracker remembers keys before the command that reads them, and announces changes after the command
//     that makes them. So the read sees a change, or the reader hears of it.
//   - A push waits while its connection runs a command. So an announcement during a read arrives after the
//     reply. Before the reply, the client would take it for an earlier change.
type tracker struct {
	redis   *miniredis.Miniredis
	backend *server.Server
	scripts wide.Scripts
	// inner has the peers from ask. Their commands need no notice, or only a notice for the conn that is the
	// value.
	inner sync.Map
	// scripting lets one script run at a time, so the tracker knows whose script runs. It also excludes other
	// commands that set a lease while the clock of the leases stands still. miniredis runs scripts one at a
	// time anyway.
	scripting sync.RWMutex
	stopped   time.Time // start of the running script; guarded by scripting

	mu       sync.Mutex
	conns    map[*server.Peer]*conn
	readers  map[string]map[*conn]struct{}
	script   *conn // the connection of the running script
	expiring map[dbKey]struct{}
	sweeping bool
	closed   bool
	stop     chan struct{}
	sweepers sync.WaitGroup
}

func newTracker(m *miniredis.Miniredis) *tracker {
	t := &tracker{
		redis:    m,
		backend:  m.Server(),
		conns:    map[*server.Peer]*conn{},
		readers:  map[string]map[*conn]struct{}{},
		expiring: map[dbKey]struct{}{},
		stop:     make(chan struct{}),
	}
	t.backend.SetPreHook(t.notice)
	t.registerSharded()
	return t
}

// conn returns the state of a connection, from its first command on.
func (t *tracker) conn(p *server.Peer) *conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	c, ok := t.conns[p]
	if !ok {
		c = &conn{peer: p}
		t.conns[p] = c
		p.OnDisconnect(func() { t.forget(c) })
	}
	return c
}

func (t *tracker) forget(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.conns, c.peer)
	t.unread(c)
}

// unread drops all keys that c has read. The caller holds mu.
func (t *tracker) unread(c *conn) {
	for key, readers := range t.readers {
		if delete(readers, c); len(readers) == 0 {
			delete(t.readers, key)
		}
	}
}

// remember notes that c is about to read the keys.
func (t *tracker) remember(c *conn, keys []string) {
	t.mu.Lock()
	for _, key := range keys {
		readers := t.readers[key]
		if readers == nil {
			readers = map[*conn]struct{}{}
			t.readers[key] = readers
		}
		readers[c] = struct{}{}
	}
	t.mu.Unlock()
	t.expect(c.db, keys)
}

// announce tells all concerned connections the changes of writer.
func (t *tracker) announce(writer *conn, e effect) {
	t.deliver(e.heard)
	if e.flush {
		t.invalidateAll()
	}
	if len(e.keys) == 0 {
		return
	}
	slices.Sort(e.keys)
	e.keys = slices.Compact(e.keys)
	// This comes before the push: if the key is gone by now, the next push says so.
	t.expectBroadcast(writer.db, e.keys)
	t.invalidate(writer, e.keys)
}

// invalidate announces that writer changed the keys. With a nil writer the keys expired.
func (t *tracker) invalidate(writer *conn, keys []string) {
	var concerned []*conn
	note := func(c *conn, key string) {
		if c == writer && c.mode.noLoop {
			return
		}
		c.pending = append(c.pending, push{key: key})
		concerned = append(concerned, c)
	}
	t.mu.Lock()
	for _, key := range keys {
		for c := range t.readers[key] {
			note(c, key)
		}
		delete(t.readers, key)
		for _, c := range t.conns {
			if c.mode.broadcasts(key) {
				note(c, key)
			}
		}
	}
	t.mu.Unlock()
	t.deliver(concerned)
}

// invalidateAll announces that all keys are gone.
func (t *tracker) invalidateAll() {
	var concerned []*conn
	t.mu.Lock()
	clear(t.readers)
	for _, c := range t.conns {
		if c.mode.on {
			c.pending = append(c.pending, push{all: true})
			concerned = append(concerned, c)
		}
	}
	t.mu.Unlock()
	t.deliver(concerned)
}

// deliver writes the pending pushes of connections without a running command. A connection with a running
// command delivers them after the command.
func (t *tracker) deliver(conns []*conn) {
	for _, c := range conns {
		// The holder of busy looks for pending pushes again after it gives busy up, so no push is left
		// behind.
		for t.hasPending(c) && c.busy.TryLock() {
			c.write(t.takePending(c))
			c.busy.Unlock()
		}
	}
}

func (t *tracker) hasPending(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(c.pending) > 0
}

func (t *tracker) takePending(c *conn) []push {
	t.mu.Lock()
	defer t.mu.Unlock()
	pending := c.pending
	c.pending = nil
	return pending
}
