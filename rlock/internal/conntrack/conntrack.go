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
	closing  context.Context // ends when no connection may come any more
	stop     context.CancelFunc
	underway atomic.Int64 // dials, and connections on which the server has said nothing
	failed   atomic.Int64 // dials that have, since the last one that has not
	unwell   atomic.Int64 // until then one of them is news; 0: there is none
	waited   func() bool  // whether calls that heed no context may wait for a dial

	most atomic.Int64 // connections that one address has, on which the server has said something

	mu   sync.Mutex
	open map[*connection]struct{}
	up   map[string]int64 // those connections of each address
	none chan struct{}    // closed when none is open and none may come
}

type connection struct {
	net.Conn
	tracker *Tracker
	address string
	silent  atomic.Bool // the server has said nothing so far
	up      bool        // and then that it said something; under mu of tracker
	keep    func()      // from then on neither the end of the call that has dialled nor time closes it
}

// New returns a Tracker for one client. waited reports whether a dial that has just begun may keep calls
// waiting that heed no context.
func New(waited func() bool) *Tracker {
	t := &Tracker{
		waited: waited, open: make(map[*connection]struct{}), up: make(map[string]int64), none: make(chan struct{}),
	}
	t.closing, t.stop = context.WithCancel(context.Background())
	return t
}

// Wrap returns the option with which to build the client. The client dials as option says,
// and the Tracker knows of it.
func (t *Tracker) Wrap(option rueidis.ClientOption) rueidis.ClientOption {
	dial := dialerOf(option)
	nagle := option.DisableTCPNoDelay
	option.DialFn, option.DisableTCPNoDelay = nil, false
	option.DialCtxFn = func(ctx context.Context, address string, dialer *net.Dialer,
		security *tls.Config) (net.Conn, error) {
		if t.closing.Err() != nil {
			return nil, rueidis.ErrClosing
		}
		t.underway.Add(1)
		limit := t.limit(dialer)
		return guarded(func(keep func(net.Conn)) (conn net.Conn, err error) {
			silent := false // on the connection, which ends the dial then
			defer func() {
				if !silent {
					t.ended(false)
				}
			}()
			call := ctx
			ctx, end := clock.EndsWith(ctx, t.closing)
			defer end()
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			conn, err = dial(ctx, address, dialer, security)
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
			conn, err = t.add(call, conn, address, limit)
			silent = err == nil
			return conn, err
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

type dialFunc = func(ctx context.Context, address string, dialer *net.Dialer, security *tls.Config) (net.Conn,
	error)

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
	return func(ctx context.Context, address string, dialer *net.Dialer, security *tls.Config) (net.Conn,
		error) {
		if security != nil {
			return (&tls.Dialer{NetDialer: dialer, Config: security}).DialContext(ctx, "tcp", address)
		}
		return dialer.DialContext(ctx, "tcp", address)
	}
}

// hurry is for the first dial that calls wait for which heed no context: those that were under way when
// their connection was lost. It is long enough for most networks, and for a busy machine: with 100 ms,
// eleven tests at load 12 had connections that were closed before they were up. If it is too short, each
// further dial may take twice as long, so that such calls do not keep a connection from ever coming up.
const hurry = 700 * time.Millisecond

// limit is how long a dial may take until the server has said something. The context of a call may last for
// longer, or not end at all.
func (t *Tracker) limit(dialer *net.Dialer) time.Duration {
	whole := dialer.Timeout
	if whole <= 0 {
		whole = rueidis.DefaultDialTimeout
	}
	if !t.waited() {
		return whole
	}
	return min(hurry<<min(t.failed.Load(), 10), whole)
}

// ended notes that a dial has ended.
func (t *Tracker) ended(well bool) {
	t.underway.Add(-1)
	if well {
		t.failed.Store(0)
		t.unwell.Store(0)
	} else {
		t.failed.Add(1)
		t.unwell.Store(int64(clock.Now().After(rueidis.DefaultDialTimeout)))
	}
}

// Serves reports whether one address has so many connections, and none is dialled for which calls may wait. A
// client that has just failed to connect dials again with the next call.
func (t *Tracker) Serves(connections int64) bool {
	if t.most.Load() < connections || t.underway.Load() > 0 {
		return false
	}
	until := t.unwell.Load()
	if until != 0 && clock.Now() < clock.Instant(until) {
		return false
	}
	t.unwell.CompareAndSwap(until, 0)
	return true
}

// count notes that a connection has been answered, or has ended. The caller holds mu.
func (t *Tracker) count(one *connection, up bool) {
	if one.up == up {
		return
	}
	one.up = up
	if up {
		t.up[one.address]++
	} else if t.up[one.address]--; t.up[one.address] == 0 {
		delete(t.up, one.address)
	}
	most := int64(0)
	for _, n := range t.up {
		most = max(most, n)
	}
	t.most.Store(most)
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

// add makes conn one of the Tracker's. It is closed if ctx ends or limit is over before the server has said
// anything.
func (t *Tracker) add(
	ctx context.Context, conn net.Conn, address string, limit time.Duration,
) (net.Conn, error) {
	one := &connection{Conn: conn, tracker: t, address: address}
	one.silent.Store(true)
	call := context.AfterFunc(ctx, func() { _ = one.drop() }) // first, as the context may panic
	late := time.AfterFunc(limit, func() { _ = one.drop() })
	one.keep = func() { late.Stop(); call() }
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
		c.answered()
		c.keep()
	}
	return n, err
}

// answered ends the dial.
func (c *connection) answered() {
	t := c.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, open := t.open[c]; open && c.silent.CompareAndSwap(true, false) {
		t.count(c, true)
		t.ended(true)
	}
}

// Close is called by rueidis, more than once too.
func (c *connection) Close() (err error) {
	defer func() { err = c.drop() }() // also if the context panics
	c.keep()
	return nil
}

// drop is Close by the end of the call that has dialled, which may come before add has returned.
func (c *connection) drop() error {
	err := c.Conn.Close()
	if c.silent.CompareAndSwap(true, false) {
		c.tracker.ended(false)
	}
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
	t.count(one, false)
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
