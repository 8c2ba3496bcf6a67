package wire

import (
	"context"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// mostQueued is the largest set whose calls name the queues of its keys. Calls for a larger set would be
// several times as long, mostly for nothing. A larger set may overtake waiters of a free key, and its
// release frees its keys instead of passing them on.
const mostQueued = 128

// queuesAll reports whether calls for keys of one slot name the queues of the keys.
func (s calls) queuesAll(keys []string) bool {
	return len(keys) <= mostQueued && s.queue.queued()
}

// absent is what is left of the lease of a key that is free, or that several holders share. Only Wait tells
// these apart.
const absent = -2 * time.Millisecond

// mostHelps is how often a set that cannot have a free key helps the waiters of that key. If all of these
// are dead, the set tries again.
const mostHelps = 3

// acquireSet takes keys of one slot. It takes all or none, or with Keep the keys before the first that it
// cannot have. It does not overtake a waiter of any of them.
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

// withNames returns keys and the names of their queues, with room for more names.
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

// help tries to pass a key on to the process that waits first for it. The key stands in the way of a set,
// and is free or shared. help reports whether the key is free and no process took it. The set takes all
// keys or none, so its token waits in no queue.
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
