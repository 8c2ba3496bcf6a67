package rlock

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// cleaner frees keys that acquisitions with lost replies may have taken. A lost
// command may still be on its way and arrive behind the release, so that is
// repeated at growing intervals until the lease that the command could have
// started must be over, for half a minute at most.
//
// It has one timer, and one call under way, however many keys wait.
type cleaner struct {
	release func(context.Context, []gen.ReleaseParams) []gen.Reply[int64]

	mu      sync.Mutex
	waiting []*leftover
	timer   *time.Timer   // of the next round; nil: none is due or under way
	armed   clock.Instant // when that is
	closed  bool          // every round is the last
	flushed chan struct{} // closed when the last round is over; nil before close
}

// leftover are keys that may have to be freed.
type leftover struct {
	keys  []string
	token string
	lost  int // commands whose outcome is unknown
	pause time.Duration
	next  clock.Instant
	until clock.Instant
}

const (
	firstPause   = 25 * time.Millisecond
	pauseFactor  = 4
	longestClean = 30 * time.Second
	cleanTimeout = 2 * time.Second // of one call
	cleanBatch   = 1000            // releases in one call
)

// add has keys freed in the background.
func (c *cleaner) add(keys []string, token string, ttl time.Duration, lost int) {
	o := &leftover{
		keys: keys, token: token, lost: lost, pause: firstPause,
		next: clock.Now(), until: clock.Now().After(min(ttl, longestClean)),
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = append(c.waiting, o)
	c.arm(o.next)
}

// start runs the next round when it is due. The caller holds mu.
func (c *cleaner) start() {
	if len(c.waiting) == 0 {
		return
	}
	next := c.waiting[0].next
	for _, o := range c.waiting {
		next = min(next, o.next)
	}
	c.arm(next)
}

// arm runs a round at next or earlier, unless one is under way, which arms the next
// when it ends. The caller holds mu.
func (c *cleaner) arm(next clock.Instant) {
	if c.timer != nil && (next >= c.armed || !c.timer.Stop()) {
		return
	}
	c.armed = next
	c.timer = time.AfterFunc(max(next.Until(), 0), c.round)
}

// round frees what is due and keeps what has to be tried again.
func (c *cleaner) round() {
	c.mu.Lock()
	at := clock.Now()
	var due, later []*leftover
	for _, o := range c.waiting {
		if c.closed || o.next <= at {
			due = append(due, o)
		} else {
			later = append(later, o)
		}
	}
	c.waiting = later
	c.mu.Unlock()

	again := c.free(due)

	c.mu.Lock()
	defer c.mu.Unlock()
	c.timer = nil
	if !c.closed {
		c.waiting = append(c.waiting, again...)
	}
	c.start()
	if c.timer == nil && c.flushed != nil {
		close(c.flushed)
		c.flushed = nil
	}
}

// free releases keys in pipelines and returns those to be tried again.
func (c *cleaner) free(due []*leftover) (again []*leftover) {
	for some := range slices.Chunk(due, cleanBatch) {
		again = append(again, c.freeSome(some)...)
	}
	return again
}

func (c *cleaner) freeSome(due []*leftover) (again []*leftover) {
	params := make([]gen.ReleaseParams, len(due))
	for i, o := range due {
		params[i] = gen.ReleaseParams{Locks: o.keys, Token: o.token}
	}
	ctx, cancel := context.WithTimeout(context.Background(), cleanTimeout)
	defer cancel()
	for i, reply := range c.release(ctx, params) {
		o := due[i]
		if reply.Err == nil && reply.Value > 0 && o.lost == 1 {
			continue // the one lost command had run, and is undone
		}
		if o.next >= o.until {
			continue // that was the last try
		}
		o.next = min(clock.Now().After(o.pause), o.until)
		o.pause *= pauseFactor
		again = append(again, o)
	}
	return again
}

// close makes one last try for everything that waits, and waits for it until
// limit has passed. What is added later gets one try too.
func (c *cleaner) close(limit time.Duration) {
	c.mu.Lock()
	c.closed = true
	for _, o := range c.waiting {
		o.next = clock.Now()
	}
	c.start()
	flushed := make(chan struct{})
	if c.timer == nil {
		close(flushed)
	} else {
		c.flushed = flushed
	}
	c.mu.Unlock()

	select {
	case <-flushed:
	case <-time.After(limit):
	}
}
