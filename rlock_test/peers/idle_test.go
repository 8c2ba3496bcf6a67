package peers

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
)

// few is a library that hangs when it has acquired some locks, or fails.
type few struct {
	left int
	err  error
}

func (f *few) acquire(ctx context.Context, _ string) (holding, error) {
	if f.left--; f.left >= 0 {
		return nil, nil
	}
	if f.err == nil {
		<-ctx.Done()
	}
	return nil, f.err
}

// A library that hangs does not keep the others from being measured.
func TestAcquireMany(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		for _, locks := range []int{3, 10} {
			if held, err := acquireMany(ctx, &few{left: 3}, locks); err != nil || len(held) != 3 {
				t.Errorf("%d locks of %d: %v", len(held), locks, err)
			}
		}
		cancel()
		failed := errors.New("no")
		if _, err := acquireMany(t.Context(), &few{left: 3, err: failed}, 10); err != failed {
			t.Error(err)
		}
	})
}
