package rlockotel_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// inMemory returns a Locker on a server that can be in a bubble.
func inMemory(t *testing.T, opts ...rlock.LockerOption) *rlock.Locker {
	t.Helper()
	locker, err := rlock.Open(rlocktest.StartInMemory(t).Option(), opts...)
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return locker
}

// meters returns a provider, and a function that reads all its metrics: the values of counters and
// gauges, and count and sum of histograms, by name and attributes.
func meters(t testing.TB) (*metric.MeterProvider, func() map[string]string) {
	reader := metric.NewManualReader()
	return metric.NewMeterProvider(metric.WithReader(reader)), func() map[string]string {
		t.Helper()
		var all metricdata.ResourceMetrics
		require.NoError(t, reader.Collect(t.Context(), &all))
		series := map[string]string{}
		for _, scope := range all.ScopeMetrics {
			for _, m := range scope.Metrics {
				switch data := m.Data.(type) {
				case metricdata.Sum[int64]:
					for _, p := range data.DataPoints {
						series[m.Name+labels(p.Attributes)] = fmt.Sprint(p.Value)
					}
				case metricdata.Sum[float64]:
					for _, p := range data.DataPoints {
						series[m.Name+labels(p.Attributes)] = fmt.Sprint(p.Value)
					}
				case metricdata.Gauge[float64]:
					for _, p := range data.DataPoints {
						series[m.Name+labels(p.Attributes)] = fmt.Sprint(p.Value)
					}
				case metricdata.Histogram[float64]:
					for _, p := range data.DataPoints {
						series[m.Name+labels(p.Attributes)] = fmt.Sprintf("%d in %.0f s", p.Count, p.Sum)
					}
				default:
					t.Fatalf("%s has data of type %T", m.Name, data)
				}
			}
		}
		return series
	}
}

// labels shows attributes: {a=b,c=d}.
func labels(set attribute.Set) string {
	var all []string
	for _, a := range set.ToSlice() {
		all = append(all, fmt.Sprintf("%s=%s", strings.TrimPrefix(string(a.Key), "rlock."), a.Value.Emit()))
	}
	slices.Sort(all)
	if len(all) == 0 {
		return ""
	}
	return "{" + strings.Join(all, ",") + "}"
}
