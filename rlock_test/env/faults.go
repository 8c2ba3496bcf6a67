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

// DropReply lets the server run one request without a reply to the client. The first request chunk that
// satisfies match is the last that its connection forwards. When the server has answered, the proxy drops the
// reply and closes the client's connection. Later chunks pass, even the same request sent again. Each call
// drops one reply. match must not call the proxy.
func (p *Proxy) DropReply(match func(request []byte) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drops = append(p.drops, match)
}

// Dropped returns how many replies DropReply has dropped so far. When a client sees that its connection is
// closed, Dropped has counted its reply.
func (p *Proxy) Dropped() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.dropped
}

// Hold keeps each request chunk that satisfies match from the server, until the test calls release. It also
// keeps everything that follows on the same connection. After release, the chunks go on even if their client
// has closed the connection meanwhile, like a request that the network has delayed. The test may call release
// again. match must not call the proxy.
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

// Held returns how many request chunks Hold has held so far, including the released chunks.
func (p *Proxy) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

// Delay makes everything that the proxy receives from now on arrive d later, in either direction. A round
// trip takes 2*d longer. The proxy keeps the order. Any number of requests can be on their way at once.
func (p *Proxy) Delay(d time.Duration) { p.delay.Store(int64(d)) }

// BlackHole drops everything in both directions, from on until off, and closes no connection. If a peer
// closes a connection meanwhile, the connection looks open to the other peer. The proxy accepts new
// connections.
//
// When the black hole ends, the proxy closes the connections that have lost data, because a stream with a gap
// would pair requests with wrong replies. The other connections work again.
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

// Forget drops everything on the existing connections, for good and in both directions. It closes none of
// them, like a router that has forgotten them. New connections work.
func (p *Proxy) Forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for l := range p.links {
		l.lost = true
	}
}

// Cut closes all connections of the proxy at once, and drops the data in them. The proxy accepts new
// connections.
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
