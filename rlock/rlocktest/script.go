package rlocktest

import (
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// enterScript notes that what scripts do from now on is the doing of c, and stops the
// clock that leases run down by.
func (t *tracker) enterScript(c *conn) {
	t.scripting.Lock()
	t.stopClock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.script, c.script, c.noticed = c, effect{}, false
}

// stopClock keeps keys from expiring between two commands of a script, as Redis does:
// otherwise SET NX could find a key that GET does not find any more. The caller holds
// scripting.
func (t *tracker) stopClock() {
	t.redis.DB(0) // what is over expires now
	t.stopped = time.Now()
	t.redis.ClockTTL(false)
}

// startClock counts the time of the script from all leases, those included that the
// script has set: they began when it began.
func (t *tracker) startClock() {
	t.redis.ClockTTL(true)
	t.redis.FastForward(time.Since(t.stopped))
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
	t.startClock()
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
		return t.shardedCall(nil, p, cmd, args)
	}
	c := t.script
	t.mu.Unlock()
	if t.shardedCall(c, p, cmd, args) {
		return true
	}
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
