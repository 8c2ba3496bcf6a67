package rlock_test

import (
	"context"
	"expvar"
	"fmt"
	"log"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/rlock"
)

// Counters in expvar: those that the Locker keeps anyway, and one for each kind of
// event of the keys of one sort.
func ExampleWithObserver_metrics() {
	events := expvar.NewMap("lock_events")
	count := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
		sort, _, _ := strings.Cut(e.Key, ":") // a metric for each key would be too many
		events.Add(sort+" "+e.Kind.String(), 1)
	})
	locker, done := embedded(rlock.WithObserver(count))
	defer done()
	expvar.Publish("locks", expvar.Func(func() any { return locker.Stats() }))
	ctx := context.Background()

	for i := range 3 {
		err := locker.Do(ctx, fmt.Sprint("order:", i), func(context.Context, *rlock.Lock) error { return nil })
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println(events)
	fmt.Println(locker.Stats().Acquired)
	// Output:
	// {"order acquired": 3, "order released": 3}
	// 3
}

// A trace: the events of a lock in the span of whoever acquires it. With
// OpenTelemetry, span is trace.SpanFromContext(ctx), which has AddEvent.
func ExampleWithObserver_tracing() {
	type span struct{ name string }
	type spanKey struct{}
	trace := rlock.ObserverFunc(func(ctx context.Context, e rlock.Event) {
		if s, ok := ctx.Value(spanKey{}).(*span); ok {
			fmt.Println(s.name, "|", e.Kind, e.Key, "| attempts", e.Attempts, "| error", e.Err)
		}
	})
	locker, done := embedded(rlock.WithObserver(trace))
	defer done()
	ctx := context.WithValue(context.Background(), spanKey{}, &span{"POST /orders/17"})

	lock, err := locker.Acquire(ctx, "order:17")
	if err != nil {
		log.Fatal(err)
	}
	// another request, without a span
	if _, err := locker.TryAcquire(context.Background(), "order:17"); err == nil {
		log.Fatal("two holders")
	}
	if err := lock.Extend(ctx, time.Minute); err != nil {
		log.Fatal(err)
	}
	if err := lock.Release(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// POST /orders/17 | acquired order:17 | attempts 1 | error <nil>
	// POST /orders/17 | extended order:17 | attempts 1 | error <nil>
	// POST /orders/17 | released order:17 | attempts 1 | error <nil>
}

func ExampleSlogObserver() {
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		Level: slog.LevelInfo,
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey || a.Key == "fence" || a.Key == "held" {
				return slog.Attr{} // so that the output is the same every time
			}
			return a
		},
	}))
	locker, done := embedded(rlock.WithObserver(rlock.SlogObserver(logger)))
	defer done()
	ctx := context.Background()

	if _, err := locker.Acquire(ctx, "import"); err != nil {
		log.Fatal(err)
	}
	locker.Close() // while the lock is held
	// Output:
	// level=INFO msg="rlock: closed" key=import attempts=1 error="rlock: locker is closed"
}
