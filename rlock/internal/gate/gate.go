// Package gate lets one attempt of a lock's release at a time make its calls, and none after one
// of them was answered.
//
// It does not know what is released, or what the answer is.
package gate

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Gate lets one goroutine in at a time. The zero Gate is open. It is one word, because every lock
// has one.
type Gate struct{ state atomic.Pointer[state] } // nil: nobody is inside

// state is busy, done, or that of a Gate for which somebody waits.
type state struct{ left chan struct{} } // closed when the one who is inside leaves

var (
	busy = new(state) // somebody is inside
	done = new(state) // somebody has got an answer inside
)

// ErrAnswered is the error of a Gate that lets nobody in any more.
var ErrAnswered = errors.New("somebody has got an answer")

// Enter waits until nobody is inside, or ctx ends. Its error is ErrAnswered or that of ctx. Whoever
// enters must leave.
func (g *Gate) Enter(ctx context.Context) error {
	for {
		left, err := g.TryEnter()
		if left == nil {
			return err
		}
		select {
		case <-left:
		case <-ctx.Done():
			return clock.ContextError(ctx, nil)
		}
	}
}

// TryEnter enters, unless somebody is inside: occupied is then closed when that one leaves. Its error
// is ErrAnswered.
func (g *Gate) TryEnter() (occupied <-chan struct{}, err error) {
	for {
		now := g.state.Load()
		next := busy
		switch now {
		case done:
			return nil, ErrAnswered
		case nil:
		case busy:
			next = &state{make(chan struct{})}
		default:
			return now.left, nil
		}
		if g.state.CompareAndSwap(now, next) {
			return next.left, nil
		}
	}
}

// Leave lets the next one in, unless the one who leaves has got an answer.
func (g *Gate) Leave(answered bool) {
	var next *state
	if answered {
		next = done
	}
	if left := g.state.Swap(next).left; left != nil {
		close(left)
	}
}
