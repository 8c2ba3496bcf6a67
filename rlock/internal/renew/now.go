package renew

import (
	"context"

	"github.com/rlock-go/toolkit/rlock/internal/events"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Asked is an extension that a caller has asked for.
type Asked interface {
	// Start begins a try, and returns what to ask the server for. It reports false if there is nothing to
	// ask: the lock has ended, or must not have that lease.
	Start() (ask wire.Extension, ok bool)
	// Settle takes the answer to the try. The outcome of its error is wire.Indeterminate if another try is
	// worth it.
	Settle(answer wire.Extended) error
	// Finish is called after the last try.
	Finish()
}

// Now makes extensions at once. It repeats the extensions that get no answer, for wire.Patience, while ctx
// lasts. It calls Settle after each Start, and Finish at the end, also if user code panics or ends the
// goroutine.
func Now[T Asked](ctx context.Context, server Server, all []T) {
	defer events.Each(all, T.Finish)
	_ = wire.RetryFor(ctx, wire.Patience, wire.Remaining(all, func(ctx context.Context, some []T) []error {
		return try(ctx, server, some)
	}))
}

// try makes one try of each extension, and returns their errors.
func try[T Asked](ctx context.Context, server Server, some []T) []error {
	var (
		errs    = make([]error, len(some))
		list    = make([]wire.Extension, 0, len(some))
		sent    = make([]int, 0, len(some)) // positions in some
		answers = make([]wire.Extended, len(some))
	)
	defer func() {
		events.Each(sent, func(i int) { errs[i] = some[i].Settle(answers[i]) })
	}()
	for i, a := range some {
		if ask, ok := a.Start(); ok {
			list, sent = append(list, ask), append(sent, i)
			answers[i].Err = wire.ErrInterrupted // until there is an answer
		}
	}
	if len(list) > 0 {
		server.Extend(ctx, list, func(positions []int, some []wire.Extended) {
			for n, position := range positions {
				answers[sent[position]] = some[n]
			}
		})
	}
	return errs
}
