package notify

// Tell is OnInvalidations for one key: a test cannot make a message.
func (h *Hub) Tell(key string) { h.shard(key).wake(key) }

// Holding is how many locks are told of changes.
func (h *Hub) Holding() (n int) {
	for i := range h.shards {
		h.shards[i].mu.Lock()
		for _, list := range h.shards[i].holding {
			n += len(list)
		}
		h.shards[i].mu.Unlock()
	}
	return n
}

// ReadGrant reads a message.
var ReadGrant = readGrant

// Hear is a message for g.
func (g *Grants) Hear(message string) { g.hear(message) }

// Confirm is a confirmation of the subscription.
func (g *Grants) Confirm() { g.wakeAll() }

// Kept is how many tokens are known: those that are expected, and those that were given up.
func (g *Grants) Kept() (n int) {
	for i := range g.shards {
		g.shards[i].mu.Lock()
		n += len(g.shards[i].tokens)
		g.shards[i].mu.Unlock()
	}
	return n
}

// Strays reports whether stray is called, and how many wait for that.
func (g *Grants) Strays() (telling bool, waiting int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.telling, len(g.strays)
}
