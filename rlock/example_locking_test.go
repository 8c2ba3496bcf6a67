package rlock_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/rlock-go/toolkit/rlock"
)

// reports is code that is to be tested.
type reports struct{ locks rlock.Locking }

func (r reports) nightly(ctx context.Context) string {
	ran, err := r.locks.TryDo(ctx, "report", func(context.Context, *rlock.Lock) error { return nil })
	switch {
	case errors.Is(err, rlock.ErrNoAnswer):
		return "the server is down"
	case err != nil:
		return err.Error()
	case !ran:
		return "another machine makes it"
	}
	return "done"
}

// fake is what a test gives it. The methods that it does not have are those of a nil Locking.
type fake struct {
	rlock.Locking
	held bool
	err  error
}

func (f fake) TryDo(
	ctx context.Context, _ string, fn func(context.Context, *rlock.Lock) error, _ ...rlock.Option,
) (bool, error) {
	if f.held || f.err != nil {
		return false, f.err
	}
	return true, fn(ctx, nil)
}

func ExampleLocking() {
	ctx := context.Background()
	fmt.Println(reports{fake{}}.nightly(ctx))
	fmt.Println(reports{fake{held: true}}.nightly(ctx))
	fmt.Println(reports{fake{err: rlock.ErrNoAnswer}}.nightly(ctx))
	// Output:
	// done
	// another machine makes it
	// the server is down
}
