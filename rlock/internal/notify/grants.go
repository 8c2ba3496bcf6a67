package notify

import (
	"context"
	"hash/maphash"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Grants hears, on connections of its own, of what the server grants to one process: on a cluster on a
// channel for each slot in which it waits, and otherwise on one.
//
// A message does not say who has sent it: whatever has the form of a grant is taken for one. So
// only the process and those who may grant should have the right to publish on its channel.
// Anybody else with that right who knows a token that is expected, as whoever may read the queues
// does, can send a false grant: the process then counts a key as held that it does not have. With
// a token that this process does not have, a false grant has stray called, which releases the key
// if the key has that token.
type Grants struct {
	connections connections
	stop        context.CancelFunc
	seed        maphash.Seed
	shards      [16]expecting

	name     func(key string) string // of the channel on which this process is told of grants of a key
	naming   sync.Mutex
	channels map[uint16]*Channel // by slot; 0 where there is no cluster

	stray   func(Grant)
	mu      sync.Mutex
	strays  []Grant // for which stray is still to be called
	telling bool    // a goroutine calls it

	live atomic.Int64 // how many tokens have what they waited for
}

// expecting are some of the tokens that this process has now: those that are expected, and those that have
// what they waited for, until Over. A grant of any other token is a stray.
type expecting struct {
	mu     sync.Mutex
	tokens map[string]*Expected
}

// served stands for all tokens that have what they waited for.
var served = &Expected{}

// maxStrays is how many strays may wait for their call. It is more than a process expects,
// and keeps what a stranger publishes from using up its memory. A stray without a call
// costs the lease that the server has granted.
const maxStrays = 1 << 17

// Channel is what this process is told of the grants of some keys on.
type Channel struct {
	subscription
	grants *Grants
}

// NewGrants returns Grants for the client; channel returns the name of the one on which the process is told
// of grants of a key, which on a cluster is in the key's slot, and otherwise the same for all. stray is
// called, one call at a time and on no goroutine of the client's, with each grant of a token that this
// process does not have now: one that was given up, or that was served and then released, as a replica that
// is promoted has places of the past. Nothing is sent before the first Listen. Grants end with background,
// as by Close.
func NewGrants(background context.Context, client rueidis.Client, channel func(key string) string,
	stray func(Grant)) *Grants {
	g := &Grants{seed: maphash.MakeSeed(), stray: stray, name: channel, channels: map[uint16]*Channel{}}
	for i := range g.shards {
		g.shards[i].tokens = map[string]*Expected{}
	}
	background, g.stop = context.WithCancel(background)
	g.connections = connections{
		background: background, client: client,
		cluster: client != nil && client.Mode() == rueidis.ClientModeCluster,
		keep:    keepUnused, hear: g.hear, open: map[string]*connection{},
	}
	return g
}

// Channel returns the one on which this process is told of grants of a key.
func (g *Grants) Channel(key string) *Channel {
	var slot uint16
	if g.connections.cluster {
		slot = redislua.Slot(key)
	}
	g.naming.Lock()
	defer g.naming.Unlock()
	c := g.channels[slot]
	if c == nil {
		c = &Channel{grants: g}
		c.begin(&g.connections, g.name(key), func() { g.wake(c) })
		g.channels[slot] = c
	}
	return c
}

// Close ends the subscriptions and their connections, and all calls of Listen. Nothing is heard any more. It
// returns when that is done, which takes a second if a server does not answer, and after longestClose at the
// latest. What the client dials just then is closed when it is there.
func (g *Grants) Close() {
	g.stop()
	g.naming.Lock()
	for _, c := range g.channels {
		c.change(stopped, clock.ErrStopped)
	}
	g.naming.Unlock()
	ended := make(chan struct{})
	go func() {
		g.connections.running.Wait()
		close(ended)
	}()
	_, _ = clock.Receive(context.Background(), ended, longestClose, nil)
}

// longestClose is longer than rueidis takes to close a connection, which is a second. It takes for ever if a
// ping of its own begins in the moment in which an idle connection is closed: nobody then reads the answer to
// the ping that Close sends.
const longestClose = 2 * time.Second

func (g *Grants) shard(token string) *expecting {
	return &g.shards[maphash.String(g.seed, token)%uint64(len(g.shards))]
}

// hear takes a message. It runs on the goroutine that reads the connection, so it does not block.
func (g *Grants) hear(message string) {
	if token, quiet := strings.CutPrefix(message, "beat "); quiet {
		g.look(token)
		return
	}
	grant, ok := readGrant(message)
	if !ok {
		return
	}
	s := g.shard(grant.Token)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch e := s.tokens[grant.Token]; {
	case e == nil:
		g.report(grant)
	case e == served || e.key != grant.Key: // the holder has learned of the grant by an answer
	default:
		e.grant, e.granted = grant, true
		e.signal()
	}
}

// look has whoever expects a grant of a token ask the server, which has not heard of it for a while.
func (g *Grants) look(token string) {
	s := g.shard(token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.tokens[token]; e != nil && e != served {
		e.signal()
	}
}

// wake tells all who expect a grant on a channel that the process listens again.
func (g *Grants) wake(c *Channel) { g.signal(func(e *Expected) bool { return e.channel == c }) }

// Wake has all who expect a grant ask the server, which may have lost their places.
func (g *Grants) Wake() { g.signal(func(*Expected) bool { return true }) }

func (g *Grants) signal(meant func(*Expected) bool) {
	for i := range g.shards {
		s := &g.shards[i]
		s.mu.Lock()
		for _, e := range s.tokens {
			if e != served && meant(e) {
				e.signal()
			}
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
	channel    *Channel
	key, token string
	wake       chan struct{}

	// Guarded by the shard.
	grant   Grant
	granted bool
}

// Expect has a grant of a key to token kept for the caller until Taken or Abandon. It is called before the
// request is sent that may be granted. No two callers expect the same token.
func (c *Channel) Expect(key, token string) *Expected {
	c.use()
	e := &Expected{channel: c, key: key, token: token, wake: make(chan struct{}, 1)}
	s := c.grants.shard(token)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(c.grants, token, e)
	return e
}

// put notes what a token is; nil: this process does not have it any more. The caller holds mu.
func (s *expecting) put(g *Grants, token string, e *Expected) {
	if s.tokens[token] == served {
		g.live.Add(-1)
	}
	switch e {
	case nil:
		delete(s.tokens, token)
		return
	case served:
		g.live.Add(1)
	}
	s.tokens[token] = e
}

// signal lets Wake receive.
func (e *Expected) signal() {
	select {
	case e.wake <- struct{}{}:
	default: // there is something to receive already
	}
}

// Wake receives when Take may have a grant, when the server wants to hear of the token, and
// when the process listens again after a time in which the message of a grant would have been lost: the
// server then knows whether there was one. Its capacity is 1.
func (e *Expected) Wake() <-chan struct{} { return e.wake }

// Take returns the last grant that has come, once. It is there before Wake receives.
func (e *Expected) Take() (Grant, bool) {
	e.channel.use()
	s := e.channel.grants.shard(e.token)
	s.mu.Lock()
	defer s.mu.Unlock()
	grant, granted := e.grant, e.granted
	e.grant, e.granted = Grant{}, false
	return grant, granted
}

// Taken ends what Expect has begun, because the token has what was asked for. A grant that comes later, or
// was not taken, is ignored until Over: it says what the caller has learned by an answer. To take it for a
// stray would free what the caller has. Taken may be called again.
func (e *Expected) Taken() {
	g := e.channel.grants
	s := g.shard(e.token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens[e.token] == e {
		s.put(g, e.token, served)
	}
	e.grant, e.granted = Grant{}, false
}

// Over notes that nobody has a token any more, or will have it again: a grant of it is a stray from now on.
// Of a token that is expected, or that this process has never expected, it changes nothing.
func (g *Grants) Over(token string) {
	if token == "" || g.live.Load() == 0 {
		return
	}
	s := g.shard(token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens[token] == served {
		s.put(g, token, nil)
	}
}

// PassOn is Over for a token with which keys go on that this process gives away. So long a message may still
// be under way about how it got them, which must not free them. A later grant is of a time when the keys were
// free.
func (g *Grants) PassOn(token string) {
	s := g.shard(token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens[token] == served {
		time.AfterFunc(longestUnderWay, func() { g.Over(token) })
	}
}

// longestUnderWay is longer than a command or a message can be under way.
const longestUnderWay = time.Minute

// Abandon ends what Expect has begun, because the token has been given up. A grant that was not taken, or
// that comes later, is a stray.
func (e *Expected) Abandon() {
	g := e.channel.grants
	s := g.shard(e.token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens[e.token] != e {
		return
	}
	s.put(g, e.token, nil)
	if e.granted {
		g.report(e.grant)
		e.grant, e.granted = Grant{}, false
	}
}
