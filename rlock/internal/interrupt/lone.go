package interrupt

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Lone has a connection for calls that are alone and follow each other. The goroutine of the caller writes
// and reads there. On a shared connection, two goroutines of the client wake up for each call, which takes
// longer than the server does.
//
// Nothing reads the connection between two calls, and nothing pings it. So a Lone trusts the connection for
// a while after an answer, and then gives it up. It also gives the connection up if a call gets no answer,
// or if the context of a call ends: the next call would get that call's answer. A nil Lone has no
// connection.
type Lone struct {
	dial    func(context.Context) (*Direct, error)
	trust   time.Duration   // for how long, after an answer
	closing context.Context // ends with Close
	stop    context.CancelFunc
	closes  sync.WaitGroup // of connections that were given up

	underway atomic.Int64 // calls, also on shared connections
	company  atomic.Bool  // some calls were at the same time

	mu      sync.Mutex
	direct  *Direct         // nil: there is none
	used    *Direct         // by the call under way; nil: no call is
	done    <-chan struct{} // of the context of that call
	stale   bool            // the connection must be given up, even while it is dialled
	heard   clock.Instant   // the last answer on the connection
	calls   int             // how many calls were alone, and followed each other
	last    clock.Instant   // the last of those calls
	dialing bool
	pause   clock.Instant // before that, no connection is dialled
	timer   *time.Timer   // calls look
	fires   clock.Instant // when the timer fires; clock.Never: it is not set
}

// Direct is a client with one connection. It uses the connection from the goroutine of its caller, if the
// context of the call does not end.
type Direct struct {
	rueidis.Client
	Conn  net.Conn
	Close func()
}

const (
	// enoughCalls is how many lone calls follow each other before the next ones have the connection.
	// Without the connection, so many calls lose about as much as it costs to make one. Among many callers
	// some calls are alone by chance, and are better off with the others: with the connection, 16 callers
	// were 7 % slower.
	enoughCalls = 64
	// mostCommands is the largest number of commands in a call on the connection.
	mostCommands = 16
	// glance is the pause between two looks whether the context of a call has ended.
	glance = 5 * time.Millisecond
	// failedPause is for how long no connection is dialled after a failure.
	failedPause = 5 * time.Second
)

// NewLone returns a Lone whose connections come from dial. dial must end with its context.
func NewLone(dial func(context.Context) (*Direct, error), trust time.Duration) *Lone {
	l := &Lone{dial: dial, trust: trust, fires: clock.Never}
	l.closing, l.stop = context.WithCancel(context.Background())
	return l
}

// enter counts a call, and returns the connection if the call may have it. Then the call must end by
// answered. Otherwise it must end by leave.
func (l *Lone) enter(ctx context.Context) *Direct {
	switch {
	case l == nil:
		return nil
	case l.underway.Add(1) > 1:
		if !l.company.Load() {
			l.company.Store(true)
		}
		return nil
	}
	asked := false
	defer func() {
		if !asked { // the context has panicked
			l.leave()
		}
	}()
	done, ended := ctx.Done(), ctx.Err()
	if asked = true; ended != nil {
		return nil
	}
	now := clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.used != nil || l.closing.Err() != nil {
		return nil
	}
	if l.company.CompareAndSwap(true, false) || now > l.last.After(l.trust) {
		l.calls = 0
	}
	l.last = now
	if now > l.heard.After(l.trust) {
		l.giveUp()
	}
	switch l.calls++; {
	case l.calls < enoughCalls:
		return nil
	case l.direct == nil:
		if !l.dialing && now >= l.pause {
			l.dialing, l.stale = true, false
			go l.connect() // no call waits for it, since the user's dial function may ignore its context
		}
		return nil
	}
	l.used, l.done = l.direct, done
	l.lookAt(now.After(glance), now)
	return l.direct
}

func (l *Lone) leave() {
	if l != nil {
		l.underway.Add(-1)
	}
}

func (l *Lone) answered(well bool) {
	l.leave()
	now := clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.used, l.done = nil, nil
	l.heard, l.last = now, now
	if !well {
		l.pause = now.After(failedPause)
	}
	if !well || l.stale {
		l.giveUp()
	}
}

func (l *Lone) do(ctx context.Context, w *Direct, command rueidis.Completed) rueidis.RedisResult {
	well := false
	defer func() { l.answered(well) }()
	result := w.Do(context.Background(), command)
	if well = !unanswered(result); !well && ctx.Err() != nil {
		return rueidis.NewErrorResult(ctx.Err())
	}
	return result
}

func (l *Lone) doMulti(
	ctx context.Context, w *Direct, commands []rueidis.Completed,
) []rueidis.RedisResult {
	well := false
	defer func() { l.answered(well) }()
	results := w.DoMulti(context.Background(), commands...)
	if well = !slices.ContainsFunc(results, unanswered); !well && ctx.Err() != nil {
		for i, result := range results {
			if unanswered(result) {
				results[i] = rueidis.NewErrorResult(ctx.Err())
			}
		}
	}
	return results
}

// Company notes that a caller has read from the cache of the shared connections. The cache hears of a write
// on a shared connection a moment sooner than of a write on another connection.
func (l *Lone) Company() {
	if l != nil && !l.company.Load() {
		l.company.Store(true)
	}
}

func (l *Lone) connect() {
	var w *Direct
	err := errors.New("user code has ended the dial")
	defer func() {
		_ = recover()
		l.connected(w, err)
	}()
	w, err = l.dial(l.closing)
}

func (l *Lone) connected(w *Direct, err error) {
	now := clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dialing = false
	switch {
	case err != nil:
		l.pause = now.After(failedPause)
	case l.stale || l.closing.Err() != nil:
		go w.Close()
	default:
		l.direct, l.heard = w, now
		l.lookAt(now.After(l.trust), now)
	}
}

// giveUp closes the connection. The caller holds mu.
func (l *Lone) giveUp() {
	if l.direct != nil {
		l.closes.Go(l.direct.Close)
		l.direct = nil
	}
}

// GiveUp closes the connection after the call under way, and a connection that is being dialled. The server
// may be another one by now.
func (l *Lone) GiveUp() {
	if l == nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stale = true; l.used == nil {
		l.giveUp()
	}
}

// Close closes the connection for good.
func (l *Lone) Close() {
	if l == nil {
		return
	}
	l.stop()
	l.mu.Lock()
	l.giveUp()
	l.mu.Unlock()
	l.closes.Wait()
}

// lookAt plans a look at an instant, or earlier. The caller holds mu.
func (l *Lone) lookAt(at, now clock.Instant) {
	if l.fires <= at {
		return
	}
	l.fires = at
	if wait := at.From(now); l.timer == nil {
		l.timer = time.AfterFunc(wait, l.look)
	} else {
		l.timer.Reset(wait)
	}
}

// look ends a call whose context has ended, and gives up a connection that is not trusted any more. look
// comes back to that call: the client may set its own deadline after that of look. The second time, look
// closes the connection, because some connections ignore a deadline.
func (l *Lone) look() {
	now := clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fires = clock.Never
	switch {
	case l.used != nil:
		select {
		case <-l.done:
			if conn := l.used.Conn; conn.SetDeadline(time.Unix(1, 0)) != nil || l.stale {
				go func() { _ = conn.Close() }()
			}
			l.stale = true
		default:
		}
	case l.direct == nil:
		return
	case now > l.heard.After(l.trust):
		l.giveUp()
		return
	case now > l.heard.After(glance):
		l.lookAt(l.heard.After(l.trust+glance), now)
		return
	}
	l.lookAt(now.After(glance), now)
}
