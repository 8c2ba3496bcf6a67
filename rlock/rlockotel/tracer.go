package rlockotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/rlock-go/toolkit/rlock"
)

// NewTracer returns an Observer for [rlock.WithObserver] that records a span for each acquisition that waits,
// with a tracer of the provider. To use a second Observer, combine both with [rlock.Observers]. class is the
// same as in [NewObserver].
func NewTracer(provider trace.TracerProvider, class func(key string) string) (rlock.Observer, error) {
	if provider == nil {
		return nil, errors.New("rlockotel: the TracerProvider is nil; pass the one that the program has set up, " +
			"or otel.GetTracerProvider()")
	}
	return &tracer{classes: classes{of: class}, tracer: provider.Tracer(scope)}, nil
}

type tracer struct {
	classes classes
	tracer  trace.Tracer
}

// Observe records the span of an acquisition that has ended. The span never has the text of the error,
// because that text has the key.
func (t *tracer) Observe(ctx context.Context, e rlock.Event) {
	reason := e.Reason()
	if e.Kind != rlock.EventAcquired && e.Kind != rlock.EventAcquireFailed || reason == rlock.ReasonHeld ||
		!e.Contended && e.Attempts <= 1 {
		return
	}
	now := time.Now()
	attributes := append(t.classes.attributes(e.Key),
		attribute.Int("rlock.attempts", e.Attempts), attribute.Bool("rlock.handed_over", e.HandedOver))
	if e.Fence > 0 {
		attributes = append(attributes, attribute.Int64("rlock.fence", int64(e.Fence)))
	}
	if reason != 0 {
		attributes = append(attributes, attribute.String(errorType, reason.String()))
	}
	_, span := t.tracer.Start(ctx, "rlock.wait",
		trace.WithTimestamp(now.Add(-e.Waited)), trace.WithAttributes(attributes...))
	if reason != 0 {
		span.SetStatus(codes.Error, reason.String())
	}
	span.End(trace.WithTimestamp(now))
}
