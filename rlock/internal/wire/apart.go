package wire

import (
	"context"
	"sync"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// releaseAll makes all the calls, and returns their replies in the same order. Where the keys of all are on
// one server or in one slot, those of a kind go together.
func (s calls) releaseAll(ctx context.Context, all []releaseCall) []redislua.Reply[int64] {
	key := func(c releaseCall) string { return c.keys[0] }
	return apart(s, all, key, func(some []releaseCall) []redislua.Reply[int64] {
		return s.releaseTogether(ctx, some)
	})
}

// The client of a cluster returns from a pipeline when every node has answered. What follows it, such as a
// pipeline of another kind, the text of a script that a node does not know, or what a caller does with the
// answers, would wait while one node is silent. So what is about each slot is sent in a goroutine of its own.

// Apart calls do with those of all that are about one slot, for each slot at the same time; a Claim of
// several slots is by itself. If the server is no cluster, it calls do with all.
func Apart[T any](s *Server, all []T, claim func(T) *Claim, do func(some []T)) {
	type place struct {
		slot  uint16
		alone *Claim
	}
	places := placesOf(s.calls, all, func(t T) place {
		c := claim(t)
		if c.SpansSlots() {
			return place{alone: c}
		}
		return place{slot: slot.Of(c.Key())}
	})
	atEach(places, func(positions []int) { do(at(all, positions)) })
}

// apart has send make calls for keys of one server, or of one slot, and returns the replies to all in their
// order.
func apart[P, R any](
	s calls, all []P, key func(P) string, send func(some []P) []redislua.Reply[R],
) []redislua.Reply[R] {
	places := placesOf(s, all, func(p P) uint16 { return slot.Of(key(p)) })
	if len(places) == 1 {
		return send(all)
	}
	replies := make([]redislua.Reply[R], len(all))
	for i := range replies {
		replies[i].Err = errSenderEnded // unless send returns
	}
	atEach(places, func(positions []int) {
		for n, reply := range send(at(all, positions)) {
			replies[positions[n]] = reply
		}
	})
	return replies
}

// placesOf returns the positions of those at each place. If the server is no cluster, it is the only place.
func placesOf[T any, K comparable](s calls, all []T, place func(T) K) (places [][]int) {
	known := map[K]int{}
	for i, t := range all {
		var k K
		if s.queue.slots {
			k = place(t)
		}
		n, is := known[k]
		if !is {
			n = len(places)
			known[k], places = n, append(places, nil)
		}
		places[n] = append(places[n], i)
	}
	return places
}

// atEach calls do for each place, at the same time.
func atEach(places [][]int, do func(positions []int)) {
	AtOnce(len(places), func(i int) { do(places[i]) })
}

// AtOnce calls do for each number below n, at the same time. If a call panics, the caller does, when all are
// done.
func AtOnce(n int, do func(i int)) {
	if n == 1 {
		do(0)
		return
	}
	var (
		mu       sync.Mutex // of causes
		causes   []any      // of panics of the client
		underway sync.WaitGroup
	)
	for i := range n {
		underway.Go(func() {
			defer func() {
				if cause := recover(); cause != nil {
					mu.Lock()
					defer mu.Unlock()
					causes = append(causes, cause)
				}
			}()
			do(i)
		})
	}
	underway.Wait()
	if causes != nil { // the caller panics, as if it had called the client itself
		panic(causes[0])
	}
}

// at returns the items at positions.
func at[T any](all []T, positions []int) []T {
	some := make([]T, len(positions))
	for i, position := range positions {
		some[i] = all[position]
	}
	return some
}
