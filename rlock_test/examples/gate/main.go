// Command gate turns a feature off while somebody holds a lock, and asks for that a million times
// a second, because the answer comes from the client-side cache.
//
//	REDIS_ADDR=localhost:6379 go run ./rlock_test/examples/gate
//
// The server tells the client when the key changes. The answer may be as old as that message
// takes, which is good enough for a gate, and not for mutual exclusion.
package main

import (
	"cmp"
	"context"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
)

const gate = "maintenance:search"

func main() {
	address := cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	option := rueidis.ClientOption{InitAddress: []string{address}}

	service, err := rlock.Open(option)
	if err != nil {
		log.Fatal(err)
	}
	defer service.Close()
	operator, err := rlock.Open(option, rlock.WithOwner("ops: reindexing")) // most often another process
	if err != nil {
		log.Fatal(err)
	}
	defer operator.Close()

	fmt.Println("search is", await(ctx, service, true))
	lock, err := operator.Acquire(ctx, gate)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("search is", await(ctx, service, false))
	for range 100_000 {
		if open(ctx, service) {
			log.Fatal("the gate is open while the lock is held")
		}
	}
	if err := lock.Release(ctx); err != nil {
		log.Fatal(err)
	}
	fmt.Println("search is", await(ctx, service, true))

	stats := service.Stats()
	fmt.Println("more than 100000 checks:", stats.Checks > 100_000)
	fmt.Println("fewer than 100 asked the server:", stats.Checks-stats.CacheHits < 100)
}

// open reports whether the feature is on: nobody holds the gate. If the server does not answer,
// the feature is off.
func open(ctx context.Context, locker *rlock.Locker) bool {
	state, err := locker.Check(ctx, gate)
	return err == nil && !state.Held
}

// await returns once the service has noticed.
func await(ctx context.Context, locker *rlock.Locker, on bool) string {
	for open(ctx, locker) != on {
		if ctx.Err() != nil {
			log.Fatal(ctx.Err())
		}
		time.Sleep(time.Millisecond)
	}
	return map[bool]string{true: "on", false: "off"}[on]
}
