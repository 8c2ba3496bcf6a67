package rlock

import (
	"context"
	"crypto/tls"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// connections are those that a client of Open has dialled and not closed yet.
//
// A rueidis client forgets connections that it is dialling while it is closed: in
// clusterClient.init, when it gives up starting with the first address, for instance,
// and in mux._pipe, which stores what it dialled over the mark of the end. They would
// stay open, pinged every second, until the process ends.
type connections struct {
	dialling context.Context // ends when the client is closed
	stop     context.CancelFunc

	mu    sync.Mutex
	open  map[*connection]struct{}
	ended bool
	none  chan struct{} // closed when ended, and none is open
}

type connection struct {
	net.Conn
	all *connections
}

func newConnections() *connections {
	c := &connections{open: make(map[*connection]struct{}), none: make(chan struct{})}
	c.dialling, c.stop = context.WithCancel(context.Background())
	return c
}

// through has a client dial as option says, and these connections know of it.
func (c *connections) through(option rueidis.ClientOption) rueidis.ClientOption {
	dial := dialerOf(option)
	quiet := option.DisableTCPNoDelay
	option.DialFn, option.DisableTCPNoDelay = nil, false
	option.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer, security *tls.Config) (net.Conn, error) {
		if c.dialling.Err() != nil {
			return nil, rueidis.ErrClosing
		}
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.dialling, cancel)()
		conn, err := dial(ctx, address, dialer, security)
		if c.dialling.Err() != nil && err != nil {
			err = rueidis.ErrClosing // nothing to try again
		}
		if err != nil {
			return nil, err
		}
		if quiet {
			delay(conn)
		}
		return c.add(conn)
	}
	return option
}

type dialFunc = func(ctx context.Context, address string, dialer *net.Dialer, security *tls.Config) (net.Conn, error)

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

// delay does what DisableTCPNoDelay asks for, since rueidis does not see the
// connection itself any more.
func delay(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(false) // an option of speed
	}
}

func (c *connections) add(conn net.Conn) (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		_ = conn.Close() // nothing was said on it
		return nil, rueidis.ErrClosing
	}
	one := &connection{conn, c}
	c.open[one] = struct{}{}
	return one, nil
}

// Close is called by rueidis, more than once too.
func (one *connection) Close() error {
	err := one.Conn.Close()
	one.all.remove(one)
	return err
}

func (c *connections) remove(one *connection) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.open[one]; !ok {
		return
	}
	delete(c.open, one)
	if c.ended && len(c.open) == 0 {
		close(c.none)
	}
}

// close closes the client and all connections. It gives the client some time for its
// own way, since there may be replies to wait for, and a cluster's client closes its
// connections in the background. Then it closes what is left.
func (c *connections) close(client rueidis.Client, patience time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	told := make(chan struct{})
	go func() {
		defer close(told)
		client.Close()
	}()
	c.refuse()
	for _, step := range []<-chan struct{}{told, c.none} {
		select {
		case <-step:
		case <-ctx.Done():
		}
	}
	c.cut()
	select {
	case <-told:
	case <-time.After(patience): // its owner's way of dialling does not end
	}
}

// refuse has no connection come any more. It is called once.
func (c *connections) refuse() {
	c.mu.Lock()
	c.ended = true
	if len(c.open) == 0 {
		close(c.none)
	}
	c.mu.Unlock()
	c.stop()
}

// cut closes what is open.
func (c *connections) cut() {
	c.mu.Lock()
	left := slices.Collect(maps.Keys(c.open))
	c.mu.Unlock()
	for _, one := range left {
		_ = one.Close() // nobody uses it
	}
}
