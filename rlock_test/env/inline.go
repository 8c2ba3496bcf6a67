package env

import (
	"context"
	"sync/atomic"

	"github.com/rlock-go/toolkit/rlock"
)

// InLine returns a context and an option for an acquisition. The acquisition stops at the Gate while it waits
// in line. Before the Gate opens, the acquisition sees nothing that arrives for it.
func (g *Gate) InLine(parent context.Context) (context.Context, rlock.Option) {
	c := &inLine{Context: parent, gate: g}
	return c, rlock.WithObserver(rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
		if e.Kind == rlock.EventContended {
			c.waits.Store(true)
		}
	}))
}

// inLine is the context of an acquisition. A waiter asks the context for Done first.
type inLine struct {
	context.Context
	gate  *Gate
	waits atomic.Bool
}

func (c *inLine) Done() <-chan struct{} {
	if c.waits.Load() {
		c.gate.Pass()
	}
	return c.Context.Done()
}
