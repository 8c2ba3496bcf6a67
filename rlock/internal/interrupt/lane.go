package interrupt

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// How many calls of a lane may be under way after their callers have left. Further calls then wait. The
// client ends these calls only when it gives up the connection, so a silent server would collect all calls
// until then. A client of Open gives the connection up soon, and its rings are as long.
const (
	mostOfOthers = 64
	mostOfOpen   = 1024
)

// lanesOfCluster is the number of lanes for the slots of a cluster, so that a silent node delays few calls
// of others.
const lanesOfCluster = 16

// lane has the abandoned calls of a server, or of neighbouring slots.
type lane struct {
	most      int64
	abandoned atomic.Int64
	room      chan struct{} // receives when a waiting call should look again
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

// laneOf returns the lane of a slot. For a command without a slot it returns the first lane.
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
			l.wake() // if this call was just woken, the next one must look
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

// abandoned are the calls under way whose callers have left.
type abandoned struct {
	mu    sync.Mutex
	calls map[*call]*time.Timer // the timers that end the calls; nil: the call was told to end
	over  bool                  // no call may stay
}

// add notes a call whose caller leaves. The call may stay for the time-out of a dial.
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

// end tells a call to end, once. The caller holds mu.
func (a *abandoned) end(one *call) {
	if timer := a.calls[one]; timer != nil {
		timer.Stop()
		a.calls[one] = nil
		close(one.stay)
	}
}

// remove notes that a call has ended. Contexts derived from its context end too, since its caller's context
// has ended.
func (a *abandoned) remove(one *call) {
	a.mu.Lock()
	a.end(one)
	delete(a.calls, one)
	a.mu.Unlock()
	one.lane.abandoned.Add(-1)
	one.lane.wake()
}

// End ends the calls that callers have abandoned, and will abandon.
func (c *Client) End() {
	c.abandoned.mu.Lock()
	defer c.abandoned.mu.Unlock()
	c.abandoned.over = true
	for one := range c.abandoned.calls {
		c.abandoned.end(one)
	}
}
