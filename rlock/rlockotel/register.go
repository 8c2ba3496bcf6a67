package rlockotel

import (
	"context"
	"errors"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/rlock-go/toolkit/rlock"
)

// scope is the name of the instrumentation.
const scope = "github.com/rlock-go/toolkit/rlock/rlockotel"

// Source has counts. A *[rlock.Locker] is a Source.
type Source interface {
	Stats() rlock.Stats
}

// Register makes a meter of the provider that observes the counts of a Locker. Each collection calls Stats
// once, which asks no server. It goes on after Close of the Locker, until the caller calls Unregister on the
// Registration.
//
// All these metrics have the attributes. A program with several Lockers needs different attributes for each
// Locker. Otherwise the counts of one Locker replace those of another.
//
// The error comes from the meter. After an error the meter observes nothing.
func Register(provider metric.MeterProvider, locker Source,
	attributes ...attribute.KeyValue) (metric.Registration, error) {
	if provider == nil {
		return nil, errNoMeters
	}
	r := registering{meter: provider.Meter(scope), attributes: attributes}
	r.counter("acquired", "{acquisition}", "Acquisitions that succeeded.",
		func(s *rlock.Stats) uint64 { return s.Acquired })
	r.counter("attempts", "{command}",
		"Commands to acquire that were sent to the server, repeated ones and heartbeats included.",
		func(s *rlock.Stats) uint64 { return s.Attempts })
	r.counter("contended", "{acquisition}", "Acquisitions that found the lock held, or others before them.",
		func(s *rlock.Stats) uint64 { return s.Contended })
	r.counter("handed_over", "{acquisition}",
		"Acquisitions to which the last holder of the same process handed the lock over.",
		func(s *rlock.Stats) uint64 { return s.HandedOver })
	r.counter("attached", "{lock}", "Locks that were taken over from another process with Attach.",
		func(s *rlock.Stats) uint64 { return s.Attached })
	r.gauge("waiting", "{acquisition}", "Acquisitions that wait now, for others or for an answer of the server.",
		func(s *rlock.Stats) int64 { return s.Waiting })
	r.gauge("unanswered", "{acquisition}", "Those of rlock.waiting that the server does not answer.",
		func(s *rlock.Stats) int64 { return s.Unanswered })
	r.age("oldest_wait", "How long the oldest of rlock.waiting has waited; 0: nobody waits.",
		func(s *rlock.Stats) time.Duration { return s.OldestWait })
	r.gauge("polling", "{locker}", "1: all callers poll; 0: callers wait in the queue.", polling)
	r.gauge("held", "{lock}", "Locks that are held now.", func(s *rlock.Stats) int64 { return int64(s.Held) })
	r.counter("extended", "{lease}", "Leases extended.", func(s *rlock.Stats) uint64 { return s.Extended })
	r.counters("ended", "{lock}", "Locks that have ended, by how: expired ones count when the process notices.",
		"rlock.how", map[string]func(*rlock.Stats) uint64{
			"released":       func(s *rlock.Stats) uint64 { return s.Released },
			"release_failed": func(s *rlock.Stats) uint64 { return s.ReleaseFailed },
			"lost":           func(s *rlock.Stats) uint64 { return s.Lost },
			"expired":        func(s *rlock.Stats) uint64 { return s.Expired },
			"detached":       func(s *rlock.Stats) uint64 { return s.Detached },
			"closed":         func(s *rlock.Stats) uint64 { return s.Closed },
		})
	r.counters("checks", "{check}", "Calls of Check, by whether the client-side cache answered.",
		"rlock.cache", map[string]func(*rlock.Stats) uint64{
			"hit":  func(s *rlock.Stats) uint64 { return s.CacheHits },
			"miss": func(s *rlock.Stats) uint64 { return s.Checks - s.CacheHits },
		})
	r.failures("acquire_failed", "{acquisition}", "Acquisitions that failed, by why.",
		func(s *rlock.Stats) rlock.Failures { return s.AcquireFailedBy })
	r.failures("extend_failed", "{attempt}", "Attempts to extend that failed while the lease lasted, by why.",
		func(s *rlock.Stats) rlock.Failures { return s.ExtendFailedBy })
	r.failures("release_failed", "{lock}", "Locks given up without the confirmation of the server, by why.",
		func(s *rlock.Stats) rlock.Failures { return s.ReleaseFailedBy })
	r.seconds("wait.time", "Time of the contended acquisitions that have ended.",
		func(s *rlock.Stats) float64 { return s.Waited.Seconds() })
	r.seconds("hold.time", "Time for which those locks were held that have ended.",
		func(s *rlock.Stats) float64 { return s.Holds.Sum })
	if r.err != nil {
		return nil, r.err
	}
	return r.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := locker.Stats()
		for _, observe := range r.observe {
			observe(o, &s)
		}
		return nil
	}, r.made...)
}

