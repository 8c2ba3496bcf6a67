package rlock_test

import (
	"context"
	"fmt"
	"log"
)

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
