package notify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// subscription has the server tell this process what is published on a channel.
//
// It has a connection of its own, one of those that the client's pool has for blocking commands,
// because the server limits what a connection with subscriptions may have unread, and closes it
// beyond. A shared connection would be closed by a large reply.
type subscription struct {
	background context.Context
	stop       context.CancelFunc
	client     rueidis.Client
	channel    string
	hear       func(message string) // on the goroutine that reads the connection
	again      func()               // called after each confirmation

	listening atomic.Bool

	state    sync.Mutex
	phase    phase
	attempt  *attempt      // the one under way, if phase is subscribing
	failed   error         // why the last one that ended did; nil if it did not, or there was none
	rested   clock.Instant // after a failure: when Listen may begin another attempt, if none is under way
	failures int           // how many breaks and failed attempts are in a series
	running  sync.WaitGroup

	dialled chan dialled // set while the client dials; one goroutine uses it
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

// dialled is a connection that the client has dialled, and what its primary was just before.
type dialled struct {
	conn    rueidis.DedicatedClient
	primary string
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

// A client with sentinels learns of a new primary, but leaves a connection of its pool where it
// is, and a primary that stands still does not close it. So the addresses are compared, which
// costs no command. It would take rueidis eleven seconds to find that nobody answers there.
const lookEvery = time.Second

var errLate = fmt.Errorf("rlock: the server has not confirmed a subscription within %v; "+
	"the client may have no connection left (BlockingPoolSize)", maxAttempt)

func (s *subscription) begin(background context.Context, client rueidis.Client, channel string, hear func(string), again func()) {
	s.background, s.stop = context.WithCancel(background)
	s.client, s.channel, s.hear, s.again = client, channel, hear, again
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

// join returns the attempt to wait for, and begins one if need be. It returns none if the
// outcome is known.
func (s *subscription) join() (*attempt, error) {
	s.state.Lock()
	defer s.state.Unlock()
	switch {
	case s.phase == stopped || s.background.Err() != nil:
		return nil, clock.ErrStopped
	case s.phase == subscribed:
		return nil, nil
	case s.phase == idle && (s.failed == nil || clock.Now() >= s.rested):
		s.become(subscribing, s.failed)
		s.running.Go(s.run)
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
		if s.background.Err() != nil {
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
		if failed != nil && (!listened || s.final(failed)) {
			s.state.Lock()
			s.rested = clock.Now().After(rest)
			s.become(idle, failed)
			s.state.Unlock()
			return
		}
		s.change(subscribing, failed)
		if clock.Sleep(s.background, rest, nil) != nil {
			s.change(stopped, clock.ErrStopped)
			return
		}
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
	ctx, cancel := context.WithTimeout(s.background, maxAttempt)
	defer cancel()
	d, err := s.dial(ctx)
	if err != nil {
		return errLate
	}
	defer s.running.Go(d.conn.Close) // which takes a second if the server does not answer
	taken := make(chan struct{}, 1)
	broken := d.conn.SetPubSubHooks(rueidis.PubSubHooks{
		OnMessage: func(m rueidis.PubSubMessage) {
			if m.Channel == s.channel {
				s.hear(m.Message)
			}
		},
		OnSubscription: func(c rueidis.PubSubSubscription) {
			if c.Kind == "sunsubscribe" && c.Channel == s.channel { // the slot has moved
				select {
				case taken <- struct{}{}:
				default:
				}
			}
		},
	})
	if err := d.conn.Do(ctx, d.conn.B().Ssubscribe().Channel(s.channel).Build()).Error(); err != nil {
		return s.explain(ctx, err)
	}
	cancel()
	s.change(subscribed, nil)
	s.again()
	s.follow(d.primary, broken, taken)
	return nil
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

// follow returns when the subscription is over.
func (s *subscription) follow(primary string, broken <-chan error, taken <-chan struct{}) {
	var look <-chan time.Time
	if primary != "" {
		ticker := time.NewTicker(lookEvery)
		defer ticker.Stop()
		look = ticker.C
	}
	for {
		select {
		case <-broken:
			return
		case <-taken:
			return
		case <-s.background.Done():
			return
		case <-look:
			if s.primary() != primary {
				return
			}
		}
	}
}

// dial has the client dial a connection, or takes one that is in its pool. That cannot be
// ended, and takes for ever if the pool is used up. So it goes on after ctx, for the next attempt.
func (s *subscription) dial(ctx context.Context) (dialled, error) {
	if s.dialled == nil {
		into := make(chan dialled)
		s.dialled = into
		go func() {
			d := dialled{primary: s.primary()}
			d.conn, _ = s.client.Dedicate()
			select {
			case into <- d:
			case <-s.background.Done():
				d.conn.Close()
			}
		}()
	}
	select {
	case d := <-s.dialled:
		s.dialled = nil
		return d, nil
	case <-ctx.Done():
		return dialled{}, ctx.Err()
	}
}

// primary returns what tells one primary from another, which is nothing but for sentinels.
func (s *subscription) primary() string {
	if s.client.Mode() != rueidis.ClientModeSentinel {
		return ""
	}
	return strings.Join(slices.Sorted(maps.Keys(s.client.Nodes())), " ")
}

// Close ends the subscription and its connection, and all calls of Listen. Nothing is heard
// any more. It returns when that is done, which takes a second if the server does not answer.
// What the client dials just then is closed when it is there.
func (s *subscription) Close() {
	s.stop()
	s.change(stopped, clock.ErrStopped)
	s.running.Wait()
}
