// Package conntrack closes every connection that a rueidis client has dialled, even one that the client has
// forgotten. It also closes a connection whose server says nothing before the dialling call ends. It does
// not know what is sent on a connection, or who uses the client.
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

// Tracker has the connections that one client has dialled and not closed yet. It mends three faults of
// rueidis:
//
//   - A client that is closed while it dials forgets the connection. It does so in clusterClient.init, when
//     it gives up starting with the first address, and in mux._pipe. The connection would stay open, with a
//     ping every second, until the process ends.
//   - A client waits for the first answer of a server until Dialer.Timeout. Meanwhile it ignores that the
//     context of the call is cancelled (_newPipe).
//   - User code, for example a method of the context, may panic or end its goroutine while the client
//     dials. Then all calls that need that connection would wait forever (mux._pipe). The Tracker gives the
//     client an error instead.
type Tracker struct {
	closing  context.Context // ends when no connection may come any more
	stop     context.CancelFunc
	underway atomic.Int64 // dials, and connections whose server has said nothing
	failed   atomic.Int64 // dials that have failed since the last success
	unwell   atomic.Int64 // until when the last failure counts; 0: there is none
	waited   func() bool  // whether calls that ignore their context may wait for a dial

	most atomic.Int64 // connections of one address whose server has said something

	mu   sync.Mutex
	open map[*connection]struct{}
	up   map[string]int64 // the number of these connections, by address
	none chan struct{}    // closed when no connection is open and none may come
}

type connection struct {
	net.Conn
	tracker *Tracker
	address string
	silent  atomic.Bool // the server has said nothing so far
	up      bool        // the server has said something; under mu of tracker
	keep    func()      // after keep, neither the end of the dialling call nor time closes the connection
}

// New returns a Tracker for one client. waited reports whether a dial that has just begun may delay calls
// that ignore their context.
func New(waited func() bool) *Tracker {
	t := &Tracker{
		waited: waited, open: make(map[*connection]struct{}), up: make(map[string]int64), none: make(chan struct{}),
	}
	t.closing, t.stop = context.WithCancel(context.Background())
	return t
}

// Wrap returns the option with which to build the client. The client dials as option says, and the Tracker
// knows of its connections.
func (t *Tracker) Wrap(option rueidis.ClientOption) rueidis.ClientOption {
	dial := dialerOf(option)
	nagle := option.DisableTCPNoDelay
	option.DialFn, option.DisableTCPNoDelay = nil, false
	option.DialCtxFn = func(
		ctx context.Context, address string, dialer *net.Dialer, security *tls.Config,
	) (net.Conn, error) {
		if t.closing.Err() != nil {
			return nil, rueidis.ErrClosing
		}
		t.underway.Add(1)
		limit := t.limit(dialer)
		return guarded(func(keep func(net.Conn)) (conn net.Conn, err error) {
			silent := false // the server has said nothing yet, and the connection ends the dial later
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

// guarded calls dial in a goroutine of its own. If user code ends that goroutine, guarded returns an error,
// and closes the connection that dial has passed to keep.
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

type dialFunc = func(
	ctx context.Context, address string, dialer *net.Dialer, security *tls.Config,
) (net.Conn, error)

// dialerOf returns the function with which rueidis would dial by the option.
func dialerOf(option rueidis.ClientOption) dialFunc {
	switch {
	case option.DialCtxFn != nil:
		return option.DialCtxFn
	case option.DialFn != nil:
		return func(_ context.Context, address string, dialer *net.Dialer, security *tls.Config) (net.Conn, error) {
			return option.DialFn(address, dialer, security)
		}
	}
	return func(
		ctx context.Context, address string, dialer *net.Dialer, security *tls.Config,
	) (net.Conn, error) {
		if security != nil {
			return (&tls.Dialer{NetDialer: dialer, Config: security}).DialContext(ctx, "tcp", address)
		}
		return dialer.DialContext(ctx, "tcp", address)
	}
}

// hurry is for the first dial for which calls wait that ignore their context. These calls were under way
// when their connection was lost. hurry is long enough for most networks, and for a busy machine: with 100
// ms, eleven tests at load 12 had connections that were closed before they were up. If hurry is too short,
// each further dial may take twice as long. So these calls cannot stop a connection from ever coming up.
const hurry = 700 * time.Millisecond

// limit returns how long a dial may take until the server has said something. The context of a call may
// last longer, or may not end at all.
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

// Serves reports whether one address has at least that many connections, and the client does not dial. A
// client that has just failed to connect dials again with the next call, so Serves is false for a while.
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

// count notes that a connection has got its first answer, or has ended. The caller holds mu.
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

// disableNoDelay does what DisableTCPNoDelay asks for. rueidis cannot do it, because it does not see the
// TCP connection inside a tracked one.
func disableNoDelay(conn net.Conn) {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetNoDelay(false) // after an error the connection works too
	}
}

// add makes conn a connection of the Tracker. The Tracker closes conn if ctx ends, or limit is over, before
// the server has said anything.
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

// Read reads from the connection. If the context ends at the moment of the first answer, the client must
// dial again.
func (c *connection) Read(b []byte) (n int, err error) {
	n, err = c.Conn.Read(b)
	if n > 0 && c.silent.Load() {
		c.answered()
		c.keep()
	}
	return n, err
}

func (c *connection) answered() {
	t := c.tracker
	t.mu.Lock()
	defer t.mu.Unlock()
	if _, open := t.open[c]; open && c.silent.CompareAndSwap(true, false) {
		t.count(c, true)
		t.ended(true)
	}
}

// Close closes the connection. rueidis may call it more than once.
func (c *connection) Close() (err error) {
	defer func() { err = c.drop() }() // also if the context panics
	c.keep()
	return nil
}

// drop is Close for the end of the dialling call, which may come before add has returned.
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

// Close closes the client and all its connections, and refuses connections that still come. It waits for
// the client up to limit. There may be replies to wait for, and the client of a cluster closes its
// connections in the background. Then it closes what is left. If the client's Close has not returned, it
// waits up to limit once more.
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
	case <-time.After(limit): // the user's way of dialling ignores its context
	}
}

// Abort closes all connections of a client that could not be built, and refuses connections that still
// come.
func (t *Tracker) Abort() {
	t.refuse()
	t.closeAll()
}

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

func (t *Tracker) closeAll() {
	t.mu.Lock()
	left := slices.Collect(maps.Keys(t.open))
	t.mu.Unlock()
	for _, one := range left {
		_ = one.Close() // no caller uses it
	}
}
