package rlocktest

import "github.com/alicebob/miniredis/v2/server"

// enterScript notes that what scripts do from now on is the doing of c.
func (t *tracker) enterScript(c *conn) {
	t.scripting.Lock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.script, c.script, c.noticed = c, effect{}, false
}

// setNoticed returns what it was.
func (t *tracker) setNoticed(c *conn, noticed bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := c.noticed
	c.noticed = noticed
	return old
}

// leaveScript returns what the scripts of the batch did.
func (t *tracker) leaveScript(c *conn, batch [][]string) effect {
	t.mu.Lock()
	t.script = nil
	e, noticed := c.script, c.noticed
	t.mu.Unlock()
	t.scripting.Unlock()
	if noticed {
		return e
	}
	for _, cmd := range batch {
		if isScript(cmd) && t.writes(cmd[0]) {
			e.add(cmd)
		}
	}
	return e
}

// notice is called before every command that miniredis runs, those that a
// script calls included. Such a command runs with everything locked, so it can
// be noted when done and announced when the script is.
func (t *tracker) notice(p *server.Peer, cmd string, args ...string) bool {
	if inner, ok := t.inner.Load(p); ok {
		if c := inner.(*conn); c != nil {
			t.setNoticed(c, true)
		}
		return false
	}
	t.mu.Lock()
	if c, ok := t.conns[p]; ok {
		c.noticed = true
		t.mu.Unlock()
		return false
	}
	c := t.script
	t.mu.Unlock()
	if c == nil || !t.writes(cmd) {
		return false
	}
	argv := append([]string{cmd}, args...)
	if changed(argv, t.capture(p, argv)) {
		t.mu.Lock()
		c.script.add(argv)
		t.mu.Unlock()
	}
	return true
}
