package rlock

import (
	"context"
	"errors"
	"fmt"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// mostPermits is how many permits one call may take. The server writes an entry for each.
const mostPermits = 1000

// WithPermits has AcquirePermit, TryAcquirePermit and DoPermit take n permits in one step, from 1 to
// 1000 and no more than the limit. Without it they take one. The n permits are one Lock. Other calls
// ignore it.
func WithPermits(n int) Option {
	return callOption(func(s *settings) error {
		s.permits = n
		if n < 1 || n > mostPermits {
			return invalid("WithPermits", fmt.Sprintf("%d is not from 1 to %d", n, mostPermits))
		}
		return nil
	})
}

// ErrLimit: the present holders of permits have another limit than the call. LimitError names both.
var ErrLimit = errors.New("rlock: another limit than that of the present holders")

// LimitError reports a call that named another limit than the present holders have. Nothing was
// taken. It matches ErrLimit.
type LimitError struct {
	Limit   int // of the call; 0: none, it is a reader's
	Present int // of those who hold the key; 0: none, they are readers
}

func (e *LimitError) Error() string {
	switch {
	case e.Present == 0:
		return fmt.Sprintf("rlock: readers share the key, and this call names a limit of permits, %d; permits need a key of their own, or come when no reader holds it", e.Limit)
	case e.Limit == 0:
		return fmt.Sprintf("rlock: permits of the key are held, with a limit of %d, and this call is a reader's; readers need a key of their own, or come when no permit is held", e.Present)
	}
	return fmt.Sprintf("rlock: the limit of those who hold permits is %d, and this call names %d; name the same, or change it with ChangeLimit", e.Present, e.Limit)
}

// Unwrap returns ErrLimit.
func (e *LimitError) Unwrap() error { return ErrLimit }

// limitError makes the error of package remote that is about a limit a *LimitError.
func limitError(claim *remote.Claim, err error) error {
	if other := (*remote.LimitError)(nil); errors.As(err, &other) {
		share, _ := claim.Share()
		return &LimitError{Limit: share.Limit, Present: other.Present}
	}
	return err
}

// ChangeLimit changes how many permits of key there are, and returns how many there were. It returns 0
// and changes nothing if nobody has a permit, because the next caller sets the limit. Those who have
// permits keep them, and nobody gets one until they are fewer than the new limit. A call that names the
// former limit fails with a *LimitError from then on, also one that waits already, unless a permit is
// free for it at once or handed over in its process.
//
// If readers share the key, the error is a *LimitError. If the server does not answer, ChangeLimit asks
// again for 2 seconds, while ctx lasts. If a call without an answer has changed the limit, former is the
// new one; and if it arrives only after a later ChangeLimit, it undoes that one.
func (l *Locker) ChangeLimit(ctx context.Context, key string, limit int) (former int, err error) {
	full, err := l.begun(ctx, "change limit", key)
	if err != nil {
		return 0, err
	}
	if limit < 1 {
		return 0, invalid("limit", fmt.Sprintf("%d is below 1; to let nobody in, acquire the whole lock", limit))
	}
	if ctx.Err() != nil {
		return 0, &LockError{"change limit", full, clock.ContextError(ctx, nil)}
	}
	former, err = l.remote.Shares().ChangeLimit(ctx, full, limit)
	switch {
	case err != nil:
		return 0, unanswered(ctx, "change limit", full, err)
	case former == remote.NotShared:
		return 0, nil
	case former == 0:
		return 0, &LockError{"change limit", full, &LimitError{Limit: limit}}
	}
	return former, nil
}
