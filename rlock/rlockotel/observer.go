package rlockotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/rlock-go/toolkit/rlock"
)

// Option is an option of [NewObserver].
type Option func(*observer) error

// WithTracerProvider has each acquisition that waits recorded as a span of a tracer of the provider.
func WithTracerProvider(provider trace.TracerProvider) Option {
	return func(o *observer) error {
		if provider == nil {
			return errors.New("rlockotel: WithTracerProvider: it is nil; leave the option out for no spans")
		}
		o.tracer = provider.Tracer(scope)
		return nil
	}
}

// WithMeterProvider has the histograms recorded with a meter of the provider.
func WithMeterProvider(provider metric.MeterProvider) Option {
	return func(o *observer) (err error) {
		if provider == nil {
			return errors.New("rlockotel: WithMeterProvider: it is nil; leave the option out for no histograms")
		}
		meter := provider.Meter(scope)
		var failed error
		o.acquire, failed = meter.Float64Histogram("rlock.acquire.duration", metric.WithUnit("s"),
			metric.WithDescription("How long acquisitions took."), metric.WithExplicitBucketBoundaries(bounds()...))
		o.hold, err = meter.Float64Histogram("rlock.hold.duration", metric.WithUnit("s"),
			metric.WithDescription("How long locks were held."), metric.WithExplicitBucketBoundaries(bounds()...))
		return errors.Join(failed, err)
	}
}

// WithClass gives spans and histograms the attribute rlock.class: what class returns for the key, prefix
// included; of a set, the first key, or the one that stood in the way. It must be quick, safe for
// concurrent use and, above all, have few answers, because each is a time series of its own.
func WithClass(class func(key string) string) Option {
	return func(o *observer) error {
		o.class = class
		if class == nil {
			return errors.New("rlockotel: WithClass: it is nil; leave the option out for no classes")
		}
		return nil
	}
}

// NewObserver returns an observer for [rlock.WithObserver] that records spans or histograms or both, as
// the options say; [rlock.Observers] puts another one beside it. The error says which option is missing or
// cannot be.
func NewObserver(options ...Option) (rlock.Observer, error) {
	o := &observer{}
	for _, option := range options {
		if err := option(o); err != nil {
			return nil, err
		}
	}
	if o.tracer == nil && o.acquire == nil {
		return nil, errors.New("rlockotel: nothing to record to; pass WithTracerProvider or WithMeterProvider")
	}
	return o, nil
}

// bounds are those of the histograms of a Locker, but every other one, as there is one histogram for
// each combination of attributes.
func bounds() (bounds []float64) {
	var h rlock.Histogram
	for i := 0; i < len(h.Counts)-1; i += 2 {
		bounds = append(bounds, h.Bound(i))
	}
	return bounds
}

type observer struct {
	tracer        trace.Tracer // nil: no spans
	acquire, hold metric.Float64Histogram
	class         func(key string) string
}

// Observe records what the event ends.
func (o *observer) Observe(ctx context.Context, e rlock.Event) {
	switch e.Kind {
	case rlock.EventAcquired, rlock.EventAcquireFailed:
		result := outcome(e)
		if o.acquire != nil {
			o.acquire.Record(ctx, e.Waited.Seconds(), o.with(e,
				attribute.String("rlock.outcome", result), attribute.Bool("rlock.contended", e.Contended)))
		}
		if o.tracer != nil && result != "held" && (e.Contended || e.Attempts > 1) {
			o.span(ctx, e, result)
		}
	case rlock.EventReleased, rlock.EventReleaseFailed, rlock.EventLost, rlock.EventDetached, rlock.EventClosed:
		if o.hold != nil {
			o.hold.Record(ctx, e.Held.Seconds(), o.with(e, attribute.String("rlock.end", end(e))))
		}
	}
}

// span records the span of an acquisition that has ended. Its text is never that of the error, which has
// the key in it.
func (o *observer) span(ctx context.Context, e rlock.Event, result string) {
	now := time.Now()
	attributes := o.attributes(e, attribute.String("rlock.outcome", result), attribute.Int("rlock.attempts", e.Attempts),
		attribute.Bool("rlock.handed_over", e.HandedOver))
	if e.Fence > 0 {
		attributes = append(attributes, attribute.Int64("rlock.fence", int64(e.Fence)))
	}
	_, span := o.tracer.Start(ctx, "rlock.wait", trace.WithTimestamp(now.Add(-e.Waited)), trace.WithAttributes(attributes...))
	if e.Err != nil {
		span.SetStatus(codes.Error, result)
	}
	span.End(trace.WithTimestamp(now))
}

func (o *observer) with(e rlock.Event, attributes ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributes(o.attributes(e, attributes...)...)
}

// attributes adds the class.
func (o *observer) attributes(e rlock.Event, attributes ...attribute.KeyValue) []attribute.KeyValue {
	if o.class != nil {
		attributes = append(attributes, attribute.String("rlock.class", o.class(e.Key)))
	}
	return attributes
}

// outcome says in a word how an acquisition has ended.
func outcome(e rlock.Event) string {
	if reason := e.Reason(); reason != 0 {
		return reason.String()
	}
	return "acquired"
}

// end says in a word how a lock has ended.
func end(e rlock.Event) string {
	switch {
	case e.Kind == rlock.EventLost && errors.Is(e.Err, rlock.ErrExpired):
		return "expired"
	case e.Kind == rlock.EventReleaseFailed:
		return "release_failed"
	}
	return e.Kind.String()
}
