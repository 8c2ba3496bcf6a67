package rlocktest

import (
	"bufio"
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/rlock-go/toolkit/rlock/internal/wide"
)

const replyOK = "+OK\r\n"

// serve runs one command of a client.
func (t *tracker) serve(p *server.Peer, argv []string) {
	c := t.conn(p)
	c.busy.Lock()
	t.run(c, t.scripts.Command(argv))
	c.busy.Unlock()
	t.deliver([]*conn{c})
}

// refuse answers one command of a client with an error, and does not run the command.
func (t *tracker) refuse(p *server.Peer, argv []string, text string) {
	c := t.conn(p)
	c.busy.Lock()
	switch {
	case !c.multi:
		if argv[0] != "CLIENT" {
			c.caching = ""
		}
	case argv[0] == "EXEC" || argv[0] == "DISCARD":
		t.discard(c)
		c.multi, c.broken, c.queued, c.caching = false, false, nil, ""
	default:
		c.broken = true
	}
	p.WriteError(text)
	c.busy.Unlock()
	t.deliver([]*conn{c})
}

// command runs one command without a client, and returns its refusal.
func (t *tracker) command(argv ...string) error {
	var reply bytes.Buffer
	p := server.NewPeer(bufio.NewWriter(&reply))
	t.serve(p, argv)
	p.Flush()
	t.forget(t.conn(p))
	if text, refused := strings.CutPrefix(reply.String(), "-"); refused {
		return fmt.Errorf("rlocktest: %s: %s", argv[0], strings.TrimSpace(text))
	}
	return nil
}

func (t *tracker) run(c *conn, argv []string) {
	if c.multi {
		t.runInMulti(c, argv)
		return
	}
	if c.unsettled {
		t.discard(c)
	}
	if t.sharded(c, argv) {
		c.caching = ""
		return
	}
	switch argv[0] {
	case "CLIENT":
		// CLIENT leaves CACHING in force, because CACHING is for the command after it.
		if !t.client(c, argv[1:]) {
			t.backend.Dispatch(c.peer, argv)
		}
		return
	case "CLUSTER":
		// miniredis would name itself as the node for connections.
		c.peer.WriteError("ERR This instance has cluster support disabled")
	case "MULTI":
		// MULTI leaves CACHING in force too, up to and including EXEC.
		if c.multi = t.capture(c.peer, argv) == replyOK; c.multi {
			return
		}
	case "SELECT":
		if t.capture(c.peer, argv) == replyOK {
			c.selected(argv)
		}
	default:
		t.execute(c, argv, [][]string{argv})
	}
	c.caching = ""
}

func (c *conn) selected(argv []string) {
	if db, err := strconv.Atoi(argv[1]); err == nil {
		c.db = db
	}
}

// execute runs argv. The commands of batch take effect: argv itself, or the commands that EXEC executes.
func (t *tracker) execute(c *conn, argv []string, batch [][]string) {
	t.rememberReads(c, batch)
	scripts := slices.ContainsFunc(batch, isScript)
	switch {
	case scripts:
		t.enterScript(c)
	case !mayBlock(argv):
		t.scripting.RLock()
	}
	reply := ""
	switch {
	case isConditional(argv):
		reply = t.capture(c.peer, argv)
	case scripts && wide.Needed:
		c.peer.WriteRaw(wide.Reply(t.askFor(c, c.peer, argv)))
	default:
		t.backend.Dispatch(c.peer, argv)
	}
	var e effect
	switch {
	case scripts:
		e = t.leaveScript(c, batch)
	case !mayBlock(argv):
		t.scripting.RUnlock()
	}
	for _, cmd := range batch {
		switch {
		case isScript(cmd):
		case cmd[0] == "SELECT" && len(cmd) == 2:
			c.selected(cmd)
		case t.writes(cmd[0]) && (reply == "" || changed(cmd, reply)):
			e.add(cmd)
		}
	}
	t.announce(c, e)
}

func (t *tracker) rememberReads(c *conn, batch [][]string) {
	t.mu.Lock()
	remembers := c.mode.remembers(c.caching)
	t.mu.Unlock()
	if !remembers {
		return
	}
	var keys []string
	for _, cmd := range batch {
		if isScript(cmd) || t.backend.IsReadOnlyCommand(cmd[0]) {
			keys = append(keys, keysOf(cmd)...)
		}
	}
	t.remember(c, keys)
}

func (t *tracker) writes(cmd string) bool {
	return t.backend.IsRegisteredCommand(cmd) && !t.backend.IsReadOnlyCommand(cmd)
}

// ask runs a command as if p had sent it, and returns the reply without sending it.
func (t *tracker) ask(p *server.Peer, argv []string) string {
	return t.askFor(nil, p, argv)
}

// askFor is ask for a command that c notices, unless c is nil.
func (t *tracker) askFor(c *conn, p *server.Peer, argv []string) string {
	var reply bytes.Buffer
	w := bufio.NewWriterSize(&reply, 64)
	inner := server.NewPeer(w)
	inner.Ctx, inner.Resp3 = p.Ctx, p.Resp3
	t.inner.Store(inner, c)
	defer t.inner.Delete(inner)
	t.backend.Dispatch(inner, argv)
	inner.Flush()
	p.Ctx, p.Resp3 = inner.Ctx, inner.Resp3
	return reply.String()
}

// capture runs a command of p and returns the reply.
func (t *tracker) capture(p *server.Peer, argv []string) string {
	reply := t.ask(p, argv)
	p.WriteRaw(reply)
	return reply
}
