package wire

import (
	"context"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// mostQueued is how many keys a set has at most whose queues its calls name. Calls for a larger one would
// be several times as long, most of the time for nothing: it can overtake those who wait for a key that is
// free, and its keys are free when it is released.
const mostQueued = 128

// queuesAll reports whether calls for keys of one slot name their queues.
func (s calls) queuesAll(keys []string) bool {
	return len(keys) <= mostQueued && s.queue.queued()
}

// absent is what is left of the lease of a key that is free, or that several share: only Wait knows then.
const absent = -2 * time.Millisecond

// mostHelps is how often a set that is refused a free key helps those who wait for it. If they are all
// dead, the set tries again.
const mostHelps = 3

// acquireSet takes keys of one slot, all or none, or those before the first that cannot be had. It does not
// overtake those who wait for one of them.
func (s calls) acquireSet(ctx context.Context, keys, counters []string, r *Request) (Answer, error) {
	params := gen.AcquireAllParams{
		Token: r.Token, TTL: ttlParam(r.TTL), Locks: int64(len(keys)), Partial: r.Keep != nil,
	}
	without := func() (Answer, error) {
		params.Keys, params.Queued = slices.Concat(keys, counters), false
		reply, err := s.locks.AcquireAll(ctx, s.client, params)
		return setAnswer(keys, reply, r), err
	}
	if !s.queuesAll(keys) {
		return without()
	}
	return withQueue(s.queue, false, func() (a Answer, err error) {
		params.Keys, params.Queued = append(withNames(keys, len(counters)), counters...), true
		for range mostHelps {
			var reply gen.AcquireAllResult
			reply, err = s.locks.AcquireAll(ctx, s.client, params)
			a = setAnswer(keys, reply, r)
			if err != nil || r.Keep != nil || reply.Remaining != absent || !s.help(ctx, &a, r) {
				break
			}
		}
		return a, err
	}, without)
}

// withNames returns keys and the names of their queues. There is room for more names.
func withNames(keys []string, more int) []string {
	names := append(make([]string, 0, 2*len(keys)+more), keys...)
	return slot.AppendNames(names, keys, 0)
}

func setAnswer(keys []string, reply gen.AcquireAllResult, r *Request) Answer {
	a := Answer{
		Acquired: reply.Acquired, Fence: uint64(reply.Fence), Held: keys[0], Left: remaining(reply.Remaining),
	}
	if reply.Held != 0 {
		a.Held = slot.KeyAt(keys, reply.Held)
		if r.Keep != nil {
			a.Kept = int(reply.Held) - 1
		}
	}
	return a
}

// help passes the key that stands in the way of a set, and is free or shared, on to the process that waits
// first for it, as far as it is free. It reports whether it is and nobody took it. The set asks for all or
// none, so its token waits in no queue.
func (s calls) help(ctx context.Context, a *Answer, r *Request) (free bool) {
	c := One(a.Held)
	params := s.waitParams(&c, r, gen.WaitHowHeartbeat)
	params.Counter = slot.FenceCounter(a.Held)
	reply, err := s.scripts.Wait(ctx, s.client, params)
	if err == nil {
		a.Left = remaining(reply.Remaining)
	}
	return err == nil && reply.Remaining == absent
}
