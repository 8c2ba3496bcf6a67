package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/rlock-go/toolkit/rlock"
)

func ExampleLocker_Inspect() {
	locker, done := embedded(rlock.WithOwner("web-3: import"))
	defer done()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "import", rlock.WithTTL(rlock.NoExpiry))
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)

	state, err := locker.Inspect(ctx, "import") // asks the server
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(state.Held, state.Owner, state.Remaining() == rlock.NoExpiry)
	// Output: true web-3: import true
}

// The holder has died, and its lock never expires.
func ExampleLocker_ForceRelease() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	if _, err := locker.Acquire(ctx, "import", rlock.WithTTL(rlock.NoExpiry)); err != nil {
		log.Fatal(err)
	}

	state, err := locker.Inspect(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(locker.ForceRelease(ctx, "import", state.Token)) // that holder, and no later one
	fmt.Println(errors.Is(locker.ForceRelease(ctx, "import", state.Token), rlock.ErrLost))
	// Output:
	// <nil>
	// true
}

func ExampleLocker_WaitFree() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "migration")
	if err != nil {
		log.Fatal(err)
	}
	go func() {
		if err := lock.Release(ctx); err != nil {
			log.Print(err)
		}
	}()

	fmt.Println(locker.WaitFree(ctx, "migration")) // nobody migrates any more
	// Output: <nil>
}
