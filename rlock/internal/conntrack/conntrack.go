// Package conntrack closes every connection that a rueidis client has dialled, those too
// that the client has forgotten, and those on which the server says nothing until the call
// that has dialled is given up.
//
// A rueidis client forgets connections that it is dialling while it is closed: in
// clusterClient.init, when it gives up starting with the first address, for instance,
// and in mux._pipe, which stores what it dialled over the mark of the end. They would
// stay open, pinged every second, until the process ends.
//
// It waits for the first answer of a server until Dialer.Timeout, and does not heed meanwhile
// that the context of the call is cancelled (_newPipe).
//
// If code of the user's panics or ends its goroutine while the client dials, such as a method of the context,
// all who need that connection would wait for ever (mux._pipe). The client is told of an error in place of
// that.
//
// It never knows what is sent on a connection, nor who uses the client.
package conntrack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Tracker has the connections that one client has dialled and not closed yet.
type Tracker struct {
	closing context.Context // ends when no connection may come any more
	stop    context.CancelFunc

	mu   sync.Mutex
	open map[*connection]struct{}
	none chan struct{} // closed when none is open and none may come
}

type connection struct {
	net.Conn
	tracker *Tracker
	silent  atomic.Bool // the server has said nothing so far
	keep    func() bool // from then on the end of the call that has dialled does not close it
}

// New returns a Tracker for one client.
func New() *Tracker {
	t := &Tracker{open: make(map[*connection]struct{}), none: make(chan struct{})}
	t.closing, t.stop = context.WithCancel(context.Background())
	return t
}

// Wrap returns the option with which to build the client. The client dials as option says,
// and the Tracker knows of it.
func (t *Tracker) Wrap(option rueidis.ClientOption) rueidis.ClientOption {
	dial := dialerOf(option)
	nagle := option.DisableTCPNoDelay
	option.DialFn, option.DisableTCPNoDelay = nil, false
	option.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, security *tls.Config) (net.Conn, error) {
		if t.closing.Err() != nil {
			return nil, rueidis.ErrClosing
		}
		return guarded(func(keep func(net.Conn)) (net.Conn, error) {
			call := ctx
			ctx, end := clock.EndsWith(ctx, t.closing)
			defer end()
			conn, err := dial(ctx, address, dialer, security)
			if t.closing.Err() != nil && err != nil {
				err = rueidis.ErrClosing // the client must not dial again
			}
			if err != nil {
				return nil, err
			}
			keep(conn)
			if nagle {
				disableNoDelay(conn)
			}
			clock.Use(call) // as the client is about to
			return t.add(call, conn)
		})
	}
	return option
}

// guarded calls dial in a goroutine of its own, and returns an error if code of the user's ends that. What
// dial has told keep of is closed then.
func guarded(dial func(keep func(net.Conn)) (net.Conn, error)) (conn net.Conn, err error) {
	var open net.Conn
	returned, done := false, make(chan struct{})
	go func() {
		defer close(done)
		defer func() {
			if returned {
				return
			}
			conn, err = nil, errInterrupted
			if cause := recover(); cause != nil {
				err = fmt.Errorf("%w: %v", errInterrupted, cause)
			}
			if open != nil {
				_ = open.Close()
			}
		}()
		conn, err = dial(func(c net.Conn) { open = c })
		returned = true
	}()
	<-done
	return conn, err
}

var errInterrupted = errors.New("rlock: a panic or runtime.Goexit in the context or in the dial function " +
	"has kept the client from connecting")

type dialFunc = func(ctx context.Context, address string, dialer *net.Dialer, security *tls.Config) (net.Conn, error)

// dialerOf returns how rueidis would dial with the option.
func dialerOf(option rueidis.ClientOption) dialFunc {
	switch {
	case option.DialCtxFn != nil:
		return option.DialCtxFn
	case option.DialFn != nil:
		return func(_ context.Context, address string, dialer *net.Dialer, security *tls.Config) (net.Conn, error) {
			return option.DialFn(address, dialer, security)
		}
	}
	return func(ctx context.Context, address string, dialer *net.Dialer, security *tls.Config) (net.Conn, error) {
		if security != nil {
			return (&tls.Dialer{NetDialer: dialer, Config: security}).DialContext(ctx, "tcp", address)
		}
		return dialer.DialContext(ctx, "tcp", address)
	}
}

// disableNoDelay does what DisableTCPNoDelay asks for, because rueidis cannot: it does not
// see the TCP connection inside a tracked one.
func disableNoDelay(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(false) // without it the connection works too
	}
}

// add makes conn one of the Tracker's. It is closed if ctx ends before the server has said anything.
func (t *Tracker) add(ctx context.Context, conn net.Conn) (net.Conn, error) {
	one := &connection{Conn: conn, tracker: t}
	one.silent.Store(true)
	one.keep = context.AfterFunc(ctx, func() { _ = one.drop() }) // the call returns the error of its context
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing.Err() != nil {
		one.keep()
		_ = conn.Close() // nothing was said on it
		return nil, rueidis.ErrClosing
	}
	t.open[one] = struct{}{}
	return one, nil
}

// Read is that of the connection. If the context ends in the moment of the first answer, the client has to dial
// again.
func (c *connection) Read(b []byte) (n int, err error) {
	n, err = c.Conn.Read(b)
	if n > 0 && c.silent.Load() {
		c.silent.Store(false)
		c.keep()
	}
	return n, err
}

// Close is called by rueidis, more than once too.
func (c *connection) Close() error {
	c.keep()
	return c.drop()
}

// drop is Close by the end of the call that has dialled, which may come before add has returned.
func (c *connection) drop() error {
	err := c.Conn.Close()
	c.tracker.remove(c)
	return err
}

func (t *Tracker) remove(one *connection) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, ok := t.open[one]; !ok {
		return
	}
	delete(t.open, one)
	if len(t.open) == 0 && t.closing.Err() != nil {
		close(t.none)
	}
}

// Close closes the client and all its connections, and refuses those that still come. It
// waits up to limit for the client, because there may be replies to wait for, and because
// the client of a cluster closes its connections in the background. Then it closes what
// is left, and waits up to limit once more if the client's Close has not returned.
func (t *Tracker) Close(client interface{ Close() }, limit time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	returned := make(chan struct{})
	go func() {
		defer close(returned)
		client.Close()
	}()
	t.refuse()
	for _, step := range []<-chan struct{}{returned, t.none} {
		select {
		case <-step:
		case <-ctx.Done():
		}
	}
	t.closeAll()
	select {
	case <-returned:
	case <-time.After(limit): // its owner's way of dialling does not heed its context
	}
}

// Abort closes all connections of a client that could not be built, and refuses those that
// still come.
func (t *Tracker) Abort() {
	t.refuse()
	t.closeAll()
}

// refuse lets no connection come any more.
func (t *Tracker) refuse() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closing.Err() != nil {
		return
	}
	t.stop()
	if len(t.open) == 0 {
		close(t.none)
	}
}

// closeAll closes what is open.
func (t *Tracker) closeAll() {
	t.mu.Lock()
	left := slices.Collect(maps.Keys(t.open))
	t.mu.Unlock()
	for _, one := range left {
		_ = one.Close() // nobody uses it
	}
}