func polling(s *rlock.Stats) int64 {
	if s.Polling {
		return 1
	}
	return 0
}

// registering makes the instruments and their observation, and stops at the first error.
type registering struct {
	meter      metric.Meter
	attributes []attribute.KeyValue
	made       []metric.Observable
	observe    []func(metric.Observer, *rlock.Stats)
	err        error
}

// add notes an instrument with its observation, or the error.
func (r *registering) add(made metric.Observable, err error, observe func(metric.Observer, *rlock.Stats)) {
	r.made, r.observe, r.err = append(r.made, made), append(r.observe, observe), errors.Join(r.err, err)
}

// with returns the attributes of all metrics, and more.
func (r *registering) with(more ...attribute.KeyValue) metric.MeasurementOption {
	return metric.WithAttributeSet(attribute.NewSet(append(more, r.attributes...)...))
}

func (r *registering) counter(name, unit, help string, value func(*rlock.Stats) uint64) {
	c, err := r.meter.Int64ObservableCounter("rlock."+name, metric.WithUnit(unit), metric.WithDescription(help))
	with := r.with()
	r.add(c, err, func(o metric.Observer, s *rlock.Stats) { o.ObserveInt64(c, int64(value(s)), with) })
}

// counters makes one counter whose values differ in an attribute.
func (r *registering) counters(name, unit, help, key string, values map[string]func(*rlock.Stats) uint64) {
	c, err := r.meter.Int64ObservableCounter("rlock."+name, metric.WithUnit(unit), metric.WithDescription(help))
	with := map[string]metric.MeasurementOption{}
	for word := range values {
		with[word] = r.with(attribute.String(key, word))
	}
	r.add(c, err, func(o metric.Observer, s *rlock.Stats) {
		for word, value := range values {
			o.ObserveInt64(c, int64(value(s)), with[word])
		}
	})
}

// failures makes a counter with a value for each reason, also for a reason with the count 0.
func (r *registering) failures(name, unit, help string, of func(*rlock.Stats) rlock.Failures) {
	values := map[string]func(*rlock.Stats) uint64{}
	for reason := 1; reason < len(rlock.Failures{}); reason++ {
		values[rlock.FailureReason(reason).String()] = func(s *rlock.Stats) uint64 { return of(s)[reason] }
	}
	r.counters(name, unit, help, errorType, values)
}

func (r *registering) gauge(name, unit, help string, value func(*rlock.Stats) int64) {
	c, err := r.meter.Int64ObservableUpDownCounter("rlock."+name, metric.WithUnit(unit),
		metric.WithDescription(help))
	with := r.with()
	r.add(c, err, func(o metric.Observer, s *rlock.Stats) { o.ObserveInt64(c, value(s), with) })
}

func (r *registering) age(name, help string, value func(*rlock.Stats) time.Duration) {
	g, err := r.meter.Float64ObservableGauge("rlock."+name, metric.WithUnit("s"), metric.WithDescription(help))
	with := r.with()
	r.add(g, err, func(o metric.Observer, s *rlock.Stats) { o.ObserveFloat64(g, value(s).Seconds(), with) })
}

func (r *registering) seconds(name, help string, value func(*rlock.Stats) float64) {
	c, err := r.meter.Float64ObservableCounter("rlock."+name, metric.WithUnit("s"), metric.WithDescription(help))
	with := r.with()
	r.add(c, err, func(o metric.Observer, s *rlock.Stats) { o.ObserveFloat64(c, value(s), with) })
}
