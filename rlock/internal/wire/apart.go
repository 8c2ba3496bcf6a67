package wire

import (
	"context"
	"sync"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// releaseAll makes all calls, and returns their replies in the same order. Calls of one kind go together if
// all their keys are on one server or in one slot.
func (s calls) releaseAll(ctx context.Context, all []releaseCall) []redislua.Reply[int64] {
	key := func(c releaseCall) string { return c.keys[0] }
	return apart(s, all, key, func(some []releaseCall) []redislua.Reply[int64] {
		return s.releaseTogether(ctx, some)
	})
}

// The client of a cluster returns from a pipeline only after every node has answered. Whatever follows the
// pipeline would wait for a silent node: the next pipeline, the text of a script for a node, or the use of
// the answers. So calls about different slots run in different goroutines.

// Apart calls do for each slot, at the same time, with the items that are about the slot. A Claim of
// several slots gets a call of its own. If the server is no cluster, Apart calls do once, with all items.
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

// apart makes calls by send for each server or slot, and returns all replies in the order of the calls.
func apart[P, R any](
	s calls, all []P, key func(P) string, send func(some []P) []redislua.Reply[R],
) []redislua.Reply[R] {
	places := placesOf(s, all, func(p P) uint16 { return slot.Of(key(p)) })
	if len(places) == 1 {
		return send(all)
	}
	replies := make([]redislua.Reply[R], len(all))
	for i := range replies {
		replies[i].Err = errSenderEnded // until send returns
	}
	atEach(places, func(positions []int) {
		for n, reply := range send(at(all, positions)) {
			replies[positions[n]] = reply
		}
	})
	return replies
}

// placesOf returns the positions of the items at each place. If the server is no cluster, there is one
// place.
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

func atEach(places [][]int, do func(positions []int)) {
	AtOnce(len(places), func(i int) { do(places[i]) })
}

// AtOnce calls do for each number below n, at the same time. If a call panics, AtOnce panics after all
// calls have ended.
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

func at[T any](all []T, positions []int) []T {
	some := make([]T, len(positions))
	for i, position := range positions {
		some[i] = all[position]
	}
	return some
}
