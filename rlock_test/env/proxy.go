package env

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
)

// Proxy is a TCP proxy in front of a server. It passes bytes on unchanged until a test asks for a fault. A
// fault applies to all present and future connections, and several faults may be active at once. A request
// chunk is the result of one read from a client: usually one request, or several pipelined requests. Several
// goroutines may call all methods at once.
type Proxy struct {
	target   string
	listener net.Listener
	dialing  context.Context
	running  sync.WaitGroup
	delay    atomic.Int64

	mu      sync.Mutex
	closed  bool
	links   map[*link]struct{}
	drops   []func([]byte) bool
	holds   []*hold
	black   bool
	dropped int
	held    int
}

// NewProxy starts a proxy in front of the address target. For each connection of a client, the proxy opens a
// connection to the target. If that fails, the proxy closes the client's connection. The cleanup of tb closes
// all connections and stops the proxy.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp4", address(0))
	if err != nil {
		tb.Fatalf("proxy of %s: %v", target, err)
	}
	// The cleanup functions of a test may still connect after the test's context has ended.
	dialing, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	p := &Proxy{target: target, listener: listener, dialing: dialing, links: make(map[*link]struct{})}
	p.running.Go(p.accept)
	tb.Cleanup(func() {
		cancel()
		p.close()
	})
	return p
}

// Addr returns the address of the proxy, "127.0.0.1:port".
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

func (p *Proxy) accept() {
	for {
		conn, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(conn.(*net.TCPConn)) })
	}
}

func (p *Proxy) serve(client *net.TCPConn) {
	var dialer net.Dialer
	server, err := dialer.DialContext(p.dialing, "tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	l := newLink(p, client, server.(*net.TCPConn))
	p.add(l)
	l.run()
	p.remove(l)
}

// add closes a link that comes too late for close to see it.
func (p *Proxy) add(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		l.close()
	}
	p.links[l] = struct{}{}
}

// Connections returns how many connections of clients are open.
func (p *Proxy) Connections() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.links)
}

func (p *Proxy) remove(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Cut()
	p.running.Wait()
}
