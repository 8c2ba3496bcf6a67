package rlocktest

import "strings"

// runInMulti runs a command of a connection that has sent MULTI.
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

// enqueue has a command wait for EXEC. One that cannot makes EXEC fail, also if
// it is by miniredis.SetError, to which miniredis gives no thought.
func (t *tracker) enqueue(c *conn, argv []string) {
	if isSharded(argv) {
		c.peer.WriteError("ERR sharded channels are not supported in MULTI by this server")
		c.broken = true
		return
	}
	if argv[0] == "HEXPIRE" {
		// Alone among the commands, it replies to the peer that queued it,
		// which cannot be a temporary one then.
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
	// With miniredis.SetError, nothing was executed and all is still queued.
	c.unsettled = !t.setNoticed(c, true)
}

// discard leaves the transaction that the connection may be in. If that is not
// possible now, it will be tried again before the next command.
func (t *tracker) discard(c *conn) string {
	reply := t.ask(c.peer, []string{"DISCARD"})
	c.unsettled = reply != replyOK && !strings.Contains(reply, "without MULTI")
	return reply
}
