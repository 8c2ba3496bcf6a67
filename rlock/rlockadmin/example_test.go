package rlockadmin_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// open returns a Locker of an embedded server, and an Admin of that.
func open(opts ...rlock.LockerOption) (*rlock.Locker, *rlockadmin.Admin, func()) {
	server, err := rlocktest.Open()
	if err != nil {
		log.Fatal(err)
	}
	locker, err := rlock.Open(server.Option(), opts...)
	if err != nil {
		log.Fatal(err)
	}
	admin, err := rlockadmin.New(locker.Client())
	if err != nil {
		log.Fatal(err)
	}
	return locker, admin, func() {
		locker.Close()
		server.Close()
	}
}

func ExampleAdmin_Inspect() {
	locker, admin, done := open(rlock.WithOwner("web-3: import"))
	defer done()
	ctx := context.Background()
	if _, err := locker.AcquirePermits(ctx, "import", 2, 5, rlock.WithTTL(rlock.NoExpiry)); err != nil {
		log.Fatal(err)
	}

	state, err := admin.Inspect(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(state.Mode, state.Permits, "of", state.Limit)
	for _, h := range state.Holders {
		fmt.Println(h.Owner, h.Permits, h.Remaining == rlock.NoExpiry)
	}
	// Output:
	// permits 2 of 5
	// web-3: import 2 true
}

// A pod has died, and its locks never expire.
func ExampleAdmin_ForceRelease() {
	locker, admin, done := open(rlock.WithPrefix("app:"), rlock.WithTTL(rlock.NoExpiry))
	defer done()
	ctx := context.Background()
	for owner, key := range map[string]string{"web-3": "import", "web-4": "export"} {
		if _, err := locker.Acquire(ctx, key, rlock.WithOwner(owner)); err != nil {
			log.Fatal(err)
		}
	}

	for state, err := range admin.List(ctx, "app:*") {
		if err != nil {
			log.Fatal(err)
		}
		for _, h := range state.Holders {
			if h.Owner == "web-3" {
				// That holder, and no later one.
				fmt.Println(state.Key, admin.ForceRelease(ctx, state.Key, h.Token()))
				again := admin.ForceRelease(ctx, state.Key, h.Token())
				fmt.Println(errors.Is(again, rlock.ErrLost))
			}
		}
	}
	// Output:
	// app:import <nil>
	// true
}
