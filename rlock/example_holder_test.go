package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/rlock-go/toolkit/rlock"
)

// The data remembers the largest fence that it was written with.
func ExampleLock_Fence() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	var written uint64
	write := func(lock *rlock.Lock) {
		if lock.Fence() < written {
			fmt.Println("too late")
			return
		}
		written = lock.Fence()
		fmt.Println("written")
	}

	paused, err := locker.Acquire(ctx, "account:17", rlock.WithTTL(2*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	next, err := locker.Acquire(ctx, "account:17") // gets it when the lease of the first is over
	if err != nil {
		log.Fatal(err)
	}
	defer next.Release(ctx)
	write(next)
	write(paused) // it stood still, and does not know
	// Output:
	// written
	// too late
}

func ExampleLock_Release() {
	locker, done := embedded()
	defer done()
	ctx, cancel := context.WithCancel(context.Background())
	lock, err := locker.Acquire(ctx, "order:17")
	if err != nil {
		log.Fatal(err)
	}

	cancel() // as when a request is aborted
	fmt.Println(lock.Release(ctx))
	fmt.Println(errors.Is(lock.Release(ctx), rlock.ErrReleased))
	// Output:
	// <nil>
	// true
}

func ExampleLock_Verify() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "order:17")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(lock.Verify(ctx)) // asks the server

	client := locker.Client() // somebody deletes the key
	if err := client.Do(ctx, client.B().Del().Key("order:17").Build()).Error(); err != nil {
		log.Fatal(err)
	}
	err = lock.Verify(ctx)
	fmt.Println(errors.Is(err, rlock.ErrLost))
	// Output:
	// <nil>
	// true
}

func ExampleLock_Err() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "order:17")
	if err != nil {
		log.Fatal(err)
	}

	fmt.Println(lock.Err()) // asks nobody
	if err := lock.Release(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println(errors.Is(lock.Err(), rlock.ErrReleased), errors.Is(lock.Err(), rlock.ErrNotHeld))
	// Output:
	// <nil>
	// true true
}

func ExampleLock_Detach() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "upload:9", rlock.WithTTL(time.Minute))
	if err != nil {
		log.Fatal(err)
	}

	handoff, err := lock.Detach() // the lease runs on, and nobody extends it
	if err != nil {
		log.Fatal(err)
	}
	state, err := locker.Check(ctx, "upload:9")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(handoff.Keys(), errors.Is(lock.Err(), rlock.ErrDetached), state.Held)
	// Output: [upload:9] true true
}
