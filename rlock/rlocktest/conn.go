package rlocktest

import (
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
)

// conn is what is known of one client connection.
type conn struct {
	peer *server.Peer
	// busy is held while a command runs and while pushes are written, so that
	// a push comes between two replies and never inside one.
	busy sync.Mutex

	// Used only by the goroutine that serves the connection.
	db      int
	caching string // the argument of CLIENT CACHING, in force for the next command
	multi   bool
	queued  [][]string // the commands since MULTI
	broken  bool       // one of them was refused
	// unsettled is set when miniredis may hold a transaction that the client
	// takes to be over.
	unsettled bool

	// Guarded by tracker.mu.
	mode     mode
	channels []string // sharded ones, on which it listens
	pending  []push
	// What the script that runs now has done, and whether the hook that
	// notices it was called at all.
	script  effect
	noticed bool
}

// mode is the argument of CLIENT TRACKING.
type mode struct {
	on, optIn, optOut, broadcast, noLoop bool

	prefixes []string
}

// broadcasts tells whether changes of the key are announced without it having
// been read.
func (m mode) broadcasts(key string) bool {
	if !m.on || !m.broadcast {
		return false
	}
	for _, p := range m.prefixes {
		if strings.HasPrefix(key, p) {
			return true
		}
	}
	return len(m.prefixes) == 0
}

// remembers tells whether the keys of a command that reads are to be tracked.
func (m mode) remembers(caching string) bool {
	switch {
	case !m.on || m.broadcast:
		return false
	case m.optIn:
		return caching == "YES"
	default:
		return caching != "NO"
	}
}

// push is an invalidation of one key or of all, or a message.
type push struct {
	key     string
	all     bool
	message []string
}

// effect is what a command changed.
type effect struct {
	keys  []string
	flush bool
	heard []*conn // have messages to be sent
}

func (e *effect) add(argv []string) {
	e.keys = append(e.keys, keysOf(argv)...)
	e.flush = e.flush || isFlush(argv)
}

// write sends pushes. The caller holds busy.
func (c *conn) write(pushes []push) {
	resp3 := c.peer.Resp3
	c.peer.Block(func(w *server.Writer) {
		for _, p := range pushes {
			if p.message != nil {
				w.WritePushLen(len(p.message))
				for _, word := range p.message {
					w.WriteBulk(word)
				}
				continue
			}
			if !resp3 {
				continue
			}
			w.WritePushLen(2)
			w.WriteBulk("invalidate")
			if p.all {
				w.WriteNull()
				continue
			}
			w.WriteStrings([]string{p.key})
		}
		w.Flush()
	})
}
