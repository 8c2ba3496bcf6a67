package notify

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// subscription has the server tell this process what is published on a channel. On a cluster it ends
// when nobody has used it for a while.
type subscription struct {
	connections *connections
	channel     string
	again       func()        // called after each confirmation
	recheck     chan struct{} // receives when the slot may have moved; nil: there are no slots
	locator     locator       // of the node; one goroutine uses it

	listening atomic.Bool
	used      atomic.Int64 // a clock.Instant: when somebody was last interested in it

	state    sync.Mutex
	phase    phase
	attempt  *attempt      // the one under way, if phase is subscribing
	failed   error         // why the last one that ended did; nil if it did not, or there was none
	rested   clock.Instant // after a failure: when Listen may begin another attempt, if none is under way
	failures int           // how many breaks and failed attempts are in a series
}

// phase is how far a subscription is.
type phase uint8

const (
	idle        phase = iota // nothing is under way; Listen changes that
	subscribing              // an attempt is under way, or follows a pause
	subscribed
	stopped
)

// attempt is an attempt to subscribe. failed is set before done is closed.
type attempt struct {
	done   chan struct{}
	failed error
}

// An attempt may take as long as rueidis lets a command take by default. Before the next one
// there is a pause, which is drawn from firstRest to twice that, and doubles each time until it
// is a second: rueidis pauses so before it looks for a primary again. A subscription that lasts
// for longestRest ends the series.
const (
	maxAttempt  = 10 * time.Second
	firstRest   = time.Millisecond
	longestRest = time.Second
)

// finalRest is the pause after a refusal that stays as a rule. Whoever waits asks again all the time, and
// each attempt dials a connection.
const finalRest = 5 * time.Second

// A client with sentinels learns of a new primary, but leaves a connection of its pool where it
// is, and a primary that stands still does not close it. So the addresses are compared, which
// costs no command. It would take rueidis eleven seconds to find that nobody answers there.
const lookEvery = time.Second

// keepUnused is how long the subscription to the channel of a slot is kept after nobody waits for a
// key of the slot any more. So long a grant of a token that was given up may still come. To keep it
// costs nothing but memory; to subscribe again costs the next one who waits two round trips.
const keepUnused = longestUnderWay

var errLate = fmt.Errorf("rlock: the server has not confirmed a subscription within %v; "+
	"the client may have no connection left (BlockingPoolSize)", maxAttempt)

func (s *subscription) begin(c *connections, channel string, again func()) {
	s.connections, s.channel, s.again = c, channel, again
	if c.cluster {
		s.recheck = make(chan struct{}, 1)
		s.locator = locator{client: c.client, channel: channel}
	}
}

// use notes that somebody is interested in the subscription.
func (s *subscription) use() {
	if s.recheck != nil {
		s.used.Store(int64(clock.Now()))
	}
}

// unused reports whether nobody was interested for a while.
func (s *subscription) unused() bool {
	return s.recheck != nil && clock.Now() >= clock.Instant(s.used.Load()).After(s.connections.keep)
}

// Recheck has the subscription look whether the slot of its channel has moved to another node, which a
// server that has not noticed it does not tell.
func (s *subscription) Recheck() {
	select {
	case s.recheck <- struct{}{}:
	default:
	}
}

// Listening reports whether the server has confirmed the subscription, and the connection has
// not broken since, as far as is known.
func (s *subscription) Listening() bool { return s.listening.Load() }

// Listen returns nil when the server has confirmed that it tells this process. The first call
// has it subscribe. After a break it subscribes again by itself, until the server refuses or the
// client is closed; then the next Listen does. Callers share an attempt. If one has failed,
// Listen returns at once with that failure until another has not: nobody waits for two.
//
// The error says why the process is not told. It wraps the error of the server or the client,
// that of ctx, or clock.ErrStopped.
func (s *subscription) Listen(ctx context.Context) error {
	s.use()
	if s.listening.Load() {
		return nil
	}
	a, err := s.join()
	if a == nil {
		return err
	}
	select {
	case <-a.done:
		return a.failed
	case <-ctx.Done():
		return clock.ContextError(ctx, nil)
	}
}

// Begin has this process subscribe, as Listen does, but waits for nothing. It reports whether the server
// tells this process already.
func (s *subscription) Begin() (listening bool) {
	s.use()
	if s.listening.Load() {
		return true
	}
	attempt, err := s.join()
	return attempt == nil && err == nil
}

// join returns the attempt to wait for, and begins one if need be. It returns none if the
// outcome is known.
func (s *subscription) join() (*attempt, error) {
	s.state.Lock()
	defer s.state.Unlock()
	switch {
	case s.phase == stopped || s.connections.background.Err() != nil:
		return nil, clock.ErrStopped
	case s.phase == subscribed:
		return nil, nil
	case s.phase == idle && (s.failed == nil || clock.Now() >= s.rested):
		s.become(subscribing, s.failed)
		s.connections.running.Go(s.run)
	}
	if s.failed != nil {
		return nil, s.failed
	}
	return s.attempt, nil
}

// become is the only function that changes the phase. failed is why the last attempt has ended.
// The caller holds state.
func (s *subscription) become(next phase, failed error) {
	if s.phase == stopped {
		return
	}
	s.listening.Store(next == subscribed) // before those who wait go on
	if s.phase == subscribing {
		s.attempt.failed = failed
		close(s.attempt.done)
	}
	s.phase, s.failed = next, failed
	if next == subscribing {
		s.attempt = &attempt{done: make(chan struct{})}
	}
}

