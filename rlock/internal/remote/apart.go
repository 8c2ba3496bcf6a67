package remote

import (
	"context"
	"slices"
	"sync"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// releaseEach makes all the calls, and returns their replies in the same order. Where the keys of all are on
// one server or in one slot, those of a kind go in one pipeline.
func (s calls) releaseEach(ctx context.Context, all []freeing) []gen.Reply[int64] {
	return apart(s, all, func(f freeing) string { return f.keys[0] }, func(some []freeing) []gen.Reply[int64] {
		return releaseTogether(ctx, s, some)
	})
}

// apart has send make calls for keys of one server, or of one slot, and returns the replies to all in their
// order.
//
// The client of a cluster returns from a pipeline when every node has answered. What follows it, such as a
// pipeline of another kind or the text of a script that a node does not know, would not be sent while one node
// is silent. So each slot has a call of its own there, in a goroutine of its own.
func apart[P, R any](s calls, all []P, key func(P) string, send func(some []P) []gen.Reply[R]) []gen.Reply[R] {
	if !s.queue.slots || !slices.ContainsFunc(all, func(p P) bool { return slot.Of(key(p)) != slot.Of(key(all[0])) }) {
		return send(all)
	}
	bySlot := map[uint16][]int{} // positions in all
	replies := make([]gen.Reply[R], len(all))
	for i, p := range all {
		bySlot[slot.Of(key(p))] = append(bySlot[slot.Of(key(p))], i)
		replies[i].Err = errSenderEnded // unless send returns
	}
	var (
		mu       sync.Mutex // of causes
		causes   []any      // of panics of the client
		underway sync.WaitGroup
	)
	for _, positions := range bySlot {
		underway.Go(func() {
			defer func() {
				if cause := recover(); cause != nil {
					mu.Lock()
					defer mu.Unlock()
					causes = append(causes, cause)
				}
			}()
			for n, reply := range send(at(all, positions)) {
				replies[positions[n]] = reply
			}
		})
	}
	underway.Wait()
	if causes != nil { // the caller panics, as if it had called the client itself
		panic(causes[0])
	}
	return replies
}

// at returns the items at positions.
func at[T any](all []T, positions []int) []T {
	some := make([]T, len(positions))
	for i, position := range positions {
		some[i] = all[position]
	}
	return some
}
