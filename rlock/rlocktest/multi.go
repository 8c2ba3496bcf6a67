package rlocktest

import "strings"

// runInMulti runs a command of a connection after MULTI.
func (t *tracker) runInMulti(c *conn, argv []string) {
	switch argv[0] {
	case "EXEC", "DISCARD":
		if len(argv) > 1 {
			t.enqueue(c, argv)
			return
		}
	case "MULTI", "QUIT", "WATCH":
		t.backend.Dispatch(c.peer, argv)
		return
	default:
		t.enqueue(c, argv)
		return
	}
	switch {
	case argv[0] == "DISCARD":
		c.peer.WriteRaw(t.discard(c))
	case c.broken:
		if reply := t.discard(c); reply != replyOK {
			c.peer.WriteRaw(reply)
		} else {
			c.peer.WriteError("EXECABORT Transaction discarded because of previous errors.")
		}
	default:
		t.exec(c, argv)
	}
	c.multi, c.broken, c.queued, c.caching = false, false, nil, ""
}

// enqueue queues a command for EXEC. A command that cannot be queued makes EXEC fail, also after
// miniredis.SetError, where miniredis itself does not.
func (t *tracker) enqueue(c *conn, argv []string) {
	if isSharded(argv) {
		c.peer.WriteError("ERR sharded channels are not supported in MULTI by this server")
		c.broken = true
		return
	}
	if argv[0] == "HEXPIRE" {
		// This command alone replies to the peer that queued it, so that peer cannot be a temporary one.
		c.queued = append(c.queued, argv)
		t.backend.Dispatch(c.peer, argv)
		return
	}
	if t.capture(c.peer, argv) == "+QUEUED\r\n" {
		c.queued = append(c.queued, argv)
	} else {
		c.broken = true
	}
}

func (t *tracker) exec(c *conn, argv []string) {
	t.setNoticed(c, false)
	t.execute(c, argv, c.queued)
	// After miniredis.SetError, EXEC has executed nothing, and all commands are still queued.
	c.unsettled = !t.setNoticed(c, true)
}

// discard leaves the transaction of the connection, if there is one. If that is not possible now, the server
// tries again before the next command.
func (t *tracker) discard(c *conn) string {
	reply := t.ask(c.peer, []string{"DISCARD"})
	c.unsettled = reply != replyOK && !strings.Contains(reply, "without MULTI")
	return reply
}
