// Package gate lets one release of a lock at a time make its calls. After one call was answered, it lets no
// release in.
//
// It does not know what is released, or what the answer is.
package gate

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Gate lets one goroutine in at a time. The zero Gate is open. It is one word, because every lock has one.
type Gate struct{ state atomic.Pointer[state] } // nil: no goroutine is inside

// state is busy, done, or the state of a Gate for which a goroutine waits.
type state struct{ left chan struct{} } // closed when the goroutine inside leaves

var (
	busy = new(state) // a goroutine is inside
	done = new(state) // a goroutine has got an answer inside
)

// ErrAnswered is the error of a closed Gate: a goroutine inside has got an answer.
var ErrAnswered = errors.New("an earlier call has got an answer")

// Enter waits until no goroutine is inside, or ctx ends. Its error is ErrAnswered or the error of ctx. A
// goroutine that has entered must leave.
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

// TryEnter enters if no goroutine is inside. Otherwise occupied is closed when the goroutine inside leaves.
// The error is ErrAnswered.
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

// Leave lets the next goroutine in, unless the leaving one has got an answer.
func (g *Gate) Leave(answered bool) {
	var next *state
	if answered {
		next = done
	}
	if left := g.state.Swap(next).left; left != nil {
		close(left)
	}
}
