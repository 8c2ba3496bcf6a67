package rlockprom

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rlock-go/toolkit/rlock"
)

// mostClasses is how many classes an observer tells apart. Each is some 50 time series.
const mostClasses = 100

// other is the class of keys for which there is no class of their own any more.
const other = "other"

// NewObserver registers the metrics of classes with reg, and returns what counts them, for
// [rlock.WithObserver]; [rlock.Observers] puts another one beside it.
//
// class returns what a key, prefix included, counts as; of a set, the first key, or the one that stood in
// the way. It must be quick, safe for concurrent use and, above all, have few answers: after the
// first 100, each further one counts as "other".
//
// The error is that of the Registerer, such as a [prometheus.AlreadyRegisteredError] when reg has these
// metrics already; nothing is registered then. For a second observer use [prometheus.WrapRegistererWith].
func NewObserver(reg prometheus.Registerer, class func(key string) string) (rlock.Observer, error) {
	switch {
	case reg == nil:
		return nil, errors.New("rlockprom: the Registerer is nil; pass the registry that the program serves")
	case class == nil:
		return nil, errors.New("rlockprom: the function that makes a class of a key is nil; without classes, NewCollector is enough")
	}
	o := &observer{
		class: class,
		known: map[string]bool{},
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rlock_class_events_total", Help: "What has happened to locks of a class of keys.",
		}, []string{"class", "event"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rlock_class_failures_total", Help: "Failures of calls for a class of keys, by why.",
		}, []string{"class", "event", "reason"}),
		waits: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rlock_class_wait_seconds", Help: "How long acquisitions of a class of keys took that waited for others.", Buckets: bounds(),
		}, []string{"class"}),
		holds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rlock_class_hold_seconds", Help: "How long locks of a class of keys were held.", Buckets: bounds(),
		}, []string{"class"}),
	}
	var done []prometheus.Collector
	for _, c := range []prometheus.Collector{o.events, o.failures, o.waits, o.holds} {
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

// bounds are every other bound of the histograms of a Locker, because there is one histogram for each class.
func bounds() (bounds []float64) {
	var h rlock.Histogram
	for i := 0; i < len(h.Counts)-1; i += 2 {
		bounds = append(bounds, h.Bound(i))
	}
	return bounds
}

type observer struct {
	class        func(key string) string
	events       *prometheus.CounterVec
	failures     *prometheus.CounterVec
	waits, holds *prometheus.HistogramVec

	mu    sync.RWMutex
	known map[string]bool // the classes so far
}

// Observe counts an event.
func (o *observer) Observe(_ context.Context, e rlock.Event) {
	class := o.classOf(e.Key)
	event := strings.ReplaceAll(e.Kind.String(), " ", "_")
	o.events.WithLabelValues(class, event).Inc()
	if reason := e.Reason(); reason != 0 {
		o.failures.WithLabelValues(class, event, reason.String()).Inc()
	}
	switch e.Kind {
	case rlock.EventAcquired, rlock.EventAcquireFailed:
		if waited(e) {
			o.waits.WithLabelValues(class).Observe(e.Waited.Seconds())
		}
	case rlock.EventReleased, rlock.EventReleaseFailed, rlock.EventLost, rlock.EventDetached, rlock.EventClosed:
		o.holds.WithLabelValues(class).Observe(e.Held.Seconds())
	}
}

// waited reports whether an acquisition that has ended waited for others. One that does not wait, such as
// TryAcquire, fails with ErrHeld and without ErrGaveUp.
func waited(e rlock.Event) bool {
	return e.Contended && (e.Err == nil || errors.Is(e.Err, rlock.ErrGaveUp) || !errors.Is(e.Err, rlock.ErrHeld))
}

// classOf returns the class of a key: a label that Prometheus accepts, and one of the first.
func (o *observer) classOf(key string) string {
	class := strings.ToValidUTF8(o.class(key), "\uFFFD")
	o.mu.RLock()
	known, full := o.known[class], len(o.known) >= mostClasses
	o.mu.RUnlock()
	switch {
	case known:
		return class
	case full:
		return other
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.known) >= mostClasses && !o.known[class] {
		return other
	}
	o.known[class] = true
	return class
}
