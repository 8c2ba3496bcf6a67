package rlocktest

import (
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// enterScript notes that all changes of scripts from now on belong to c, and stops the clock of the leases.
func (t *tracker) enterScript(c *conn) {
	t.scripting.Lock()
	t.stopClock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.script, c.script, c.noticed = c, effect{}, false
}

// stopClock keeps keys from expiring between two commands of a script, as in Redis. Otherwise SET NX could
// find a key that a later GET does not find. The caller holds scripting.
func (t *tracker) stopClock() {
	t.redis.DB(0) // leases that are over expire now
	t.stopped = time.Now()
	t.redis.ClockTTL(false)
}

// startClock counts the time of the script from all leases, also from leases that the script has set: they
// begin with the script.
func (t *tracker) startClock() {
	t.redis.ClockTTL(true)
	t.redis.FastForward(time.Since(t.stopped))
}

// setNoticed returns the former value.
func (t *tracker) setNoticed(c *conn, noticed bool) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := c.noticed
	c.noticed = noticed
	return old
}

// leaveScript returns the changes of the scripts of the batch.
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

// notice is called before every command that miniredis runs, also for commands of a script. A command of a
// script runs with everything locked, so notice notes its change after the command, and the announcement
// follows after the script.
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
