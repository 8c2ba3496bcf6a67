package env

import (
	"bytes"
	"net"
	"sync"
	"time"
)

const (
	chunkSize  = 64 << 10
	queueDepth = 1024
)

// chunk is the result of one read. With nil data, it is the end of a direction. The end travels like data. So
// a request that is on its way still arrives when its client gives up.
type chunk struct {
	data []byte
	due  time.Time
}

// link is one connection through the proxy. Each direction has a reader and a deliverer with a queue between
// them, so a delay costs only latency.
type link struct {
	proxy  *Proxy
	client *net.TCPConn
	server *net.TCPConn

	done  chan struct{}
	close func()

	// lost reports that a black hole has dropped a part of the stream. The proxy's mutex guards lost.
	lost bool

	dropMu   sync.Mutex
	dropping bool
	dropped  bool
}

func newLink(p *Proxy, client, server *net.TCPConn) *link {
	l := &link{proxy: p, client: client, server: server, done: make(chan struct{})}
	l.close = sync.OnceFunc(func() {
		close(l.done)
		_ = client.Close()
		_ = server.Close()
	})
	return l
}

func (l *link) run() {
	requests, replies := make(chan chunk, queueDepth), make(chan chunk, queueDepth)
	var running sync.WaitGroup
	running.Go(func() { l.read(l.client, requests, func() bool { return true }) })
	running.Go(func() { l.deliver(requests, l.deliverRequest) })
	running.Go(func() { l.read(l.server, replies, l.keepReply) })
	running.Go(func() { l.deliver(replies, l.deliverReply) })
	running.Wait()
}

func (l *link) read(from *net.TCPConn, queue chan<- chunk, keep func() bool) {
	buf := make([]byte, chunkSize)
	for {
		n, err := from.Read(buf)
		if n > 0 && keep() {
			l.enqueue(queue, bytes.Clone(buf[:n]))
		}
		if err != nil {
			l.enqueue(queue, nil)
			return
		}
	}
}

func (l *link) enqueue(queue chan<- chunk, data []byte) {
	due := time.Now().Add(time.Duration(l.proxy.delay.Load()))
	select {
	case queue <- chunk{data, due}:
	case <-l.done:
	}
}

// deliver ends with the link, or when pass reports the end of its direction.
func (l *link) deliver(queue <-chan chunk, pass func([]byte) bool) {
	for {
		select {
		case c := <-queue:
			if !l.sleepUntil(c.due) || !pass(c.data) {
				return
			}
		case <-l.done:
			return
		}
	}
}

func (l *link) sleepUntil(due time.Time) bool {
	select {
	case <-time.After(time.Until(due)):
		return true
	case <-l.done:
		return false
	}
}

// deliverRequest leaves a failed write to the other direction. The other direction sees the end of the
// connection after everything that the peer has sent.
func (l *link) deliverRequest(data []byte) bool {
	if !l.passHolds(data) {
		return false
	}
	if l.proxy.swallows(l) {
		return true
	}
	if data == nil {
		_ = l.server.CloseWrite()
		return false
	}
	if l.proxy.takesDrop(data) {
		l.forwardLast(data)
		return false
	}
	_, _ = l.server.Write(data)
	return true
}

func (l *link) deliverReply(data []byte) bool {
	if l.proxy.swallows(l) {
		return true
	}
	if data == nil {
		l.close()
		return false
	}
	_, _ = l.client.Write(data)
	return true
}

func (l *link) passHolds(data []byte) bool {
	for _, h := range l.proxy.holdsOn(data) {
		select {
		case <-h.released:
		case <-l.done:
			return false
		}
	}
	return true
}

// forwardLast locks keepReply out, because keepReply must not end the stream to the server before the request
// is in the stream.
func (l *link) forwardLast(data []byte) {
	l.dropMu.Lock()
	defer l.dropMu.Unlock()
	l.dropping = true
	_, _ = l.server.Write(data)
}

// keepReply ends the stream to the server with the first reply that it drops. The server then runs what it
// has received, and closes the connection. keepReply does not close the connection at once. The first reply
// may belong to an earlier request of the connection. A close could then keep the server from running the
// request that must lose its reply.
func (l *link) keepReply() bool {
	l.dropMu.Lock()
	defer l.dropMu.Unlock()
	if !l.dropping {
		return true
	}
	if !l.dropped {
		l.dropped = true
		l.proxy.countDropped()
		_ = l.server.CloseWrite()
	}
	return false
}
