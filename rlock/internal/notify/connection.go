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

// connections are those on which a client listens: on a cluster one for each node that serves a
// channel, and otherwise one.
//
// They are of their own, of those that the client's pool has for blocking commands, because the
// server limits what a connection with subscriptions may have unread, and closes it beyond. A shared
// connection would be closed by a large reply.
type connections struct {
	background context.Context
	client     rueidis.Client
	cluster    bool
	keep       time.Duration        // a subscription to the channel of a slot that nobody uses
	hear       func(message string) // on the goroutine that reads a connection
	running    sync.WaitGroup       // subscriptions, and the closing of connections

	mu   sync.Mutex
	open map[string]*connection // by the address of the node; "" if there is no cluster
}

// connection is one that the client has dialled, or dials.
type connection struct {
	address string
	ready   chan struct{} // closed when the client has dialled; what follows is set before
	conn    rueidis.DedicatedClient
	broken  <-chan error
	primary string // what its primary was just before

	users int // subscriptions that use it, or are to; guarded by connections.mu

	mu    sync.Mutex
	ended map[string]chan struct{} // by channel: receives when the server has ended the subscription
}

// use returns the connection to a node. The client dials it, or takes one that is in its pool. That
// cannot be ended, and takes for ever if the pool is used up. So it goes on after ctx, for whoever
// uses the node next. After an error there is nothing to leave.
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

// dial has the client dial a connection. If nobody wants it any more then, it is closed.
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

// leave ends what use has begun. The last one closes the connection, which takes a second if the
// server does not answer.
func (c *connections) leave(n *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n.users--; n.users == 0 {
		c.remove(n)
		c.running.Go(n.conn.Close)
	}
}

// drop has whoever uses the node next dial another connection.
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

// shared reports whether others than the caller use the connection.
func (c *connections) shared(n *connection) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return n.users > 1
}

// primary returns what tells one primary from another, which is nothing but for sentinels.
func (c *connections) primary() string {
	if c.client.Mode() != rueidis.ClientModeSentinel {
		return ""
	}
	return strings.Join(slices.Sorted(maps.Keys(c.client.Nodes())), " ")
}

// changed takes what the server says of a subscription. It ends one whose slot has moved.
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

// follow returns what receives when the server ends the subscription to a channel. It is called
// before the subscription.
func (n *connection) follow(channel string) <-chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	ended := make(chan struct{}, 1)
	n.ended[channel] = ended
	return ended
}

// forget ends what follow has begun.
func (n *connection) forget(channel string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.ended, channel)
}
