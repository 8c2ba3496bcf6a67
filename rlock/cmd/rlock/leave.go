package main

import (
	"context"
	"time"
)

// grace is how long rlock goes on once it is to end, so that a server that answers frees what it has granted.
// A slow network or server answers within some 100 ms.
const grace = 150 * time.Millisecond

// within has rlock end with err after d, whatever it is about then: who waits for a server that says nothing
// would wait for the time-outs of the client. What rlock cannot free ends with its lease. stop reports false
// if it comes too late.
func (p *program) within(d time.Duration, err error) (stop func() bool) {
	return time.AfterFunc(d, func() {
		select {
		case p.leaving <- err:
		default: // it leaves already
		}
	}).Stop
}

// context returns a context that ends with the first signal that is to end rlock. Its cause then has
// the exit code.
func (p *program) context() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(context.Background())
	signals, stop := notify()
	go func() {
		select {
		case sig := <-signals:
			why := interrupted(sig)
			if cancel(why); context.Cause(ctx) == why {
				p.within(grace, why)
			}
		case <-ctx.Done():
		}
	}()
	p.commit = func() error {
		stop()
		if cancel(nil); context.Cause(ctx) != context.Canceled {
			return context.Cause(ctx)
		}
		return nil
	}
	return ctx, func() {
		stop()
		cancel(nil)
	}
}
