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

// subscription makes the server tell this process what is published on a channel. On a cluster a
// subscription ends when no caller has used it for a while.
type subscription struct {
	connections *connections
	channel     string
	again       func()        // called after each confirmation
	recheck     chan struct{} // receives when the slot may have moved; nil: there are no slots
	locator     locator       // finds the node; only one goroutine uses it

	listening atomic.Bool
	used      atomic.Int64 // a clock.Instant: when a caller last used it

	state    sync.Mutex
	phase    phase
	attempt  *attempt      // the attempt under way, if phase is subscribing
	failed   error         // why the last attempt that ended failed; nil if it did not fail, or none has ended
	rested   clock.Instant // after a failure: from when Listen may begin another attempt, if none is under way
	failures int           // how many breaks and failed attempts the present series has
}

type phase uint8

const (
	idle        phase = iota // nothing is under way until Listen
	subscribing              // an attempt is under way, or follows a pause
	subscribed
	stopped
)

// attempt is one attempt to subscribe. run sets failed before it closes done.
type attempt struct {
	done   chan struct{}
	failed error
}

// An attempt may take maxAttempt, the default limit of rueidis for a command. Before the next attempt there
// is a pause. The first pause is random, between firstRest and twice that. Each further pause is twice as
// long, up to a second: rueidis pauses as long before it looks for a primary again. A subscription that
// lasts for longestRest ends the series.
const (
	maxAttempt  = 10 * time.Second
	firstRest   = time.Millisecond
	longestRest = time.Second
)

// finalRest is the pause after a refusal that usually stays. Waiters ask again all the time, and each
// attempt dials a connection.
const finalRest = 5 * time.Second

// lookEvery is how often a client with sentinels compares the address of its primary, which costs no
// command. This client learns of a new primary, but its pooled connection stays with the old one. An old
// primary that stands still does not close the connection, and rueidis takes eleven seconds to find that it
// does not answer.
const lookEvery = time.Second

// keepUnused is how long the subscription to the channel of a slot stays after the last wait for a key of
// the slot. In that time a grant of a token that was given up may still come. A kept subscription costs
// only memory. A new subscription costs the next waiter two round trips.
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

func (s *subscription) use() {
	if s.recheck != nil {
		s.used.Store(int64(clock.Now()))
	}
}

// unused reports whether no caller has used the subscription for keepUnused.
func (s *subscription) unused() bool {
	return s.recheck != nil && clock.Now() >= clock.Instant(s.used.Load()).After(s.connections.keep)
}

// Recheck makes the subscription look whether the slot of its channel has moved to another node. A server
// that has not noticed the move does not tell of it.
func (s *subscription) Recheck() {
	select {
	case s.recheck <- struct{}{}:
	default:
	}
}

// Listening reports whether the server has confirmed the subscription, and the connection has not broken
// since, as far as is known.
func (s *subscription) Listening() bool { return s.listening.Load() }

// Listen returns nil once the server has confirmed that it tells this process. The first call begins the
// subscription. After a break the subscription begins again by itself, until the server refuses it or the
// client is closed. Then the next Listen begins it. Callers share an attempt. If an attempt has failed,
// Listen returns that failure at once until a later attempt succeeds, so that no caller waits for two
// attempts.
//
// The error says why the server does not tell the process. It wraps the error of the server, of the client
// or of ctx, or clock.ErrStopped.
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

// Begin begins the subscription as Listen does, but does not wait. It reports whether the server tells this
// process already.
func (s *subscription) Begin() (listening bool) {
	s.use()
	if s.listening.Load() {
		return true
	}
	attempt, err := s.join()
	return attempt == nil && err == nil
}

// join returns the attempt to wait for, and begins one if it must. It returns no attempt if the outcome is
// known.
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

// become is the only function that changes the phase. failed says why the last attempt has ended. The
// caller holds state.
func (s *subscription) become(next phase, failed error) {
	if s.phase == stopped {
		return
	}
	s.listening.Store(next == subscribed) // before the waiting callers go on
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

// run subscribes again and again. It ends when it is stopped, or after a failure that only a caller of
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

// end ends a subscription that is over and that no caller uses.
func (s *subscription) end() bool {
	s.state.Lock()
	defer s.state.Unlock()
	if !s.unused() {
		return false
	}
	s.become(idle, nil)
	return true
}

// repeat begins another attempt, unless the last one has no end yet.
func (s *subscription) repeat(failed error) {
	s.state.Lock()
	defer s.state.Unlock()
	if failed != nil || s.phase == subscribed {
		s.become(subscribing, failed)
	}
}

// final reports whether another attempt is useless: the user may not subscribe, the server does not know
// the command, or the client is closed. The error of a closed client must come several times in a row. A
// client with sentinels closes its old connections with the same error when it changes to a new primary.
func (s *subscription) final(failed error) bool {
	if refused := new(rueidis.RedisError); errors.As(failed, &refused) {
		text := refused.Error()
		return strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "unknown command")
	}
	return errors.Is(failed, rueidis.ErrClosing) && s.failures > 3
}

// subscribe subscribes. It returns why that failed, or nil when the subscription is over.
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

// unsubscribe makes the server forget the subscription on a connection that other subscriptions use. If the
// user lacks the right, the process goes on hearing the channel, which does no harm.
func (s *subscription) unsubscribe(n *connection) {
	ctx, cancel := context.WithTimeout(s.connections.background, maxLook)
	defer cancel()
	_ = n.conn.Do(ctx, n.conn.B().Sunsubscribe().Channel(s.channel).Build()).Error()
}

// explain says why an attempt failed. Its command got err. A right or another version can help only if err
// is an answer of the server.
func (s *subscription) explain(ctx context.Context, err error) error {
	refused := new(rueidis.RedisError)
	switch {
	case ctx.Err() != nil:
		return errLate
	case errors.As(err, &refused):
		return fmt.Errorf("rlock: the server does not tell this process what is published on %[1]s; "+
			"for that, the server must be Redis 7 or Valkey, and the user needs the rights +ssubscribe and "+
			"&%[1]s: %[2]w", s.channel, err)
	}
	return fmt.Errorf("rlock: cannot subscribe to %s: %w", s.channel, err)
}

// follow returns when the subscription is over. It reports whether the server still has the subscription.
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
		case <-s.recheck: // the caller may not ask again, so a look that comes too soon is only put off
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
