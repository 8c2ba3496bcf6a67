package notify

import (
	"context"
	"time"
)

// Tell is OnInvalidations for one key: a test cannot make a message.
func (h *Hub) Tell(key string) { h.wake(key) }

// Holding is how many locks are told of changes.
func (h *Hub) Holding() (n int) {
	for i := range h.shards {
		h.shards[i].mu.Lock()
		n += len(h.shards[i].holding)
		for _, others := range h.shards[i].others {
			n += len(others)
		}
		h.shards[i].mu.Unlock()
	}
	return n
}

// ReadGrant reads a message.
var ReadGrant = readGrant

// Hear is a message for g.
func (g *Grants) Hear(message string) { g.hear(message) }

// KeepUnused says how long a subscription of a cluster is kept that nobody uses. It is called before Listen.
func (g *Grants) KeepUnused(d time.Duration) { g.connections.keep = d }

// any is the channel of some key: where there is no cluster, that of all keys.
func (g *Grants) any() *Channel { return g.Channel("") }

// Confirm is a confirmation of the subscription.
func (g *Grants) Confirm() { g.wake(g.any()) }

// Expect is that of the channel, for the key k.
func (g *Grants) Expect(token string) *Expected { return g.any().Expect("k", token) }

// Listen is that of the channel.
func (g *Grants) Listen(ctx context.Context) error { return g.any().Listen(ctx) }

// Listening is that of the channel.
func (g *Grants) Listening() bool { return g.any().Listening() }

// Kept is how many tokens are known: those that are expected, and those that have what they waited for.
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
