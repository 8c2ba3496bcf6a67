package rlockotel

import (
	"context"
	"errors"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/rlock-go/toolkit/rlock"
)

// scope is the name of the instrumentation.
const scope = "github.com/rlock-go/toolkit/rlock/rlockotel"

// Source has counts. A *[rlock.Locker] is one.
type Source interface {
	Stats() rlock.Stats
}

// Register has a meter of the provider observe the counts of a Locker. Each time that a reader collects,
// it calls Stats once, which asks no server. It goes on after the Close of the Locker, until the
// Registration that it returns is told to Unregister.
//
// Each of attributes is one of all these metrics: where a program has several Lockers, it tells them
// apart, and without it their counts take each other's place.
//
// The error is that of the meter; nothing is observed then.
func Register(provider metric.MeterProvider, locker Source, attributes ...attribute.KeyValue) (metric.Registration, error) {
	if provider == nil {
		return nil, errors.New("rlockotel: the MeterProvider is nil; pass the one that the program has set up, or otel.GetMeterProvider()")
	}
	meter := provider.Meter(scope)
	r := registering{meter: meter}
	acquisitions := r.counter("acquisitions", "{acquisition}", "Acquisitions that have ended.")
	contended := r.counter("contended", "{acquisition}", "Acquisitions that found the lock held, or others before them.")
	handedOver := r.counter("handed_over", "{acquisition}", "Acquisitions to which the last holder of the same process handed the lock over.")
	attempts := r.counter("attempts", "{command}", "Commands to acquire that were sent to the server, repeated ones and heartbeats included.")
	attached := r.counter("attached", "{lock}", "Locks that were taken over from another process with Attach.")
	failures := r.counter("failures", "{failure}", "What has failed of acquisitions, extensions and releases, by why.")
	waiting := r.gauge("waiting", "{acquisition}", "Acquisitions that wait now, for others or for an answer of the server.")
	polling := r.gauge("polling", "{locker}", "1: nobody waits in the queue of the server; 0: they do.")
	unanswered := r.gauge("waiting.unanswered", "{acquisition}", "Those of rlock.waiting that the server does not answer.")
	oldest := r.age("oldest_wait", "How long the oldest of rlock.waiting has waited; 0: nobody waits.")
	waitTime := r.seconds("wait.time", "Time of the contended acquisitions that have ended.")
	held := r.gauge("held", "{lock}", "Locks that are held now.")
	holdTime := r.seconds("hold.time", "Time for which those locks were held that have ended.")
	extensions := r.counter("extensions", "{extension}", "Attempts to extend that have ended.")
	ended := r.counter("ended", "{lock}", "Locks that have ended: expired ones count when the process notices.")
	checks := r.counter("checks", "{check}", "Calls of Check, by whether the client-side cache answered.")
	if r.err != nil {
		return nil, r.err
	}
	with := func(key, value string) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(append([]attribute.KeyValue{attribute.String(key, value)}, attributes...)...))
	}
	all := metric.WithAttributeSet(attribute.NewSet(attributes...))
	acquired, failed, extended := with("rlock.outcome", "acquired"), with("rlock.outcome", "failed"), with("rlock.outcome", "extended")
	released, releaseFailed := with("rlock.end", "released"), with("rlock.end", "release_failed")
	lost, expired := with("rlock.end", "lost"), with("rlock.end", "expired")
	detached, closed := with("rlock.end", "detached"), with("rlock.end", "closed")
	hit, miss := with("rlock.cache", "hit"), with("rlock.cache", "miss")
	fails := failing(attributes)
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		s := locker.Stats()
		for _, c := range []struct {
			of    metric.Int64Observable
			count uint64
			with  metric.MeasurementOption
		}{
			{acquisitions, s.Acquired, acquired}, {acquisitions, s.AcquireFailed, failed},
			{contended, s.Contended, all}, {handedOver, s.HandedOver, all}, {attempts, s.Attempts, all}, {attached, s.Attached, all},
			{extensions, s.Extended, extended}, {extensions, s.ExtendFailed, failed},
			{ended, s.Released, released}, {ended, s.ReleaseFailed, releaseFailed}, {ended, s.Lost, lost},
			{ended, s.Expired, expired}, {ended, s.Detached, detached}, {ended, s.Closed, closed},
			{checks, s.CacheHits, hit}, {checks, s.Checks - s.CacheHits, miss},
		} {
			o.ObserveInt64(c.of, int64(c.count), c.with)
		}
		for _, of := range fails {
			for reason, n := range of.by(&s) {
				if reason > 0 {
					o.ObserveInt64(failures, int64(n), of.with[reason])
				}
			}
		}
		o.ObserveInt64(waiting, s.Waiting, all)
		o.ObserveInt64(unanswered, s.Unanswered, all)
		if s.Polling {
			o.ObserveInt64(polling, 1, all)
		} else {
			o.ObserveInt64(polling, 0, all)
		}
		o.ObserveFloat64(oldest, s.OldestWait.Seconds(), all)
		o.ObserveInt64(held, int64(s.Held), all)
		o.ObserveFloat64(waitTime, s.Waited.Seconds(), all)
		o.ObserveFloat64(holdTime, s.Holds.Sum, all)
		return nil
	}, r.made...)
}

// failingOf is one thing that fails, with the attributes of each reason.
type failingOf struct {
	by   func(*rlock.Stats) rlock.Failures
	with [len(rlock.Failures{})]metric.MeasurementOption
}

// failing returns what fails.
func failing(attributes []attribute.KeyValue) []failingOf {
	all := map[string]func(*rlock.Stats) rlock.Failures{
		"acquire": func(s *rlock.Stats) rlock.Failures { return s.AcquireFailedBy },
		"extend":  func(s *rlock.Stats) rlock.Failures { return s.ExtendFailedBy },
		"release": func(s *rlock.Stats) rlock.Failures { return s.ReleaseFailedBy },
	}
	var list []failingOf
	for op, by := range all {
		of := failingOf{by: by}
		for reason := range of.with {
			why := attribute.String("rlock.reason", rlock.FailureReason(reason).String())
			set := append([]attribute.KeyValue{attribute.String("rlock.operation", op), why}, attributes...)
			of.with[reason] = metric.WithAttributeSet(attribute.NewSet(set...))
		}
		list = append(list, of)
	}
	return list
}

// registering makes instruments until one cannot be made.
type registering struct {
	meter metric.Meter
	made  []metric.Observable
	err   error
}

// add notes an instrument, or why there is none.
func (r *registering) add(made metric.Observable, err error) {
	r.made, r.err = append(r.made, made), errors.Join(r.err, err)
}

func (r *registering) counter(name, unit, help string) metric.Int64Observable {
	c, err := r.meter.Int64ObservableCounter("rlock."+name, metric.WithUnit(unit), metric.WithDescription(help))
	r.add(c, err)
	return c
}

func (r *registering) gauge(name, unit, help string) metric.Int64Observable {
	c, err := r.meter.Int64ObservableUpDownCounter("rlock."+name, metric.WithUnit(unit), metric.WithDescription(help))
	r.add(c, err)
	return c
}

func (r *registering) age(name, help string) metric.Float64Observable {
	g, err := r.meter.Float64ObservableGauge("rlock."+name, metric.WithUnit("s"), metric.WithDescription(help))
	r.add(g, err)
	return g
}

func (r *registering) seconds(name, help string) metric.Float64Observable {
	c, err := r.meter.Float64ObservableCounter("rlock."+name, metric.WithUnit("s"), metric.WithDescription(help))
	r.add(c, err)
	return c
}
