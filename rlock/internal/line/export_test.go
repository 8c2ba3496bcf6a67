package line

import "github.com/rlock-go/toolkit/rlock/internal/clock"

// Peek returns the role of a caller, and leaves the Caller as it is.
func (c *Caller) Peek() Role {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	return c.role
}

// Attend has a caller do nothing but wait, as in Await, or something else.
func (c *Caller) Attend(awaits bool, now clock.Instant) {
	c.shard.mu.Lock()
	defer c.shard.mu.Unlock()
	c.line.take(&Event{What: Attends, Caller: c, Awaits: awaits, Now: now})
}

// Keys returns how many lines there are, with the leases that nobody waits for.
func (ls *Lines) Keys() (n int) {
	for i := range ls.shards {
		n += len(ls.shards[i].alone) + len(ls.shards[i].whole) + len(ls.shards[i].shared)
	}
	return n
}
