package rlockprom

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rlock-go/toolkit/rlock"
)

// NewObserver registers the metrics of classes with reg, and returns an Observer that counts them, for
// [rlock.WithObserver]. To use a second Observer, combine both with [rlock.Observers].
//
// class returns the class of a key. The key has its prefix. For a set, it is the key in the way or the first
// key. class must be quick and safe for concurrent use. It must have few results, because after the first 100
// classes each further one counts as "other". If class is nil, there are no classes.
//
// The error comes from the Registerer, such as a [prometheus.AlreadyRegisteredError] if reg already has these
// metrics. After an error nothing is registered. For a second observer use [prometheus.WrapRegistererWith].
func NewObserver(reg prometheus.Registerer, class func(key string) string) (rlock.Observer, error) {
	if reg == nil {
		return nil, errors.New("rlockprom: the Registerer is nil; pass the registry that the program serves")
	}
	o := &observer{
		classes: classes{of: class},
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rlock_class_events_total",
			Help: "What has happened to locks of a class of keys, and why it has failed.",
		}, []string{"class", "event", "reason"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rlock_class_wait_duration_seconds",
			Help: "How long acquisitions of a class of keys took that waited for others.", Buckets: bounds(),
		}, []string{"class"}),
		holds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rlock_class_hold_duration_seconds",
			Help: "How long locks of a class of keys were held.", Buckets: bounds(),
		}, []string{"class"}),
	}
	var done []prometheus.Collector
	for _, c := range []prometheus.Collector{o.events, o.waits, o.holds} {
		if err := reg.Register(c); err != nil {
			for _, d := range done {
				reg.Unregister(d)
			}
			return nil, err
		}
		done = append(done, c)
	}
	return o, nil
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
	events       *prometheus.CounterVec
	waits, holds *prometheus.HistogramVec
}

// Observe counts an event.
func (o *observer) Observe(_ context.Context, e rlock.Event) {
	class := o.classes.class(e.Key)
	why := "" // to Prometheus, "" is no label
	if reason := e.Reason(); reason != 0 {
		why = reason.String()
	}
	o.events.WithLabelValues(class, e.Kind.String(), why).Inc()
	switch e.Kind {
	case rlock.EventAcquired, rlock.EventAcquireFailed:
		if waited(e) {
			o.waits.WithLabelValues(class).Observe(e.Waited.Seconds())
		}
	case rlock.EventReleased, rlock.EventReleaseFailed, rlock.EventLost, rlock.EventExpired,
		rlock.EventDetached, rlock.EventClosed:
		o.holds.WithLabelValues(class).Observe(e.Held.Seconds())
	}
}

// waited reports whether an acquisition that has ended waited for others.
func waited(e rlock.Event) bool {
	return e.Contended && e.Reason() != rlock.ReasonHeld && e.Reason() != rlock.ReasonAlreadyHeld
}
