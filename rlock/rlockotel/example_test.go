package rlockotel_test

import (
	"context"
	"fmt"
	"log"
	"strings"
	"time"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockotel"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// embedded returns a Locker on a server inside the process, so that the examples run anywhere.
// A program has rlock.Open(rueidis.ClientOption{InitAddress: …}).
func embedded(opts ...rlock.LockerOption) (*rlock.Locker, func()) {
	server, err := rlocktest.Open()
	if err != nil {
		log.Fatal(err)
	}
	locker, err := rlock.Open(server.Option(), opts...)
	if err != nil {
		log.Fatal(err)
	}
	return locker, func() {
		locker.Close()
		server.Close()
	}
}

// The provider is the program's, with a reader that exports; here the program reads by itself.
func ExampleRegister() {
	reader := metric.NewManualReader()
	provider := metric.NewMeterProvider(metric.WithReader(reader))
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	registration, err := rlockotel.Register(provider, locker)
	if err != nil {
		log.Fatal(err)
	}
	defer registration.Unregister()

	if _, err := locker.Acquire(ctx, "import"); err != nil {
		log.Fatal(err)
	}
	var all metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &all); err != nil {
		log.Fatal(err)
	}
	for _, m := range all.ScopeMetrics[0].Metrics {
		if m.Name == "rlock.held" {
			fmt.Println(m.Name, m.Data.(metricdata.Sum[int64]).DataPoints[0].Value)
		}
	}
	// Output: rlock.held 1
}

// A request that waits for a lock has a span for that in its trace.
func ExampleNewTracer() {
	exporter := tracetest.NewInMemoryExporter()
	provider := trace.NewTracerProvider(trace.WithSyncer(exporter))
	observer, err := rlockotel.NewTracer(provider, func(key string) string {
		class, _, _ := strings.Cut(key, ":")
		return class
	})
	if err != nil {
		log.Fatal(err)
	}
	locker, done := embedded(rlock.WithObserver(observer))
	defer done()
	if _, err := locker.Acquire(context.Background(), "order:17"); err != nil { // another request
		log.Fatal(err)
	}

	ctx, request := provider.Tracer("shop").Start(context.Background(), "POST /orders/17")
	impatient, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = locker.Acquire(impatient, "order:17")
	request.End()
	fmt.Println(err != nil)
	for _, span := range exporter.GetSpans() {
		fmt.Println(span.Name, span.Status.Description, span.Parent.IsValid())
	}
	// Output:
	// true
	// rlock.wait gave_up true
	// POST /orders/17  false
}
