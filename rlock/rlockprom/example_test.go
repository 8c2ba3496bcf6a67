package rlockprom_test

import (
	"context"
	"fmt"
	"log"
	"strings"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockprom"
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

// print shows the counters of a registry whose names begin so.
func print(registry prometheus.Gatherer, prefix string) {
	families, err := registry.Gather()
	if err != nil {
		log.Fatal(err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if !strings.HasPrefix(f.GetName(), prefix) || m.GetCounter().GetValue() == 0 {
				continue
			}
			labels := []string{}
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			fmt.Println(f.GetName(), strings.Join(labels, " "), m.GetCounter().GetValue())
		}
	}
}

// The registry is what the program serves, with promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).
func ExampleNewCollector() {
	registry := prometheus.NewRegistry()
	locker, done := embedded()
	defer done()
	if err := registry.Register(rlockprom.NewCollector(locker)); err != nil {
		log.Fatal(err)
	}

	err := locker.Do(context.Background(), "import", func(context.Context, *rlock.Lock) error { return nil })
	if err != nil {
		log.Fatal(err)
	}
	print(registry, "rlock_")
	// Output:
	// rlock_acquired_total  1
	// rlock_attempts_total  1
	// rlock_ended_total how=released 1
}

// The class of a key is what is before its first colon: there are few of these, and any number of keys.
func ExampleNewObserver() {
	registry := prometheus.NewRegistry()
	observer, err := rlockprom.NewObserver(registry, func(key string) string {
		class, _, _ := strings.Cut(key, ":")
		return class
	})
	if err != nil {
		log.Fatal(err)
	}
	locker, done := embedded(rlock.WithObserver(observer))
	defer done()

	for _, key := range []string{"order:17", "order:18", "invoice:5"} {
		err := locker.Do(context.Background(), key, func(context.Context, *rlock.Lock) error { return nil })
		if err != nil {
			log.Fatal(err)
		}
	}
	print(registry, "rlock_class_events")
	// Output:
	// rlock_class_events_total class=invoice event=acquired reason= 1
	// rlock_class_events_total class=invoice event=released reason= 1
	// rlock_class_events_total class=order event=acquired reason= 2
	// rlock_class_events_total class=order event=released reason= 2
}
