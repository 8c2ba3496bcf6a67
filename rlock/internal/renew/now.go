package renew

import (
	"context"

	"github.com/rlock-go/toolkit/rlock/internal/events"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Asked is an extension that a caller has asked for.
type Asked interface {
	// Start begins a try, and returns what the server is asked for. It reports false if there is
	// nothing to ask: the lock has ended, or must not have that lease.
	Start() (ask wire.Extension, ok bool)
	// Settle takes the answer to the try. Its error has wire.Indeterminate as outcome if another
	// try is worth it.
	Settle(answer wire.Extended) error
	// Finish follows the last try.
	Finish()
}

// Extender extends leases, as wire.Server does.
type Extender interface {
	Extend(ctx context.Context, list []wire.Extension) []wire.Extended
}

// Now makes extensions at once, in one round trip. Those that get no answer it makes again, for
// wire.Patience, while ctx lasts. Each Start is followed by its Settle, and in the end by Finish,
// also if user code panics or ends the goroutine.
func Now[T Asked](ctx context.Context, server Extender, all []T) {
	defer events.Each(all, T.Finish)
	_ = wire.RetryFor(ctx, wire.Patience, wire.Remaining(all, func(ctx context.Context, some []T) []error {
		return try(ctx, server, some)
	}))
}

// try makes one try of each, and returns their errors.
func try[T Asked](ctx context.Context, server Extender, some []T) []error {
	var (
		errs  = make([]error, len(some))
		list  = make([]wire.Extension, 0, len(some))
		sent  = make([]int, 0, len(some)) // positions in some
		reply []wire.Extended
	)
	defer func() {
		n := 0
		events.Each(sent, func(i int) {
			answer := wire.Extended{Err: wire.ErrInterrupted}
			if reply != nil {
				answer = reply[n]
			}
			n++
			errs[i] = some[i].Settle(answer)
		})
	}()
	for i, a := range some {
		if ask, ok := a.Start(); ok {
			list, sent = append(list, ask), append(sent, i)
		}
	}
	if len(list) > 0 {
		reply = server.Extend(ctx, list)
	}
	return errs
}
