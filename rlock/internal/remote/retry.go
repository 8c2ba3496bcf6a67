package remote

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Attempts is how often a command is sent that a caller can do without.
const Attempts = 3

// Patience is how long a command is repeated that a lock depends on. After a failover the
// client may need a second to learn of the new primary.
const Patience = 2 * time.Second

// RetryTimes calls f until the outcome is known, ctx has ended, or f was called so often. It
// pauses between the calls: 10 to 30 ms after the first, about twice as long each time, at most 0.75 s.
func RetryTimes(ctx context.Context, attempts int, f func(ctx context.Context) error) error {
	return retry(ctx, f, func(made int, _ error) bool { return made < attempts })
}

// RetryFor calls f, with pauses as those of RetryTimes, until the outcome is known, ctx has
// ended or limit is over. It stops after Attempts calls where more are of no use: the client
// is closed, or some slots refuse what the others have done.
func RetryFor(ctx context.Context, limit time.Duration, f func(ctx context.Context) error) error {
	end := clock.Now().After(limit)
	return retry(ctx, f, func(made int, err error) bool {
		return clock.Now() < end && (made < Attempts || !permanent(err))
	})
}

// RetryDetached is RetryFor, whether or not ctx has ended: after the first call, f gets a
// context that has ctx's values and ends after limit.
func RetryDetached(ctx context.Context, limit time.Duration, f func(ctx context.Context) error) error {
	if ctx.Err() == nil {
		if err := f(ctx); OutcomeOf(err) != Indeterminate {
			return err
		}
	}
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return RetryFor(detached, limit, f)
}

func retry(ctx context.Context, f func(ctx context.Context) error, more func(made int, err error) bool) error {
	for made := 1; ; made++ {
		err := f(ctx)
		if OutcomeOf(err) != Indeterminate || ctx.Err() != nil || !more(made, err) {
			return err
		}
		pause := min(10*time.Millisecond<<min(made, 6), 500*time.Millisecond)
		if clock.Sleep(ctx, pause/2+rand.N(pause), nil) != nil {
			return err
		}
	}
}

// permanent reports an error that more calls do not change.
func permanent(err error) bool {
	var some *partialError
	return errors.Is(err, rueidis.ErrClosing) || errors.As(err, &some)
}

// Remaining makes a try for the functions above of one that is about many items: all of them
// at first, and then those that got no answer. try returns an error for each item.
func Remaining[T any](items []T, try func(ctx context.Context, items []T) []error) func(context.Context) error {
	return func(ctx context.Context) error {
		var (
			rest []T
			lost error
		)
		for i, err := range try(ctx, items) {
			if OutcomeOf(err) == Indeterminate {
				rest, lost = append(rest, items[i]), err
			}
		}
		items = rest
		return lost
	}
}
