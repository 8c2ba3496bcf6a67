package env

import (
	"slices"
	"sync"
	"time"
)

type hold struct {
	match    func([]byte) bool
	released chan struct{}
}

// DropReply makes one request run without its client learning about it: the
// first request chunk that satisfies match is the last that its connection
// forwards, the reply is dropped, and the client's connection closes once the
// server has answered. Later chunks, the same request sent again included,
// pass. Each call drops one reply. match must not call the proxy.
func (p *Proxy) DropReply(match func(request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drops = append(p.drops, match)
}

// Dropped returns how many replies DropReply has dropped so far. A client
// that sees its connection closed finds its reply counted.
func (p *Proxy) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// Hold keeps each request chunk that satisfies match from the server, and
// with it whatever follows on the same connection, until release is called.
// The chunks then go on even when their client has closed the connection in
// the meantime, like a request that the network has delayed. release may be
// called again. match must not call the proxy.
func (p *Proxy) Hold(match func(request []byte) bool) (release func()) {
	h := &hold{match: match, released: make(chan struct{})}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holds = append(p.holds, h)
	return sync.OnceFunc(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.holds = slices.DeleteFunc(p.holds, func(other *hold) bool { return other == h })
		close(h.released)
	})
}

// Held returns how many request chunks Hold has held so far, the released
// ones included.
func (p *Proxy) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// Delay makes everything that the proxy receives from now on arrive d later,
// in either direction: a round trip takes 2*d longer. Order is kept, and any
// number of requests can be on their way at once.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// BlackHole swallows everything in both directions, from on until off, and
// closes no connection; a connection that a peer closes meanwhile looks open
// to the other. New connections are accepted. When it ends, connections that
// have lost something are closed, because a stream with a gap would pair
// requests with the replies of others; the rest work again.
func (p *Proxy) BlackHole(on bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.black = on
	if on {
		return
	}
	for l := range p.links {
		if l.lost {
			l.close()
		}
	}
}

// Forget swallows everything on the connections that there are, for good and in both directions, and
// closes none of them: what is between client and server has forgotten them. New ones work.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.lost = true
	}
}

// Cut closes all connections of the proxy at once, with whatever is held or
// on its way in them. New connections are accepted.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.close()
	}
}

func (p *Proxy) swallows(l *link) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	l.lost = l.lost || p.black
	return l.lost
}

func (p *Proxy) takesDrop(request []byte) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.drops, func(match func([]byte) bool) bool { return match(request) })
	if i < 0 {
		return false
	}
	p.drops = slices.Delete(p.drops, i, i+1)
	return true
}

func (p *Proxy) countDropped() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped++
}

func (p *Proxy) holdsOn(request []byte) []*hold {
	p.mu.Lock()
	defer p.mu.Unlock()
	var holds []*hold
	for _, h := range p.holds {
		if request != nil && h.match(request) {
			holds = append(holds, h)
		}
	}
	if len(holds) > 0 {
		p.held++
	}
	return holds
}