func (s *subscription) change(next phase, failed error) {
	s.state.Lock()
	defer s.state.Unlock()
	s.become(next, failed)
}

// run subscribes until it is stopped, or an attempt has failed that nobody but a caller of
// Listen can want repeated.
func (s *subscription) run() {
	for listened := false; ; {
		sent := clock.Now()
		failed := s.subscribe()
		if s.connections.background.Err() != nil {
			s.change(stopped, clock.ErrStopped)
			return
		}
		listened = listened || failed == nil
		if failed == nil && clock.Now() >= sent.After(longestRest) {
			s.failures = 0
		}
		rest := firstRest << min(s.failures, 9)
		rest = min(rest+rand.N(rest), longestRest)
		s.failures++
		if failed == nil && s.end() {
			return
		}
		if failed != nil && (!listened || s.final(failed)) {
			if errors.As(failed, new(*rueidis.RedisError)) && s.final(failed) {
				rest = finalRest
			}
			s.state.Lock()
			s.rested = clock.Now().After(rest)
			s.become(idle, failed)
			s.state.Unlock()
			return
		}
		s.repeat(failed)
		if clock.Sleep(s.connections.background, rest, nil) != nil {
			s.change(stopped, clock.ErrStopped)
			return
		}
	}
}

// end ends a subscription that is over, and in which nobody is interested any more.
func (s *subscription) end() bool {
	s.state.Lock()
	defer s.state.Unlock()
	if !s.unused() {
		return false
	}
	s.become(idle, nil)
	return true
}

// repeat begins another attempt, unless one that has not ended goes on.
func (s *subscription) repeat(failed error) {
	s.state.Lock()
	defer s.state.Unlock()
	if failed != nil || s.phase == subscribed {
		s.become(subscribing, failed)
	}
}

// final reports whether an attempt need not be repeated: the user may not subscribe, the server
// knows no such command, or the client is closed. The error of a closed client must come several
// times in a row, because a client with sentinels closes its old connections, with the same
// error, when it changes to a new primary.
func (s *subscription) final(failed error) bool {
	if refused := new(rueidis.RedisError); errors.As(failed, &refused) {
		text := refused.Error()
		return strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "unknown command")
	}
	return errors.Is(failed, rueidis.ErrClosing) && s.failures > 3
}

// subscribe subscribes, and returns why that failed, or nil when the subscription is over.
func (s *subscription) subscribe() error {
	ctx, cancel := context.WithTimeout(s.connections.background, maxAttempt)
	defer cancel()
	address, node := "", s.connections.client
	if s.connections.cluster {
		var err error
		if address, node, err = s.locator.locate(ctx); err != nil {
			return explainLocate(s.channel, err)
		}
	}
	n, err := s.connections.use(ctx, address, node)
	if err != nil {
		return errLate
	}
	defer s.connections.leave(n)
	ended := n.follow(s.channel)
	defer n.forget(s.channel)
	if err := n.conn.Do(ctx, n.conn.B().Ssubscribe().Channel(s.channel).Build()).Error(); err != nil {
		if refused := new(rueidis.RedisError); !errors.As(err, &refused) {
			s.connections.drop(n)
		}
		return s.explain(ctx, err)
	}
	cancel()
	s.change(subscribed, nil)
	s.again()
	if alive := s.follow(n, ended); alive && s.connections.shared(n) {
		s.unsubscribe(n)
	}
	return nil
}

// unsubscribe has the server forget the subscription on a connection that others use. If it does not,
// for lack of a right, what it says is heard all the same.
func (s *subscription) unsubscribe(n *connection) {
	ctx, cancel := context.WithTimeout(s.connections.background, maxLook)
	defer cancel()
	_ = n.conn.Do(ctx, n.conn.B().Sunsubscribe().Channel(s.channel).Build()).Error()
}

// explain says why an attempt failed, in which the command got that error. Only what the server
// itself has answered may be mended by a right, or by another version.
func (s *subscription) explain(ctx context.Context, err error) error {
	refused := new(rueidis.RedisError)
	switch {
	case ctx.Err() != nil:
		return errLate
	case errors.As(err, &refused):
		return fmt.Errorf("rlock: the server does not tell this process what is published on %[1]s; "+
			"that needs Redis 7 or Valkey, and the rights +ssubscribe and &%[1]s: %[2]w", s.channel, err)
	}
	return fmt.Errorf("rlock: cannot subscribe to %s: %w", s.channel, err)
}

// follow returns when the subscription is over, and reports whether the server has it all the same.
func (s *subscription) follow(n *connection, ended <-chan struct{}) (alive bool) {
	var look, unused, rechecked <-chan time.Time
	if n.primary != "" {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		look = ticker.C
	}
	if s.recheck != nil {
		ticker := time.NewTicker(s.connections.keep)
		defer ticker.Stop()
		unused = ticker.C
	}
	for looked := clock.Now(); ; {
		select {
		case <-n.broken:
			s.connections.drop(n)
			return false
		case <-ended:
			return false
		case <-s.connections.background.Done():
			return false
		case <-look:
			if s.connections.primary() != n.primary {
				s.connections.drop(n)
				return false
			}
		case <-s.recheck: // whoever asks may not do so again, so a look that comes too soon is only put off
			if rechecked == nil {
				rechecked = time.After(max(looked.After(lookEvery).Until(), 0))
			}
		case <-rechecked:
			rechecked = nil
			if s.locator.moved(s.connections.background) {
				return true
			}
			looked = clock.Now()
		case <-unused:
			if s.unused() {
				s.change(subscribing, nil)
				return true
			}
		}
	}
}
