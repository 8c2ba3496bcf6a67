package rlocktest

import (
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
)

// conn is the state of one client connection.
type conn struct {
	peer *server.Peer
	// busy is held while a command runs and while pushes are written. So a push comes between two replies and
	// never inside a reply.
	busy sync.Mutex

	// Used only by the goroutine that serves the connection.
	db      int
	caching string // the argument of CLIENT CACHING, for the next command
	multi   bool
	queued  [][]string // the commands since MULTI
	broken  bool       // one of these commands was refused
	// unsettled is set when miniredis may hold a transaction that has ended for the client.
	unsettled bool

	// Guarded by tracker.mu.
	mode     mode
	channels []string // the sharded channels of its subscriptions
	pending  []push
	// The effect of the running script, and whether the server called the hook that notices it.
	script  effect
	noticed bool
}

// mode is the argument of CLIENT TRACKING.
type mode struct {
	on, optIn, optOut, broadcast, noLoop bool

	prefixes []string
}

// broadcasts reports whether the server announces changes of a key that the client has not read.
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

// remembers reports whether the server tracks the keys of a command that reads.
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

// push is a message, or an invalidation of one key or of all keys.
type push struct {
	key     string
	all     bool
	message []string
}

// effect is the changes of a command.
type effect struct {
	keys  []string
	flush bool
	heard []*conn // connections with messages to send
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
