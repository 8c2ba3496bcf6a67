package wire_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

var errRefused error = &redislua.ParamError{}

// answers returns a call that ends with one error after the other, the last of them for ever,
// and counts how often it is made.
func answers(errs ...error) (call func(context.Context) error, calls *int) {
	calls = new(int)
	return func(context.Context) error {
		*calls++
		return errs[min(*calls, len(errs))-1]
	}, calls
}

func TestRetryEndsWithTheOutcome(t *testing.T) {
	t.Parallel()
	partial := wire.Combine([]redislua.Reply[int]{{}, {Err: errRefused}})
	times := func(ctx context.Context, f func(context.Context) error) error { return wire.RetryTimes(ctx, 3, f) }
	limited := func(ctx context.Context, f func(context.Context) error) error {
		return wire.RetryFor(ctx, 2*time.Second, f)
	}
	for _, test := range []struct {
		name    string
		retry   func(context.Context, func(context.Context) error) error
		errs    []error
		calls   int // 0: as often as there is time
		longest time.Duration
	}{
		{"done at once", times, []error{nil}, 1, 0},
		{"refused at once", times, []error{errRefused}, 1, 0},
		{"done in the end", times, []error{io.EOF, io.EOF, nil}, 3, 90 * time.Millisecond},
		{"refused in the end", times, []error{io.EOF, errRefused}, 2, 30 * time.Millisecond},
		{"without an answer", times, []error{io.EOF}, 3, 90 * time.Millisecond},
		{"without an answer for 2 s", limited, []error{io.EOF}, 0, 2750 * time.Millisecond},
		{"done after long", limited, []error{io.EOF, io.EOF, io.EOF, io.EOF, nil}, 5, 450 * time.Millisecond},
		{"client closed", limited, []error{rueidis.ErrClosing}, 3, 90 * time.Millisecond},
		{"connection closed", limited, []error{rueidis.ErrClosing, rueidis.ErrClosing, nil}, 3,
			90 * time.Millisecond},
		{"some slots refuse", limited, []error{partial}, 3, 90 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				call, calls := answers(test.errs...)
				began := time.Now()
				err := test.retry(t.Context(), call)
				took := time.Since(began)
				require.Equal(t, test.errs[len(test.errs)-1], err)
				require.LessOrEqual(t, took, test.longest)
				if test.calls == 0 {
					require.GreaterOrEqual(t, took, 2*time.Second)
					require.InDelta(t, 9, *calls, 3, "the pauses grow")
				} else {
					require.Equal(t, test.calls, *calls)
				}
			})
		})
	}
}

// A context that ends, during a call or between two, ends the retries with what the last
// call has said.
func TestRetryEndsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		calls := 0
		require.Equal(t, io.EOF, wire.RetryFor(ctx, time.Minute, func(context.Context) error {
			calls++
			cancel()
			return io.EOF
		}))
		require.Equal(t, 1, calls)

		ctx, cancel = context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		call, made := answers(io.EOF)
		began := time.Now()
		require.Equal(t, io.EOF, wire.RetryTimes(ctx, 3, call))
		require.Equal(t, 5*time.Millisecond, time.Since(began))
		require.Equal(t, 1, *made)
	})
}

// RetryDetached does its work on a context that has ended, with its values and an end.
func TestRetryDetachedOutlivesTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		type key struct{}
		ctx, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "kept"))
		calls := 0
		require.NoError(t, wire.RetryDetached(ctx, 2*time.Second, func(ctx context.Context) error {
			require.Equal(t, "kept", ctx.Value(key{}))
			if calls++; calls == 1 {
				cancel()
				return ctx.Err()
			}
			require.NoError(t, ctx.Err())
			end, limited := ctx.Deadline()
			require.True(t, limited)
			require.Equal(t, 2*time.Second, time.Until(end))
			return nil
		}))
		require.Equal(t, 2, calls)

		began := time.Now()
		require.ErrorIs(t, wire.RetryDetached(ctx, 2*time.Second, func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		}), context.DeadlineExceeded)
		require.Equal(t, 2*time.Second, time.Since(began))

		call, made := answers(errRefused)
		require.Equal(t, errRefused, wire.RetryDetached(t.Context(), 2*time.Second, call))
		require.Equal(t, 1, *made)
	})
}

// Only items without an answer are asked again.
func TestRemainingAsksTheUnansweredAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked [][]int
		lost := errors.New("lost")
		require.NoError(t, wire.RetryTimes(t.Context(), 3,
			wire.Remaining([]int{1, 2, 3, 4}, func(_ context.Context, items []int) []error {
				asked = append(asked, slices.Clone(items))
				errs := make([]error, len(items))
				for i, item := range items {
					switch {
					case item == 1:
						errs[i] = errRefused
					case item > len(asked)+1:
						errs[i] = lost
					}
				}
				return errs
			})))
		require.Equal(t, [][]int{{1, 2, 3, 4}, {3, 4}, {4}}, asked)
	})
}

// An item that more calls cannot help does not end the calls for one that they can.
func TestRemainingGoesOnForTheOthers(t *testing.T) {
	t.Parallel()
	partial := wire.Combine([]redislua.Reply[int]{{}, {Err: errRefused}})
	for name, items := range map[string][]error{
		"after":  {io.EOF, partial},
		"before": {partial, io.EOF},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				calls := 0
				err := wire.RetryFor(t.Context(), time.Second,
					wire.Remaining(items, func(_ context.Context, items []error) []error {
						if calls++; calls > wire.Attempts {
							return make([]error, len(items))
						}
						return items
					}))
				require.NoError(t, err)
				require.Equal(t, wire.Attempts+1, calls)
			})
		})
	}
}
