package notify

import (
	"sync"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// abandoned are the tokens that were given up, for as long as a grant of one may still come. However
// many there are, they have one timer.
type abandoned struct {
	mu    sync.Mutex
	list  []givenUp   // the first was given up first
	timer *time.Timer // runs while the list is not empty; nil: nothing was given up yet
	ended bool        // nothing is heard any more
}

// givenUp is a token that was given up.
type givenUp struct {
	expected *Expected
	until    clock.Instant
}

// A token is kept for longer than a command can be under way, and than its release is repeated.
// Those that are over are removed together, once a second at most.
const (
	keepAbandoned = time.Minute
	sweepPause    = time.Second
)

// add keeps a token. It reports false if no grant can come any more. Its caller may hold the mutex of
// a shard, so whoever holds mu takes that of none.
func (a *abandoned) add(e *Expected) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.ended {
		return false
	}
	a.list = append(a.list, givenUp{e, clock.Now().After(keepAbandoned)})
	if len(a.list) == 1 {
		a.arm(keepAbandoned)
	}
	return true
}

// arm has sweep called. The caller holds mu.
func (a *abandoned) arm(after time.Duration) {
	if a.timer == nil {
		a.timer = time.AfterFunc(after, a.sweep)
	} else {
		a.timer.Reset(after)
	}
}

// sweep forgets the tokens of which no grant can come any more.
func (a *abandoned) sweep() {
	over := a.over()
	for _, g := range over {
		g.expected.Forget()
	}
	clear(over) // the list keeps their memory for a while
}

// over removes the tokens that are over from the list.
func (a *abandoned) over() []givenUp {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, now := 0, clock.Now()
	for n < len(a.list) && a.list[n].until <= now {
		n++
	}
	over := a.list[:n:n]
	if a.list = a.list[n:]; len(a.list) > 0 {
		a.arm(max(a.list[0].until.Until(), sweepPause))
	} else {
		a.list = nil
	}
	return over
}

// end forgets all tokens, as nothing is heard any more.
func (a *abandoned) end() {
	a.mu.Lock()
	all := a.list
	a.list, a.ended = nil, true
	if a.timer != nil {
		a.timer.Stop()
	}
	a.mu.Unlock()
	for _, g := range all {
		g.expected.Forget()
	}
}
