package wire

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

const (
	// fewCalls is how many calls go by themselves, however many scripts are under way. So few callers lose
	// more by waiting for each other than a common script saves. Measured in thousands of cycles a second,
	// by themselves and together: 8 callers 44 and 30, 16 callers 51 and 44, 24 callers 55 and 59.
	fewCalls = 16
	// enoughScripts is how many scripts of a combiner are under way before calls wait for each other. With
	// fewer scripts, the server is idle while an answer travels. With more, each script is smaller and
	// costs more per call. A server has two combiners, for tries and for releases. A cluster has two for
	// each slot.
	enoughScripts = 2
	// maxCalls is the most calls in one script. They keep the server busy for about half a millisecond.
	maxCalls = 128
	// maxScripts is the most scripts under way, however far away the server is.
	maxScripts = 32
	// longestStop is how long maxScripts scripts keep the next one from being sent. No context ends a
	// script. So a script at a node that stands still has no answer until the client drops its connection.
	// By then the client may have found another primary for the keys long ago.
	longestStop = time.Second
	// scriptCost and callCost are about how long a script, and each call in it, keep the server and the
	// client busy.
	scriptCost, callCost = 50 * time.Microsecond, 10 * time.Microsecond
)

// combiner sends calls together that are made at the same time. A call goes by itself, from the goroutine
// of its caller, in three cases: there are few calls, few scripts are under way, or the server should be
// done with the last script. In the third case the answers are only far away, which is no reason to wait
// for other calls. All other calls wait, and go together in the next script, in the order in which they
// came.
type combiner[P, R any] struct {
	// send makes the calls with one script. It sets the result of each call, or alone if the caller must
	// make the call by itself. After an error that is Refused, every caller must make its call by itself.
	send func(ctx context.Context, batch []*member[P, R]) error
	pair *pair // the pair that has the combiner

	mu       *sync.Mutex
	underway int // scripts without an answer so far
	stuck    int // about how many of them are given up: see longestStop
	// when the server should be done with the last script; kept while enough scripts are under way
	due         clock.Instant
	first, last *member[P, R] // the calls that wait
	// until then calls go alone, after a refusal or while the slot moves; 0: no such time
	aloneUntil clock.Instant
	timer      *time.Timer   // sends the waiting calls when they are due, if no answer comes before
	armed      bool          // the timer runs, as it does while calls wait
	fires      clock.Instant // when the timer fires, if armed

	spare *sync.Pool // of members
}

// member is a call that goes together with others.
type member[P, R any] struct {
	params P
	result R
	err    error
	alone  bool // the caller must make the call by itself
	cause  any  // of a panic of the client; nil: none

	prev, next *member[P, R] // while it waits
	sent       bool
	done       chan struct{}
}

// unsentError is the error of a call that its caller gave up before it was sent.
type unsentError struct{ err error }

func (e *unsentError) Error() string        { return "the call was not sent: " + e.err.Error() }
func (e *unsentError) Unwrap() error        { return e.err }
func (e *unsentError) Is(target error) bool { return target == errUnsent }

// errUnsent matches every unsentError. errors.As would allocate for each caller.
var errUnsent = errors.New("the call was not sent")

func unsent(err error) bool { return errors.Is(err, errUnsent) }

// errSenderEnded is the error of a call whose goroutine a hook of the client has ended.
var errSenderEnded = errors.New("a hook of the client has called runtime.Goexit")

// together makes a call together with others, and reports whether it has. If it has not, the caller makes
// the call by itself, and calls answered once that call has an answer. The caller must have entered the
// pair.
func (c *combiner[P, R]) together(ctx context.Context, params P) (result R, err error, shared bool) {
	m := c.enter(params)
	if m == nil {
		return result, nil, false
	}
	select {
	case <-m.done:
	case <-ctx.Done():
		if c.withdraw(m) {
			return result, &unsentError{ctx.Err()}, true
		}
		select {
		case <-m.done:
		default: // done has room for the answer, which no caller takes
			return result, ctx.Err(), true
		}
	}
	if m.cause != nil {
		panic(m.cause)
	}
	result, err, shared = m.result, m.err, !m.alone
	*m = member[P, R]{done: m.done}
	c.spare.Put(m)
	if !shared {
		c.mu.Lock()
		c.underway++
		c.mu.Unlock()
	}
	return result, err, shared
}

// enter adds a call to the waiting calls. It returns nil if the caller may make the call by itself at once.
func (c *combiner[P, R]) enter(params P) *member[P, R] {
	c.mu.Lock()
	defer c.mu.Unlock()
	few := c.pair.calls.Load() <= fewCalls
	// Callers that have left may leave many scripts without an answer, so the number of callers is not
	// enough.
	if c.counted() < enoughScripts || few && c.first == nil && c.counted() < fewCalls {
		if c.underway++; c.counted() >= enoughScripts {
			c.due = clock.Now().After(scriptCost + callCost)
		}
		return nil
	}
	now := clock.Now()
	// if the server is idle, the answers are only on their way
	late := (now >= c.due || c.pair.amongMany()) && !c.full(now)
	if c.aloneUntil != 0 && now < c.aloneUntil || late && c.first == nil {
		c.underway++
		c.due = now.After(scriptCost + callCost)
		return nil
	}
	m, _ := c.spare.Get().(*member[P, R])
	if m == nil {
		m = &member[P, R]{done: make(chan struct{}, 1)}
	}
	m.params = params
	if m.prev = c.last; c.last == nil {
		c.first = m
	} else {
		c.last.next = m
	}
	c.last = m
	if late {
		c.dispatch()
	} else {
		c.arm(now)
	}
	return m
}

