package rlock

import (
	"context"

	"github.com/rlock-go/toolkit/rlock/internal/events"
)

// Observers returns an Observer that tells each of all, in their order. It leaves out nil ones and, if
// all are nil, returns nil, which WithObserver refuses. If one of them panics or calls runtime.Goexit,
// the others are told all the same, and the panic goes on as Observer says.
func Observers(all ...Observer) Observer {
	var some observers
	for _, o := range all {
		if isObserver(o) {
			some = append(some, o)
		}
	}
	if len(some) == 0 {
		return nil
	}
	return some
}

// observers are told one after the other.
type observers []Observer

func (all observers) Observe(ctx context.Context, e Event) {
	events.Each(all, func(o Observer) { o.Observe(ctx, e) })
}

// isObserver reports whether there is something to call.
func isObserver(o Observer) bool {
	f, is := o.(ObserverFunc)
	return o != nil && (!is || f != nil)
}
