package notify

import (
	"context"
	"hash/maphash"
	"sync"

	"github.com/redis/rueidis"
)

// Grants hears, on a connection of its own, of what the server grants to one process.
//
// A message does not say who has sent it: whatever has the form of a grant is taken for one. So
// only the process and those who may grant should have the right to publish on its channel.
// Anybody else with that right who knows a token that is expected, as whoever may read the queues
// does, can send a false grant: the process then counts a key as held that it does not have. With
// a token that was given up, a false grant has stray called. With any other token, messages cost
// the process time, and nothing else.
type Grants struct {
	subscription
	seed   maphash.Seed
	shards [16]expecting

	stray   func(Grant)
	mu      sync.Mutex
	strays  []Grant // for which stray is still to be called
	telling bool    // a goroutine calls it

	abandoned abandoned
}

// expecting are some of the tokens that are expected.
type expecting struct {
	mu     sync.Mutex
	tokens map[string]*Expected
}

// maxStrays is how many strays may wait for their call. It is more than a process expects,
// and keeps what a stranger publishes from using up its memory. A stray without a call
// costs the lease that the server has granted.
const maxStrays = 1 << 17

// NewGrants returns Grants for the client; channel is what the process is told on. stray is
// called, one call at a time and on no goroutine of the client's, with each grant of a token that
// was given up. Nothing is sent before the first Listen. Grants end with background, as by Close.
func NewGrants(background context.Context, client rueidis.Client, channel string, stray func(Grant)) *Grants {
	g := &Grants{seed: maphash.MakeSeed(), stray: stray}
	for i := range g.shards {
		g.shards[i].tokens = map[string]*Expected{}
	}
	g.subscription.begin(background, client, channel, g.hear, g.wakeAll)
	return g
}

// Close ends the subscription, as that of subscription does, and forgets the tokens that were given
// up.
func (g *Grants) Close() {
	g.subscription.Close()
	g.abandoned.end()
}

func (g *Grants) shard(token string) *expecting {
	return &g.shards[maphash.String(g.seed, token)%uint64(len(g.shards))]
}

// hear takes a message. It runs on the goroutine that reads the connection, so it does not block.
func (g *Grants) hear(message string) {
	grant, ok := readGrant(message)
	if !ok {
		return
	}
	s := g.shard(grant.Token)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := s.tokens[grant.Token]; {
	case e == nil: // it is held, or was: the holder has learned of the grant by an answer
	case e.abandoned:
		g.report(grant)
	default:
		e.grant, e.granted = grant, true
		e.signal()
	}
}

// wakeAll tells all who expect a grant that the process listens again.
func (g *Grants) wakeAll() {
	for i := range g.shards {
		s := &g.shards[i]
		s.mu.Lock()
		for _, e := range s.tokens {
			e.signal()
		}
		s.mu.Unlock()
	}
}

// report has stray called.
func (g *Grants) report(stray Grant) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if len(g.strays) == maxStrays {
		return
	}
	g.strays = append(g.strays, stray)
	if !g.telling {
		g.telling = true
		go g.tell()
	}
}

// tell calls stray until there is none left.
func (g *Grants) tell() {
	for {
		g.mu.Lock()
		strays := g.strays
		g.strays = nil
		g.telling = len(strays) > 0
		g.mu.Unlock()
		if len(strays) == 0 {
			return
		}
		for _, grant := range strays {
			g.stray(grant)
		}
	}
}

// Expected is a token of which a grant is expected. One goroutine at a time may use it.
type Expected struct {
	grants *Grants
	token  string
	wake   chan struct{}

	// Guarded by the shard.
	grant     Grant
	granted   bool
	abandoned bool
}

// Expect has a grant of token kept for the caller until Forget or Abandon. It is called before the
// request is sent that may be granted. No two callers expect the same token.
func (g *Grants) Expect(token string) *Expected {
	e := &Expected{grants: g, token: token, wake: make(chan struct{}, 1)}
	s := g.shard(token)
	s.mu.Lock()
	s.tokens[token] = e
	s.mu.Unlock()
	return e
}

// signal lets Wake receive.
func (e *Expected) signal() {
	select {
	case e.wake <- struct{}{}:
	default: // there is something to receive already
	}
}

// Wake receives when Take may have a grant, and when the process listens again after a time in
// which the message of a grant would have been lost: the server then knows whether there was one.
// Its capacity is 1.
func (e *Expected) Wake() <-chan struct{} { return e.wake }

// Take returns the last grant that has come, once. It is there before Wake receives.
func (e *Expected) Take() (Grant, bool) {
	s := e.grants.shard(e.token)
	s.mu.Lock()
	defer s.mu.Unlock()
	grant, granted := e.grant, e.granted
	e.grant, e.granted = Grant{}, false
	return grant, granted
}

// Forget ends what Expect has begun, because the token has what was asked for. A grant that comes
// later, or was not taken, is ignored: it says what the caller has learned by an answer. To take
// it for a stray would free what the caller has. Forget may be called again.
func (e *Expected) Forget() {
	s := e.grants.shard(e.token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens[e.token] == e {
		delete(s.tokens, e.token)
	}
	e.grant, e.granted = Grant{}, false
}

// Abandon ends what Expect has begun, because the token has been given up. A grant that was not
// taken, or that comes within a minute, is a stray. After that, no command can be late any more.
func (e *Expected) Abandon() {
	s := e.grants.shard(e.token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens[e.token] != e || e.abandoned {
		return
	}
	e.abandoned = true
	if e.granted {
		e.grants.report(e.grant)
		e.grant, e.granted = Grant{}, false
	}
	if !e.grants.abandoned.add(e) {
		delete(s.tokens, e.token)
	}
}
