package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/rlock-go/toolkit/rlock"
)

func ExampleLocker_AcquireAll() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	lock, err := locker.AcquireAll(ctx, []string{"seat:12", "seat:13"})
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)

	_, err = locker.TryAcquireAll(ctx, []string{"seat:14", "seat:13"})
	var facts *rlock.AcquireError
	if errors.As(err, &facts) {
		fmt.Println(facts.Key, "is taken:", errors.Is(err, rlock.ErrHeld))
	}
	// Output: seat:13 is taken: true
}

func ExampleLocker_ExtendEach() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	var locks []*rlock.Lock
	for _, key := range []string{"job:1", "job:2"} {
		lock, err := locker.Acquire(ctx, key)
		if err != nil {
			log.Fatal(err)
		}
		locks = append(locks, lock)
	}

	for i, err := range locker.ExtendEach(ctx, locks, time.Minute) { // one round trip
		fmt.Println(locks[i].Key(), err, time.Until(locks[i].Deadline()).Round(time.Second))
	}
	// Output:
	// job:1 <nil> 1m0s
	// job:2 <nil> 1m0s
}

func ExampleLocker_Stats() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	for range 3 {
		if err := locker.Do(ctx, "order:17", func(context.Context, *rlock.Lock) error { return nil }); err != nil {
			log.Fatal(err)
		}
	}
	stats := locker.Stats()
	fmt.Println(stats.Acquired, stats.Released, stats.Lost)
	// Output: 3 3 0
}
