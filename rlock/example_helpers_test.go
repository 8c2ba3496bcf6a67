package rlock_test

import (
	"context"
	"fmt"
	"log"
	"time"

	"github.com/rlock-go/toolkit/rlock"
)

func ExampleDoValue() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()

	next, err := rlock.DoValue(ctx, locker, "invoice numbers",
		func(ctx context.Context, lock *rlock.Lock) (int, error) {
			return 4711, nil // read and count up, alone
		})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("invoice", next)
	// Output: invoice 4711
}

// A job that three machines start on the hour, by their own clocks, runs once.
func ExampleWithMinHold() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()

	report := func(ctx context.Context, lock *rlock.Lock) error {
		fmt.Println("the report of the hour") // which takes a moment
		return nil
	}
	for _, machine := range []string{"a", "b", "c"} { // each a little later than the one before
		ran, err := locker.TryDo(ctx, "report", report,
			rlock.WithTTL(10*time.Minute), rlock.WithMinHold(10*time.Minute))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(machine, ran)
	}
	// Output:
	// the report of the hour
	// a true
	// b false
	// c false
}

func ExampleObservers() {
	say := func(who string) rlock.Observer {
		return rlock.ObserverFunc(func(_ context.Context, e rlock.Event) { fmt.Println(who, "|", e.Kind, e.Key) })
	}
	locker, done := embedded(rlock.WithObserver(rlock.Observers(say("metrics"), say("traces"))))
	defer done()
	ctx := context.Background()

	lock, err := locker.Acquire(ctx, "order:17")
	if err != nil {
		log.Fatal(err)
	}
	if err := lock.Release(ctx); err != nil {
		log.Fatal(err)
	}
	// Output:
	// metrics | acquired order:17
	// traces | acquired order:17
	// metrics | released order:17
	// traces | released order:17
}

func ExampleLocker_Lead() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()

	err := locker.Lead(ctx, "scheduler", func(ctx context.Context, lock *rlock.Lock) error {
		// The leader, until ctx ends. lock.Fence() is the number of its term.
		for state, err := range locker.Leaders(ctx, "scheduler") { // as anybody may look
			if err != nil {
				return err
			}
			fmt.Println("leader:", state.Owner)
			break
		}
		return nil // this ends Lead; to be a candidate again, call lock.Release first
	}, rlock.WithOwner("web-3"))
	if err != nil {
		log.Fatal(err)
	}
	// Output: leader: web-3
}
