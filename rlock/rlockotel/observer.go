package rlockotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/rlock-go/toolkit/rlock"
)

// errorType is OpenTelemetry's attribute for the reason of a failure.
const errorType = "error.type"

var errNoMeters = errors.New("rlockotel: the MeterProvider is nil; " +
	"pass the one that the program has set up, or otel.GetMeterProvider()")

// NewObserver makes the metrics of classes with a meter of the provider, and returns an Observer that counts
// them, for [rlock.WithObserver]. To use a second Observer, such as [NewTracer], combine both with
// [rlock.Observers].
//
// class returns the class of a key. The key has its prefix. For a set, it is the key in the way or the first
// key. class must be quick and safe for concurrent use. It must have few results, because after the first 100
// classes each further one counts as "other". If class is nil, there are no classes.
//
// The error comes from the meter.
func NewObserver(provider metric.MeterProvider, class func(key string) string) (rlock.Observer, error) {
	if provider == nil {
		return nil, errNoMeters
	}
	meter := provider.Meter(scope)
	events, failed := meter.Int64Counter("rlock.class.events", metric.WithUnit("{event}"),
		metric.WithDescription("What has happened to locks of a class of keys, and why it has failed."))
	waits, err := meter.Float64Histogram("rlock.class.wait.duration", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(bounds()...),
		metric.WithDescription("How long acquisitions of a class of keys took that waited for others."))
	failed = errors.Join(failed, err)
	holds, err := meter.Float64Histogram("rlock.class.hold.duration", metric.WithUnit("s"),
		metric.WithExplicitBucketBoundaries(bounds()...),
		metric.WithDescription("How long locks of a class of keys were held."))
	if err = errors.Join(failed, err); err != nil {
		return nil, err
	}
	return &observer{classes: classes{of: class}, events: events, waits: waits, holds: holds}, nil
}

// bounds has every other bound of the histograms of a Locker, because there is one histogram for each class.
func bounds() (bounds []float64) {
	var h rlock.Histogram
	for i := 0; i < len(h.Counts)-1; i += 2 {
		bounds = append(bounds, h.Bound(i))
	}
	return bounds
}

type observer struct {
	classes      classes
	events       metric.Int64Counter
	waits, holds metric.Float64Histogram
}

// Observe counts an event.
func (o *observer) Observe(ctx context.Context, e rlock.Event) {
	class := o.classes.attributes(e.Key)
	of := metric.WithAttributes(class...)
	what := append(class, attribute.String("rlock.event", e.Kind.String()))
	if reason := e.Reason(); reason != 0 {
		what = append(what, attribute.String(errorType, reason.String()))
	}
	o.events.Add(ctx, 1, metric.WithAttributes(what...))
	switch e.Kind {
	case rlock.EventAcquired, rlock.EventAcquireFailed:
		if waited(e) {
			o.waits.Record(ctx, e.Waited.Seconds(), of)
		}
	case rlock.EventReleased, rlock.EventReleaseFailed, rlock.EventLost, rlock.EventExpired,
		rlock.EventDetached, rlock.EventClosed:
		o.holds.Record(ctx, e.Held.Seconds(), of)
	}
}

// waited reports whether an acquisition that has ended waited for others.
func waited(e rlock.Event) bool {
	return e.Contended && e.Reason() != rlock.ReasonHeld && e.Reason() != rlock.ReasonAlreadyHeld
}
