package rlockotel_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
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

// Who waits has a span, below that of whoever called, and as long as the wait was. Who does not wait has
// none.
func TestSpans(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		recorder := tracetest.NewSpanRecorder()
		provider := trace.NewTracerProvider(trace.WithSpanProcessor(recorder))
		observer, err := rlockotel.NewTracer(provider, sort)
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
		require.Equal(t, fmt.Sprintf("{attempts=%d,class=order,error.type=gave_up,handed_over=false}",
			facts.Attempts), labels(attribute.NewSet(gaveUp.Attributes()...)))

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
		require.Equal(t, fmt.Sprintf("{attempts=%d,class=order,fence=%d,handed_over=true}", next.Attempts(),
			next.Fence()),
			labels(attribute.NewSet(waited.Attributes()...)))
		require.NoError(t, next.Release(t.Context()))
		for _, span := range spans {
			text := fmt.Sprint(span.Attributes(), span.Events(), span.Status())
			require.NotContains(t, text, "order:17")
		}
	})
}

func TestClasses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		provider, read := meters(t)
		observer, err := rlockotel.NewObserver(provider, sort)
		require.NoError(t, err)
		locker := inMemory(t, rlock.WithObserver(observer), rlock.WithTTL(time.Minute))
		lock, err := locker.Acquire(t.Context(), "order:17")
		require.NoError(t, err)
		_, err = locker.TryAcquire(t.Context(), "order:17")
		require.ErrorIs(t, err, rlock.ErrHeld)
		_, err = locker.Acquire(t.Context(), "order:17",
			rlock.WithRetry(rlock.Fixed(time.Second).MaxTime(4*time.Second)))
		require.ErrorIs(t, err, rlock.ErrGaveUp)
		require.NoError(t, lock.Release(t.Context()))
		_, err = locker.Acquire(t.Context(), "cart:1")
		require.NoError(t, err)
		time.Sleep(2 * time.Minute)
		require.Equal(t, map[string]string{
			"rlock.class.events{class=order,event=acquired}":                          "1",
			"rlock.class.events{class=order,event=contended}":                         "2",
			"rlock.class.events{class=order,error.type=held,event=acquire_failed}":    "1",
			"rlock.class.events{class=order,error.type=gave_up,event=acquire_failed}": "1",
			"rlock.class.events{class=order,event=released}":                          "1",
			"rlock.class.events{class=cart,event=acquired}":                           "1",
			"rlock.class.events{class=cart,event=expired}":                            "1",
			"rlock.class.wait.duration{class=order}":                                  "1 in 4 s",
			"rlock.class.hold.duration{class=order}":                                  "1 in 4 s",
			"rlock.class.hold.duration{class=cart}":                                   "1 in 60 s",
		}, read())
	})
}

// Without a function, all keys count together, and spans have no class.
func TestNoClasses(t *testing.T) {
	t.Parallel()
	provider, read := meters(t)
	observer, err := rlockotel.NewObserver(provider, nil)
	require.NoError(t, err)
	recorder := tracetest.NewSpanRecorder()
	tracer, err := rlockotel.NewTracer(trace.NewTracerProvider(trace.WithSpanProcessor(recorder)), nil)
	require.NoError(t, err)
	for _, key := range []string{"order:17", "cart:1"} {
		rlock.Observers(observer, tracer).Observe(t.Context(),
			rlock.Event{Kind: rlock.EventAcquired, Key: key, Attempts: 2})
	}
	require.Equal(t, map[string]string{"rlock.class.events{event=acquired}": "2"}, read())
	require.Len(t, recorder.Ended(), 2)
	require.Equal(t, "{attempts=2,handed_over=false}",
		labels(attribute.NewSet(recorder.Ended()[0].Attributes()...)))
}

// A function that answers with the key does not fill memory, and one that answers with what is no text fails
// no exporter.
func TestTooManyClasses(t *testing.T) {
	t.Parallel()
	provider, read := meters(t)
	observer, err := rlockotel.NewObserver(provider, func(key string) string { return key })
	require.NoError(t, err)
	ctx := t.Context()
	observer.Observe(ctx, rlock.Event{Kind: rlock.EventReleased, Key: "bad\xff"})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for i := range 1000 {
				observer.Observe(ctx, rlock.Event{Kind: rlock.EventReleased, Key: fmt.Sprint("key", i)})
			}
		})
	}
	group.Wait()
	var events, all int
	for name, value := range read() {
		if !strings.HasPrefix(name, "rlock.class.events") {
			continue
		}
		n, err := strconv.Atoi(value)
		require.NoError(t, err)
		events, all = events+1, all+n
	}
	require.Equal(t, 101, events, "a hundred, and the others")
	require.Equal(t, 4001, all)
	require.Equal(t, "1", read()["rlock.class.events{class=bad\uFFFD,event=released}"])
}

func TestRefused(t *testing.T) {
	t.Parallel()
	_, err := rlockotel.NewObserver(nil, sort)
	require.ErrorContains(t, err, "rlockotel: the MeterProvider is nil")
	_, err = rlockotel.NewTracer(nil, sort)
	require.ErrorContains(t, err, "rlockotel: the TracerProvider is nil")
}

func BenchmarkObserve(b *testing.B) {
	provider, _ := meters(b)
	observer, err := rlockotel.NewObserver(provider, sort)
	require.NoError(b, err)
	tracer, err := rlockotel.NewTracer(trace.NewTracerProvider(), sort)
	require.NoError(b, err)
	both := rlock.Observers(observer, tracer)
	for b.Loop() {
		both.Observe(b.Context(), rlock.Event{Kind: rlock.EventAcquired, Key: "order:17", Attempts: 1,
			Waited: time.Millisecond})
		both.Observe(b.Context(), rlock.Event{Kind: rlock.EventReleased, Key: "order:17", Held: time.Millisecond})
	}
}
