// Command gate turns a feature off while an operator holds a lock. The service can check the lock a million
// times a second, because the client-side cache answers.
//
//	REDIS_ADDR=localhost:6379 go run ./rlock_test/examples/gate
//
// The server tells the client when the key changes. An answer may be as old as this message takes to arrive.
// That is good enough for a gate, but not for mutual exclusion.
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
	operator, err := rlock.Open(option, rlock.WithOwner("ops: reindexing")) // usually in another process
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

// open reports whether the feature is on, which means that the gate has no holder. If the server does not
// answer, the feature is off.
func open(ctx context.Context, locker *rlock.Locker) bool {
	state, err := locker.Check(ctx, gate)
	return err == nil && !state.Held
}

// await returns when the service sees the feature on, or off.
func await(ctx context.Context, locker *rlock.Locker, on bool) string {
	for open(ctx, locker) != on {
		if ctx.Err() != nil {
			log.Fatal(ctx.Err())
		}
		time.Sleep(time.Millisecond)
	}
	return map[bool]string{true: "on", false: "off"}[on]
}
