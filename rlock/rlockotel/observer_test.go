package rlockotel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockotel"
)

// sort is what is before the first colon of a key.
func sort(key string) string {
	class, _, _ := strings.Cut(key, ":")
	return class
}

// Who waits has a span, below that of whoever called, and as long as the wait was. Who does not wait has none.
func TestSpans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		provider := trace.NewTracerProvider(trace.WithSpanProcessor(recorder))
		observer, err := rlockotel.NewObserver(rlockotel.WithTracerProvider(provider), rlockotel.WithClass(sort))
		require.NoError(t, err)
		locker := inMemory(t, rlock.WithObserver(observer), rlock.WithTTL(time.Hour))
		lock, err := locker.Acquire(t.Context(), "order:17")
		require.NoError(t, err)
		_, err = locker.TryAcquire(t.Context(), "order:17")
		require.ErrorIs(t, err, rlock.ErrHeld)
		require.Empty(t, recorder.Ended(), "neither has waited")

		ctx, request := provider.Tracer("test").Start(t.Context(), "POST /orders/17")
		short, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		start := time.Now()
		_, err = locker.Acquire(short, "order:17")
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		var facts *rlock.AcquireError
		require.ErrorAs(t, err, &facts)
		spans := recorder.Ended()
		require.Len(t, spans, 1)
		gaveUp := spans[0]
		require.Equal(t, "rlock.wait", gaveUp.Name())
		require.Equal(t, request.SpanContext().SpanID(), gaveUp.Parent().SpanID())
		require.Equal(t, request.SpanContext().TraceID(), gaveUp.SpanContext().TraceID())
		require.True(t, start.Equal(gaveUp.StartTime()))
		require.Equal(t, 3*time.Second, gaveUp.EndTime().Sub(gaveUp.StartTime()))
		require.Equal(t, trace.Status{Code: codes.Error, Description: "gave_up"}, gaveUp.Status())
		require.Equal(t, fmt.Sprintf("{attempts=%d,class=order,handed_over=false,outcome=gave_up}", facts.Attempts), labels(attribute.NewSet(gaveUp.Attributes()...)))

		done := make(chan *rlock.Lock)
		go func() {
			next, err := locker.Acquire(ctx, "order:17")
			if err != nil {
				t.Error(err)
			}
			done <- next
		}()
		time.Sleep(5 * time.Second)
		require.NoError(t, lock.Release(t.Context()))
		next := <-done
		spans = recorder.Ended()
		require.Len(t, spans, 2)
		waited := spans[1]
		require.InDelta(t, 5*time.Second, waited.EndTime().Sub(waited.StartTime()), float64(10*time.Millisecond))
		require.Equal(t, trace.Status{Code: codes.Unset}, waited.Status())
		require.Equal(t, fmt.Sprintf("{attempts=%d,class=order,fence=%d,handed_over=true,outcome=acquired}", next.Attempts(), next.Fence()),
			labels(attribute.NewSet(waited.Attributes()...)))
		require.NoError(t, next.Release(t.Context()))
		for _, span := range spans {
			text := fmt.Sprint(span.Attributes(), span.Events(), span.Status())
			require.NotContains(t, text, "order:17")
		}
	})
}

func TestDurations(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		provider, read := meters(t)
		observer, err := rlockotel.NewObserver(rlockotel.WithMeterProvider(provider), rlockotel.WithClass(sort))
		require.NoError(t, err)
		locker := inMemory(t, rlock.WithObserver(observer), rlock.WithTTL(time.Minute))
		lock, err := locker.Acquire(t.Context(), "order:17")
		require.NoError(t, err)
		_, err = locker.TryAcquire(t.Context(), "order:17")
		require.ErrorIs(t, err, rlock.ErrHeld)
		_, err = locker.Acquire(t.Context(), "order:17", rlock.WithRetry(rlock.Fixed(time.Second).MaxTime(4*time.Second)))
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		require.NoError(t, lock.Release(t.Context()))
		_, err = locker.Acquire(t.Context(), "cart:1")
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		require.Equal(t, map[string]string{
			"rlock.acquire.duration{class=order,contended=false,outcome=acquired}": "1 in 0 s",
			"rlock.acquire.duration{class=order,contended=true,outcome=held}":      "1 in 0 s",
			"rlock.acquire.duration{class=order,contended=true,outcome=gave_up}":   "1 in 4 s",
			"rlock.acquire.duration{class=cart,contended=false,outcome=acquired}":  "1 in 0 s",
			"rlock.hold.duration{class=order,end=released}":                        "1 in 4 s",
			"rlock.hold.duration{class=cart,end=expired}":                          "1 in 60 s",
		}, read())
	})
}

// Each error and each end has its word.
func TestWords(t *testing.T) {
	t.Parallel()
	provider, read := meters(t)
	observer, err := rlockotel.NewObserver(rlockotel.WithMeterProvider(provider))
	require.NoError(t, err)
	failed := func(err error) rlock.Event {
		return rlock.Event{Kind: rlock.EventAcquireFailed, Err: fmt.Errorf("acquire order:17: %w", err)}
	}
	for word, event := range map[string]rlock.Event{
		"outcome=already_held": failed(rlock.ErrAlreadyHeld),
		"outcome=closed":       failed(rlock.ErrClosed),
		"outcome=expired":      failed(rlock.ErrExpired),
		"outcome=gave_up":      failed(errors.Join(rlock.ErrGaveUp, rlock.ErrHeld)),
		"outcome=refused":      failed(errors.New("NOPERM")),
		"outcome=no_answer":    failed(errors.Join(rlock.ErrGaveUp, rlock.ErrNoAnswer)),
		"end=release_failed":   {Kind: rlock.EventReleaseFailed},
		"end=lost":             {Kind: rlock.EventLost, Err: rlock.ErrLost},
		"end=expired":          {Kind: rlock.EventLost, Err: rlock.ErrExpired},
		"end=detached":         {Kind: rlock.EventDetached},
		"end=closed":           {Kind: rlock.EventClosed},
	} {
		observer.Observe(t.Context(), event)
		found := 0
		for name := range read() {
			if strings.Contains(name, word) {
				found++
			}
		}
		require.Equal(t, 1, found, word)
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	provider, _ := meters(t)
	for want, options := range map[string][]rlockotel.Option{
		"nothing to record to":       nil,
		"pass WithTracerProvider":    {rlockotel.WithClass(sort)},
		"WithTracerProvider: it is":  {rlockotel.WithTracerProvider(nil)},
		"WithMeterProvider: it is":   {rlockotel.WithMeterProvider(nil)},
		"WithClass: it is nil; leav": {rlockotel.WithMeterProvider(provider), rlockotel.WithClass(nil)},
	} {
		_, err := rlockotel.NewObserver(options...)
		require.ErrorContains(t, err, want)
	}
}

func BenchmarkObserve(b *testing.B) {
	provider, _ := meters(b)
	observer, err := rlockotel.NewObserver(rlockotel.WithMeterProvider(provider), rlockotel.WithTracerProvider(trace.NewTracerProvider()), rlockotel.WithClass(sort))
	require.NoError(b, err)
	for b.Loop() {
		observer.Observe(b.Context(), rlock.Event{Kind: rlock.EventAcquired, Key: "order:17", Attempts: 1, Waited: time.Millisecond})
		observer.Observe(b.Context(), rlock.Event{Kind: rlock.EventReleased, Key: "order:17", Held: time.Millisecond})
	}
}
