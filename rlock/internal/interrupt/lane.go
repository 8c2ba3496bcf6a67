package interrupt

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// How many calls of a lane may be under way whose callers have left, before further calls wait. The client
// ends such calls when it gives up the connection, so that a silent server would collect as many as are made
// until then. A client of Open gives it up soon, and has rings that are as long.
const (
	mostOfOthers = 64
	mostOfOpen   = 1024
)

// lanesOfCluster is in how many parts the slots of a cluster are divided, so that a silent node keeps few
// calls of others waiting.
const lanesOfCluster = 16

// lane has the calls of a server, or of neighbouring slots, that were abandoned and have not ended.
type lane struct {
	most      int64
	abandoned atomic.Int64
	room      chan struct{} // has one when a waiting call should look again
}

func newLanes(mode rueidis.ClientMode, most int64) []lane {
	n := 1
	if mode == rueidis.ClientModeCluster {
		n = lanesOfCluster
	}
	lanes := make([]lane, n)
	for i := range lanes {
		lanes[i].most, lanes[i].room = most, make(chan struct{}, 1)
	}
	return lanes
}

// laneOf returns the lane of a slot, the first if a command has none.
func (c *Client) laneOf(slot uint16) *lane {
	const slots = 1 << 14
	if slot >= slots {
		slot = 0
	}
	return &c.lanes[int(slot)*len(c.lanes)/slots]
}

// enter waits while too many calls are abandoned. It returns why ctx has ended if that comes first.
func (l *lane) enter(ctx context.Context) error {
	if l.abandoned.Load() < l.most {
		return nil
	}
	for l.abandoned.Load() >= l.most {
		select {
		case <-l.room:
		case <-ctx.Done():
			l.wake() // the next, if this one was just woken
			return ctx.Err()
		}
	}
	l.wake()
	return nil
}

func (l *lane) wake() {
	select {
	case l.room <- struct{}{}:
	default:
	}
}

// abandoned are the calls that are under way whose callers have left.
type abandoned struct {
	mu    sync.Mutex
	calls map[*call]*time.Timer // that end the calls; nil: the call was told to end
	over  bool                  // none may stay
}

// add notes a call whose caller leaves. It may stay for the time-out of a dial.
func (a *abandoned) add(one *call) {
	one.lane.abandoned.Add(1)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		a.calls[one] = nil
		close(one.stay)
		return
	}
	a.calls[one] = time.AfterFunc(one.outlasts, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.end(one)
	})
}

// end tells a call to end, if it was not told before. The caller holds mu.
func (a *abandoned) end(one *call) {
	if timer := a.calls[one]; timer != nil {
		timer.Stop()
		a.calls[one] = nil
		close(one.stay)
	}
}

// remove notes that a call has ended. What was derived from its context ends too, as that of its caller has.
func (a *abandoned) remove(one *call) {
	a.mu.Lock()
	a.end(one)
	delete(a.calls, one)
	a.mu.Unlock()
	one.lane.abandoned.Add(-1)
	one.lane.wake()
}

// End ends what callers have left behind, and will leave.
func (c *Client) End() {
	c.abandoned.mu.Lock()
	defer c.abandoned.mu.Unlock()
	c.abandoned.over = true
	for one := range c.abandoned.calls {
		c.abandoned.end(one)
	}
}
