package notify

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// connections are the connections on which a client listens. On a cluster there is one for each node that
// serves a channel. Otherwise there is one.
//
// They come from the client's pool for blocking commands, and carry nothing else. The server limits the
// unread output of a connection with subscriptions, and closes the connection beyond the limit. A large
// reply would close a shared connection.
type connections struct {
	background context.Context
	client     rueidis.Client
	cluster    bool
	keep       time.Duration        // for how long to keep an unused subscription to the channel of a slot
	hear       func(message string) // called on the goroutine that reads a connection
	running    sync.WaitGroup       // subscriptions, and the closing of connections

	mu   sync.Mutex
	open map[string]*connection // by the address of the node; "" without a cluster
}

// connection is a connection that the client has dialled, or dials.
type connection struct {
	address string
	ready   chan struct{} // closed once the client has dialled; the next three fields are set before that
	conn    rueidis.DedicatedClient
	broken  <-chan error
	primary string // the primary just before the client dialled

	users int // subscriptions that use it, or wait to use it; guarded by connections.mu

	mu    sync.Mutex
	ended map[string]chan struct{} // by channel; receives when the server has ended the subscription
}

// use returns the connection to a node. The client dials the connection or takes one from its pool. No
// caller can end the dial, and the dial takes forever if the pool is used up. So the dial goes on after
// ctx, for the next user of the node. After an error the caller has nothing to leave.
func (c *connections) use(ctx context.Context, address string, node rueidis.Client) (*connection, error) {
	c.mu.Lock()
	n := c.open[address]
	if n == nil {
		n = &connection{address: address, ready: make(chan struct{}), ended: map[string]chan struct{}{}}
		c.open[address] = n
		go c.dial(n, node)
	}
	n.users++
	c.mu.Unlock()
	select {
	case <-n.ready:
		return n, nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	select {
	case <-n.ready:
		return n, nil // dial has counted this user
	default:
		n.users--
		return nil, ctx.Err()
	}
}

// dial makes the client dial a connection. It closes the connection if no caller wants it by then.
func (c *connections) dial(n *connection, node rueidis.Client) {
	n.primary = c.primary()
	n.conn, _ = node.Dedicate()
	n.broken = n.conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage:      func(m rueidis.PubSubMessage) { c.hear(m.Message) },
		OnSubscription: n.changed,
	})
	c.mu.Lock()
	close(n.ready)
	unwanted := n.users == 0
	if unwanted {
		c.remove(n)
	}
	c.mu.Unlock()
	if unwanted {
		n.conn.Close()
	}
}

// leave ends one use. The last user closes the connection. That takes a second if the server does not
// answer.
func (c *connections) leave(n *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.users--; n.users == 0 {
		c.remove(n)
		c.running.Go(n.conn.Close)
	}
}

// drop makes the next user of the node dial another connection.
func (c *connections) drop(n *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remove(n)
}

// remove is drop for a caller who holds mu.
func (c *connections) remove(n *connection) {
	if c.open[n.address] == n {
		delete(c.open, n.address)
	}
}

// shared reports whether other subscriptions than the caller's use the connection.
func (c *connections) shared(n *connection) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return n.users > 1
}

// primary returns a text that differs from one primary to another. Without sentinels it is always empty.
func (c *connections) primary() string {
	if c.client.Mode() != rueidis.ClientModeSentinel {
		return ""
	}
	return strings.Join(slices.Sorted(maps.Keys(c.client.Nodes())), " ")
}

// changed takes what the server says of a subscription. It ends a subscription whose slot has moved.
func (n *connection) changed(s rueidis.PubSubSubscription) {
	if s.Kind != "sunsubscribe" {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case n.ended[s.Channel] <- struct{}{}:
	default:
	}
}

// follow returns a channel that receives when the server ends the subscription. Call follow before
// subscribing.
func (n *connection) follow(channel string) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	ended := make(chan struct{}, 1)
	n.ended[channel] = ended
	return ended
}

func (n *connection) forget(channel string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.ended, channel)
}
