package wire

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Attempts is how often a command is sent if the caller can do without it.
const Attempts = 3

// Patience is how long a command is repeated if a lock depends on it. After a failover the client may need
// a second to learn of the new primary.
const Patience = 2 * time.Second

// RetryTimes calls f until the outcome is known, ctx has ended, or it has called f attempts times. It
// pauses between the calls. The first pause is 10 to 30 ms, and each further pause is about twice as long,
// up to 0.75 s.
func RetryTimes(ctx context.Context, attempts int, f func(ctx context.Context) error) error {
	return retry(ctx, f, func(made int, _ error) bool { return made < attempts })
}

// RetryFor calls f until the outcome is known, ctx has ended, or limit is over. It pauses as RetryTimes
// does. It stops after Attempts calls if more calls cannot help: the client is closed, or some slots refuse
// what others have done.
func RetryFor(ctx context.Context, limit time.Duration, f func(ctx context.Context) error) error {
	end := clock.Now().After(limit)
	return retry(ctx, f, func(made int, err error) bool {
		return clock.Now() < end && (made < Attempts || !permanent(err))
	})
}

// RetryDetached is RetryFor, but goes on if ctx ends. It calls f with ctx once, unless ctx has ended
// already. After that it calls f with a context that has the values of ctx and ends after limit.
func RetryDetached(ctx context.Context, limit time.Duration, f func(ctx context.Context) error) error {
	if ctx.Err() == nil {
		if err := f(ctx); OutcomeOf(err) != Indeterminate {
			return err
		}
	}
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	err := RetryFor(detached, limit, f)
	if errors.Is(err, context.DeadlineExceeded) { // the caller perhaps has not set this deadline
		err = newUnanswered(nil, err, limit)
	}
	return err
}

func retry(
	ctx context.Context, f func(ctx context.Context) error, more func(made int, err error) bool,
) error {
	for made := 1; ; made++ {
		err := f(ctx)
		if OutcomeOf(err) != Indeterminate || ctx.Err() != nil || !more(made, err) {
			return err
		}
		clock.Use(ctx) // ctx may have kept the client from connecting by a panic, and the panic is the caller's
		pause := min(10*time.Millisecond<<min(made, 6), 500*time.Millisecond)
		if clock.Sleep(ctx, pause/2+rand.N(pause), nil) != nil {
			return err
		}
	}
}

// permanent reports whether more calls would fail with the same error.
func permanent(err error) bool {
	var some *partialError
	return errors.Is(err, rueidis.ErrClosing) || errors.As(err, &some)
}

// Remaining makes a function for RetryTimes, RetryFor or RetryDetached from try, which is about many items.
// The first call of the function tries all items. Each later call tries only the items without an answer.
// try returns an error for each item.
//
// If an item without an answer has an error that more calls can mend, the function returns that error. So
// RetryFor goes on for that item.
func Remaining[T any](
	items []T, try func(ctx context.Context, items []T) []error,
) func(context.Context) error {
	return func(ctx context.Context) error {
		var (
			rest []T
			lost error
		)
		for i, err := range try(ctx, items) {
			if OutcomeOf(err) != Indeterminate {
				continue
			}
			rest = append(rest, items[i])
			if lost == nil || permanent(lost) {
				lost = err
			}
		}
		items = rest
		return lost
	}
}
