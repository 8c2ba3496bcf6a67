package metrics

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	trace "go.opentelemetry.io/proto/otlp/trace/v1"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockotel"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Locks on a server are told to a collector by OpenTelemetry's own SDK and exporters: the wait as a span
// within that of the request, the counts, and the lengths as histograms.
func TestOpenTelemetry(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c := startCollector(t)
	spans, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(c.url+"/v1/traces"))
	require.NoError(t, err)
	traces := sdktrace.NewTracerProvider(sdktrace.WithBatcher(spans))
	points, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(c.url+"/v1/metrics"))
	require.NoError(t, err)
	meters := metric.NewMeterProvider(
		metric.WithReader(metric.NewPeriodicReader(points, metric.WithInterval(time.Hour))))

	class := func(key string) string {
		class, _, _ := strings.Cut(key, ":")
		return class
	}
	observer, err := rlockotel.NewObserver(meters, class)
	require.NoError(t, err)
	tracer, err := rlockotel.NewTracer(traces, class)
	require.NoError(t, err)
	locker := env.OpenOn(t, env.Start(t), rlock.WithObserver(rlock.Observers(observer, tracer)),
		rlock.WithTTL(time.Minute))
	registration, err := rlockotel.Register(meters, locker)
	require.NoError(t, err)

	lock, err := locker.Acquire(ctx, "order:secret")
	require.NoError(t, err)
	request, parent := traces.Tracer("shop").Start(ctx, "POST /orders")
	impatient, cancel := context.WithTimeout(request, time.Second)
	defer cancel()
	_, err = locker.Acquire(impatient, "order:secret")
	require.ErrorIs(t, err, rlock.ErrGaveUp)
	parent.End()
	token, fence := lock.Token(), lock.Fence()
	require.NotEmpty(t, token)
	require.NotZero(t, fence)
	require.NoError(t, meters.ForceFlush(ctx))
	require.Equal(t, map[string]int64{"": 1}, c.series("rlock.held"))
	require.NoError(t, lock.Release(ctx))
	require.NoError(t, traces.ForceFlush(ctx))
	require.NoError(t, meters.ForceFlush(ctx))

	waits, requests := c.named("rlock.wait"), c.named("POST /orders")
	require.Len(t, waits, 1)
	require.Len(t, requests, 1)
	require.Equal(t, requests[0].SpanId, waits[0].ParentSpanId)
	require.Equal(t, requests[0].TraceId, waits[0].TraceId)
	require.Equal(t, trace.Status_STATUS_CODE_ERROR, waits[0].Status.Code)
	require.Equal(t, "gave_up", waits[0].Status.Message)
	require.Equal(t, "error.type=gave_up,rlock.class=order", attributes(waits[0].Attributes))
	require.GreaterOrEqual(t, waits[0].EndTimeUnixNano-waits[0].StartTimeUnixNano, uint64(10*time.Millisecond))

	require.Equal(t, map[string]int64{"": 1}, c.series("rlock.acquired"))
	require.Equal(t, int64(1), c.series("rlock.acquire_failed")["error.type=gave_up"])
	require.Equal(t, map[string]int64{"": 1}, c.series("rlock.contended"))
	require.Equal(t, map[string]int64{"": 0}, c.series("rlock.held"))
	require.Equal(t, int64(1), c.series("rlock.ended")["rlock.how=released"])
	held := c.histograms("rlock.class.hold.duration")["rlock.class=order"]
	require.NotNil(t, held)
	require.Equal(t, uint64(1), held.Count)
	require.GreaterOrEqual(t, held.GetSum(), 0.02)

	require.NoError(t, registration.Unregister())
	require.NoError(t, traces.Shutdown(ctx))
	require.NoError(t, meters.Shutdown(ctx))
	require.Empty(t, c.wrong)
	require.NotContains(t, c.everything(), "secret", "a key is no attribute")
	require.NotContains(t, c.everything(), token)
}
