package rlocktest

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2/server"
)

// network is between the clients and the server. Each connection has a front of its own, so the server knows
// whose command it runs.
type network struct {
	addr  string
	serve func(w *wire, p *server.Peer, argv []string)

	running sync.WaitGroup

	mu       sync.Mutex
	listener net.Listener // nil: the server is stopped, or in memory
	down     bool         // no client can connect
	wires    map[*wire]struct{}
	silences int // the network is silent while this is above 0
	delay    time.Duration
}

// inMemory is the address of a server without a listener.
const inMemory = "in-memory"

func newNetwork(memory bool, serve func(w *wire, p *server.Peer, argv []string)) (*network, error) {
	n := &network{addr: inMemory, serve: serve, wires: map[*wire]struct{}{}}
	if memory {
		return n, nil
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("rlocktest: %w", err)
	}
	n.addr = listener.Addr().String()
	n.open(listener)
	return n, nil
}

// start lets clients connect again after stop. A connection of another program may use the port for a moment.
func (n *network) start() error {
	if n.addr == inMemory {
		n.open(nil)
		return nil
	}
	for end := time.Now().Add(2 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		listener, err := net.Listen("tcp", n.addr)
		switch {
		case err == nil:
			n.open(listener)
			return nil
		case time.Now().After(end):
			return fmt.Errorf("rlocktest: %w", err)
		}
	}
}

// open lets clients connect, through the listener if there is one.
func (n *network) open(listener net.Listener) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.listener, n.down = listener, false
	if listener == nil {
		return
	}
	n.running.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			_ = n.connect(conn) // a client that comes too late sees a closed connection
		}
	})
}

// dial connects a client of the same process.
func (n *network) dial(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
	client, conn := net.Pipe()
	if err := n.connect(conn); err != nil {
		return nil, err
	}
	return client, nil
}

// connect serves a connection, or closes it.
func (n *network) connect(conn net.Conn) error {
	w := &wire{Conn: conn, network: n, arrived: make(chan chunk, 1024), done: make(chan struct{})}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down {
		_ = conn.Close()
		return &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	}
	n.wires[w] = struct{}{}
	front := server.NewServerConn()
	front.SetPreHook(func(p *server.Peer, cmd string, args ...string) bool {
		n.serve(w, p, append([]string{cmd}, args...))
		return true
	})
	n.running.Go(w.receive)
	n.running.Go(func() {
		front.ServeConn(w)
		<-w.done
		front.Close()
	})
	return nil
}

// stop closes the listener and all connections.
func (n *network) stop() {
	n.mu.Lock()
	n.down = true
	if n.listener != nil {
		_ = n.listener.Close()
		n.listener = nil
	}
	n.mu.Unlock()
	n.cut(func(*wire) bool { return true })
}

// cut closes connections.
func (n *network) cut(which func(*wire) bool) {
	n.mu.Lock()
	var cut []*wire
	for w := range n.wires {
		if which(w) {
			cut = append(cut, w)
		}
	}
	n.mu.Unlock()
	for _, w := range cut {
		_ = w.Close()
	}
}

// swallows reports whether the network is silent now, and notes the loss for the connection.
func (n *network) swallows(w *wire) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	w.lost = w.lost || n.silences > 0
	return w.lost
}

// due returns when data that comes now arrives.
func (n *network) due() time.Time {
	n.mu.Lock()
	defer n.mu.Unlock()
	return time.Now().Add(n.delay)
}

// chunk is the result of one read from a client.
type chunk struct {
	data []byte
	due  time.Time
}

// wire is the server's end of a connection.
type wire struct {
	net.Conn
	network *network
	arrived chan chunk
	rest    []byte // the unread rest of the present chunk
	closing sync.Once
	done    chan struct{}

	lost bool // the stream has a gap; guarded by the network's mu

	mu       sync.Mutex
	withhold bool
	withheld []byte
}

// receive reads from the client as fast as the client sends.
func (w *wire) receive() {
	defer close(w.arrived)
	buf := make([]byte, 1<<14)
	for {
		n, err := w.Conn.Read(buf)
		if n > 0 {
			select {
			case w.arrived <- chunk{append([]byte(nil), buf[:n]...), w.network.due()}:
			case <-w.done:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (w *wire) Read(p []byte) (int, error) {
	for len(w.rest) == 0 {
		c, ok := <-w.arrived
		if !ok {
			return 0, io.EOF
		}
		if !w.wait(time.Until(c.due)) {
			return 0, net.ErrClosed
		}
		if !w.network.swallows(w) {
			w.rest = c.data
		}
	}
	n := copy(p, w.rest)
	w.rest = w.rest[n:]
	return n, nil
}

// wait returns false if the connection closes meanwhile.
func (w *wire) wait(d time.Duration) bool {
	if d <= 0 {
		return true
	}
	select {
	case <-time.After(d):
		return true
	case <-w.done:
		return false
	}
}

func (w *wire) Write(p []byte) (int, error) {
	w.mu.Lock()
	if w.withhold {
		w.withheld = append(w.withheld, p...)
		w.mu.Unlock()
		return len(p), nil
	}
	w.mu.Unlock()
	if w.network.swallows(w) {
		return len(p), nil
	}
	return w.Conn.Write(p)
}

// keep withholds all writes from now on.
func (w *wire) keep() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.withhold = true
}

// kept returns the withheld writes, and lets later writes through.
func (w *wire) kept() []byte {
	w.mu.Lock()
	defer w.mu.Unlock()
	kept := w.withheld
	w.withhold, w.withheld = false, nil
	return kept
}

// The front calls Close too.
func (w *wire) Close() error {
	err := net.ErrClosed
	w.closing.Do(func() {
		close(w.done)
		err = w.Conn.Close()
		w.network.mu.Lock()
		defer w.network.mu.Unlock()
		delete(w.network.wires, w)
	})
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