// counted returns how many scripts are under way, without the stuck ones.
func (c *combiner[P, R]) counted() int { return c.underway - c.stuck }

// full reports whether no other script may be sent. If that lasts for longestStop, the scripts under way
// are stuck. Then the next scripts go as if there were none.
func (c *combiner[P, R]) full(now clock.Instant) bool {
	if c.counted() < maxScripts {
		return false
	}
	if now < c.due.After(longestStop) {
		return true
	}
	c.stuck = c.underway
	return false
}

// ended notes that a script has its answer. It may have been a stuck one, and the scripts that are left may
// be stuck too.
func (c *combiner[P, R]) ended() {
	c.underway--
	c.stuck = min(c.stuck, c.underway)
}

// answered notes that a script has its answer. It sends the waiting calls.
func (c *combiner[P, R]) answered() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended()
	switch {
	case c.first == nil:
		c.pair.rest()
	case c.counted() < enoughScripts:
		c.dispatch()
	default: // the other answers may never come
		c.arm(clock.Now())
	}
}

// arm sets the timer, so that flush sends the waiting calls when they are due.
func (c *combiner[P, R]) arm(now clock.Instant) { c.armAt(c.due, now) }

// armAt makes flush look at an instant, or earlier.
func (c *combiner[P, R]) armAt(at, now clock.Instant) {
	if c.armed && at >= c.fires {
		return
	}
	c.armed, c.fires = true, at
	wait := time.Duration(max(at-now, 0))
	if c.timer == nil {
		c.timer = time.AfterFunc(wait, c.flush)
	} else {
		c.timer.Reset(wait)
	}
}

// flush sends the waiting calls, if no answer came in time to send them.
func (c *combiner[P, R]) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.armed = false
	now := clock.Now()
	switch {
	case c.first == nil:
	case c.full(now):
		c.armAt(c.due.After(longestStop), now)
	case now < c.due:
		c.arm(now)
	default:
		c.dispatch()
	}
}

// dispatch sends as many waiting calls as fit in a script.
func (c *combiner[P, R]) dispatch() {
	c.underway++
	go c.run(c.take(nil))
}

// take moves the calls of the next script from the waiting calls to batch.
func (c *combiner[P, R]) take(batch []*member[P, R]) []*member[P, R] {
	for c.first != nil && len(batch) < maxCalls {
		m := c.first
		c.remove(m)
		m.sent = true
		batch = append(batch, m)
	}
	now := clock.Now()
	c.due = now.After(scriptCost + time.Duration(len(batch))*callCost)
	if c.first != nil {
		c.arm(now)
	}
	return batch
}

func (c *combiner[P, R]) remove(m *member[P, R]) {
	if m.prev == nil {
		c.first = m.next
	} else {
		m.prev.next = m.next
	}
	if m.next == nil {
		c.last = m.prev
	} else {
		m.next.prev = m.prev
	}
	m.prev, m.next = nil, nil
}

// withdraw takes back a call that has not been sent. It reports false if the call has been sent.
func (c *combiner[P, R]) withdraw(m *member[P, R]) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.sent {
		return false
	}
	c.remove(m)
	return true
}

// run sends one script after the other while calls wait. No context of a caller ends a script, because the
// script also serves other callers.
func (c *combiner[P, R]) run(batch []*member[P, R]) {
	returned := false
	defer func() {
		if returned {
			return
		}
		cause := recover() // each caller panics, as if it had called the client itself
		for _, m := range batch {
			m.cause, m.err = cause, errSenderEnded
			m.done <- struct{}{}
		}
		c.answered()
	}()
	for len(batch) > 0 {
		c.answer(batch, c.send(context.Background(), batch))
		clear(batch)
		c.mu.Lock()
		if batch = batch[:0]; c.counted() <= enoughScripts {
			batch = c.take(batch)
		} else if c.first != nil { // the next answer or the timer sends the waiting calls
			c.arm(clock.Now())
		}
		if len(batch) == 0 {
			c.ended()
			c.pair.rest()
		}
		c.mu.Unlock()
	}
	returned = true
}

func (c *combiner[P, R]) answer(batch []*member[P, R], err error) {
	// A call for a forbidden key is refused by itself too. So it stays out of the next scripts.
	if movesNow(err) || Forbidden(err) && !ofOneKey(err) {
		c.mu.Lock()
		c.aloneUntil = clock.Now().After(Patience)
		c.pair.keep()
		c.mu.Unlock()
	}
	for _, m := range batch {
		switch OutcomeOf(err) {
		case Refused:
			m.alone = true
		case Indeterminate:
			m.err = err
		}
		m.done <- struct{}{}
	}
}
