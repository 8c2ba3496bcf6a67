package rlockprom

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rlock-go/toolkit/rlock"
)

// Source has counts. A *[rlock.Locker] is a Source.
type Source interface {
	Stats() rlock.Stats
}

// NewCollector returns a Collector of the counts of a Locker, for a Registerer:
//
//	err := registry.Register(rlockprom.NewCollector(locker))
//
// Each collection calls Stats once, which asks no server. A program may register the Collector before it uses
// the Locker, and keep it after Close.
//
// A second Locker has metrics of the same names, which the Registerer refuses. Give each Locker a label with
// [prometheus.WrapRegistererWith]:
//
//	jobs := prometheus.WrapRegistererWith(prometheus.Labels{"locker": "jobs"}, registry)
//	err := jobs.Register(rlockprom.NewCollector(locker))
func NewCollector(locker Source) prometheus.Collector { return collector{locker} }

// collector needs no mutex, because Stats needs none.
type collector struct{ source Source }

// metric has one value in each Stats.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	label string // its value, where the metric has a label
	value func(*rlock.Stats) float64
}

// failure is a metric with a counter for each reason.
type failure struct {
	desc *prometheus.Desc
	of   func(*rlock.Stats) rlock.Failures
}

// histogram is a metric that is a histogram.
type histogram struct {
	desc *prometheus.Desc
	of   func(*rlock.Stats) rlock.Histogram
}

func counter(name, help string, value func(*rlock.Stats) uint64) metric {
	return metric{describe(name, help), prometheus.CounterValue, "",
		func(s *rlock.Stats) float64 { return float64(value(s)) }}
}

func gauge(name, help string, value func(*rlock.Stats) float64) metric {
	return metric{describe(name, help), prometheus.GaugeValue, "", value}
}

// labelled is one of several counters with the same name.
func labelled(desc *prometheus.Desc, label string, value func(*rlock.Stats) uint64) metric {
	return metric{desc, prometheus.CounterValue, label,
		func(s *rlock.Stats) float64 { return float64(value(s)) }}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("rlock_"+name, help, labels, nil)
}

var (
	ended = describe("ended_total",
		"Locks that have ended, by how: expired ones count when the process notices.", "how")
	checks = describe("checks_total", "Calls of Check, by whether the client-side cache answered.", "cache")

	metrics = []metric{
		counter("acquired_total", "Acquisitions that succeeded.",
			func(s *rlock.Stats) uint64 { return s.Acquired }),
		counter("attempts_total", "Commands to acquire that were sent to the server, repeated ones and heartbeats "+
			"included.", func(s *rlock.Stats) uint64 { return s.Attempts }),
		counter("contended_total", "Acquisitions that found the lock held, or others before them.",
			func(s *rlock.Stats) uint64 { return s.Contended }),
		counter("handed_over_total",
			"Acquisitions to which the last holder of the same process handed the lock over.",
			func(s *rlock.Stats) uint64 { return s.HandedOver }),
		counter("attached_total", "Locks that were taken over from another process with Attach.",
			func(s *rlock.Stats) uint64 { return s.Attached }),
		gauge("waiting", "Acquisitions that wait now, for others or for an answer of the server.",
			func(s *rlock.Stats) float64 { return float64(s.Waiting) }),
		gauge("unanswered", "Those of rlock_waiting that the server does not answer.",
			func(s *rlock.Stats) float64 { return float64(s.Unanswered) }),
		gauge("oldest_wait_seconds", "How long the oldest of rlock_waiting has waited; 0: nobody waits.",
			func(s *rlock.Stats) float64 { return s.OldestWait.Seconds() }),
		gauge("polling", "1: all callers poll; 0: callers wait in the queue.", polling),
		gauge("held", "Locks that are held now.", func(s *rlock.Stats) float64 { return float64(s.Held) }),
		counter("extended_total", "Leases extended.", func(s *rlock.Stats) uint64 { return s.Extended }),
		labelled(ended, "released", func(s *rlock.Stats) uint64 { return s.Released }),
		labelled(ended, "release_failed", func(s *rlock.Stats) uint64 { return s.ReleaseFailed }),
		labelled(ended, "lost", func(s *rlock.Stats) uint64 { return s.Lost }),
		labelled(ended, "expired", func(s *rlock.Stats) uint64 { return s.Expired }),
		labelled(ended, "detached", func(s *rlock.Stats) uint64 { return s.Detached }),
		labelled(ended, "closed", func(s *rlock.Stats) uint64 { return s.Closed }),
		labelled(checks, "hit", func(s *rlock.Stats) uint64 { return s.CacheHits }),
		labelled(checks, "miss", func(s *rlock.Stats) uint64 { return s.Checks - s.CacheHits }),
	}

	failures = []failure{
		{describe("acquire_failed_total", "Acquisitions that failed, by why.", "reason"),
			func(s *rlock.Stats) rlock.Failures { return s.AcquireFailedBy }},
		{describe("extend_failed_total", "Attempts to extend that failed while the lease lasted, by why.",
			"reason"),
			func(s *rlock.Stats) rlock.Failures { return s.ExtendFailedBy }},
		{describe("release_failed_total", "Locks given up without the confirmation of the server, by why.",
			"reason"),
			func(s *rlock.Stats) rlock.Failures { return s.ReleaseFailedBy }},
	}

	histograms = []histogram{
		{describe("wait_duration_seconds", "How long acquisitions took that waited for others."),
			func(s *rlock.Stats) rlock.Histogram { return s.Waits }},
		{describe("hold_duration_seconds", "How long locks were held that have ended."),
			func(s *rlock.Stats) rlock.Histogram { return s.Holds }},
	}
)

// Describe sends the description of each metric that Collect sends.
func (collector) Describe(to chan<- *prometheus.Desc) {
	for _, m := range metrics {
		to <- m.desc
	}
	for _, f := range failures {
		to <- f.desc
	}
	for _, h := range histograms {
		to <- h.desc
	}
}

// Collect sends the present counts. It leaves Waited out, because the histogram of the waits has the sum.
func (c collector) Collect(to chan<- prometheus.Metric) {
	s := c.source.Stats()
	for _, m := range metrics {
		var labels []string
		if m.label != "" {
			labels = []string{m.label}
		}
		to <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(&s), labels...)
	}
	for _, f := range failures {
		for reason, n := range f.of(&s) {
			if reason > 0 { // also with 0: Prometheus misses a counter that begins at 1
				why := rlock.FailureReason(reason).String()
				to <- prometheus.MustNewConstMetric(f.desc, prometheus.CounterValue, float64(n), why)
			}
		}
	}
	for _, h := range histograms {
		of := h.of(&s)
		to <- prometheus.MustNewConstHistogram(h.desc, of.Count(), of.Sum, cumulative(of))
	}
}

// cumulative returns the number of durations up to each bound. It leaves out the last bound, which Prometheus
// adds.
func cumulative(h rlock.Histogram) map[float64]uint64 {
	last := len(h.Counts) - 1
	buckets := make(map[float64]uint64, last)
	below := uint64(0)
	for i, n := range h.Counts[:last] {
		below += n
		buckets[h.Bound(i)] = below
	}
	return buckets
}

func polling(s *rlock.Stats) float64 {
	if s.Polling {
		return 1
	}
	return 0
}
