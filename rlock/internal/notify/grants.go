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

// Grants hears of the grants to one process, on connections of its own. On a cluster it listens on one
// channel for each slot in which the process waits. Otherwise it listens on one channel.
//
// A message does not name its sender. Grants takes each message in the form of a grant for a grant. So only
// the process itself and the processes that may grant should have the right to publish on its channel.
//
// Another client with that right can send a false grant:
//   - A client that may read the queues knows the tokens that the process expects. A false grant of such a
//     token makes the process count a key as held that it does not hold.
//   - A false grant of any other token calls stray. stray releases the key if the key has that token.
type Grants struct {
	connections connections
	stop        context.CancelFunc
	seed        maphash.Seed
	shards      [16]expecting

	name     func(key string) string // name of the channel that carries the grants of a key to this process
	naming   sync.Mutex
	channels map[uint16]*Channel // by slot; 0 without a cluster

	stray   func(Grant)
	mu      sync.Mutex
	strays  []Grant // grants for which stray must still be called
	telling bool    // a goroutine calls stray

	live atomic.Int64 // how many tokens are served
}

// expecting has some of the tokens of this process. A token is in it while a Place expects its grant, and
// then, once served, until Over. A grant of any other token is a stray.
type expecting struct {
	mu     sync.Mutex
	tokens map[string]*Expected
}

// served marks a token that has got what it waited for.
var served = &Expected{}

// maxStrays is how many strays may wait for their call. It is more than the number of grants that a process
// expects. It stops a stranger who publishes from using up the memory. Without a call of stray, the key
// stays taken until the granted lease ends.
const maxStrays = 1 << 17

// Channel tells this process of the grants of some keys.
type Channel struct {
	subscription
	grants *Grants
}

// NewGrants returns Grants for the client. It sends nothing before the first Listen. Grants end with
// background, as by Close.
//
// channel returns the name of the channel that carries the grants of a key to the process. On a cluster the
// channel must be in the key's slot. Otherwise the name must be the same for all keys.
//
// stray is called with each grant of a token that this process does not have now. Either the process has
// given the token up, or it was served and has released the key. A promoted replica has places of the past,
// so it may send a stray grant. Grants calls stray once at a time, and on no goroutine of the client.
func NewGrants(
	background context.Context, client rueidis.Client, channel func(key string) string, stray func(Grant),
) *Grants {
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

// Channel returns the channel that carries the grants of a key to this process.
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

// Close ends the subscriptions with their connections, and all calls of Listen. Nothing is heard after
// that. Close takes a second if a server does not answer, and returns after longestClose at the latest. A
// connection that the client dials meanwhile is closed once it is there.
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

// longestClose is longer than the second that rueidis takes to close a connection. rueidis never ends the
// close if its own ping begins while it closes an idle connection: then no goroutine reads the answer to
// the ping of Close.
const longestClose = 2 * time.Second

func (g *Grants) shard(token string) *expecting {
	return &g.shards[maphash.String(g.seed, token)%uint64(len(g.shards))]
}

// hear takes a message. It runs on the goroutine that reads the connection, so it must not block.
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
	case e == served || e.key != grant.Key: // an answer has told the holder of the grant
	default:
		e.grant, e.granted = grant, true
		e.signal()
	}
}

// look wakes the Place that expects a grant of token. Its server has not heard of the token for a while, so
// the Place asks.
func (g *Grants) look(token string) {
	s := g.shard(token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.tokens[token]; e != nil && e != served {
		e.signal()
	}
}

// wake tells all Places that expect a grant on a channel that the process listens again.
func (g *Grants) wake(c *Channel) { g.signal(func(e *Expected) bool { return e.channel == c }) }

// Wake makes all Places that expect a grant ask the server, which may have lost them.
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

// report adds a grant for which tell calls stray.
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

// tell calls stray for each stray grant, until none is left.
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

// Expected is a token whose grant is expected. Only one goroutine at a time may use an Expected.
type Expected struct {
	channel    *Channel
	key, token string
	wake       chan struct{}

	// Guarded by the shard.
	grant   Grant
	granted bool
}

// Expect keeps a grant of a key to token for the caller until Taken or Abandon. Call it before sending the
// request that the server may grant. No two callers may expect the same token.
func (c *Channel) Expect(key, token string) *Expected {
	c.use()
	e := &Expected{channel: c, key: key, token: token, wake: make(chan struct{}, 1)}
	s := c.grants.shard(token)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(c.grants, token, e)
	return e
}

// put sets the state of a token. nil means that this process does not have the token. The caller holds mu.
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

// signal makes Wake receive.
func (e *Expected) signal() {
	select {
	case e.wake <- struct{}{}:
	default: // a signal is there already
	}
}

// Wake receives in three cases. Take may have a grant. The server wants to hear of the token. Or the
// process listens again after a time in which a message of a grant would have been lost, and must ask the
// server. The capacity of the channel is 1.
func (e *Expected) Wake() <-chan struct{} { return e.wake }

// Take returns the last grant that has come, once. The grant is there before Wake receives.
func (e *Expected) Take() (Grant, bool) {
	e.channel.use()
	s := e.channel.grants.shard(e.token)
	s.mu.Lock()
	defer s.mu.Unlock()
	grant, granted := e.grant, e.granted
	e.grant, e.granted = Grant{}, false
	return grant, granted
}

// Taken ends the expectation, because the token has what it asked for. Grants ignores each grant of the
// token that comes before Over, or that the caller has not taken: an answer has told the caller the same.
// As a stray, the grant would free what the caller has. The caller may call Taken again.
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

// Over notes that no caller has a token now or later. From now on a grant of the token is a stray. Over
// changes nothing for a token that is still expected, or that this process has never expected.
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

// PassOn calls Over for a token after longestUnderWay. The process gives away the keys of this token, and
// the token goes on with them. A message about how the token got the keys may still be under way, and must
// not free them. A grant that comes later tells of a time when the keys were free.
func (g *Grants) PassOn(token string) {
	s := g.shard(token)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.tokens[token] == served {
		time.AfterFunc(longestUnderWay, func() { g.Over(token) })
	}
}

// longestUnderWay is longer than any command or message stays under way.
const longestUnderWay = time.Minute

// Abandon ends the expectation, because the caller has given the token up. A grant that the caller has not
// taken, or that comes later, is a stray.
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
