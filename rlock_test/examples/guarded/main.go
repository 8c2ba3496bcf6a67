// Command guarded writes to Redis only while it holds a lock. The server checks the lock in the same step as
// it writes.
//
//	REDIS_ADDR=localhost:6379 go run ./rlock_test/examples/guarded
//
// A process that stands still for longer than its lease goes on as if it held the lock. The server refuses
// its write. The scripts are guarded_put.lua and fenced_put.lua in rlock_test/corpus/lua. The generator has
// proved that each script checks before it writes. For data in a database, see rlock_test/fencing.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/corpus/bindings"
)

func main() {
	address := cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	option := rueidis.ClientOption{InitAddress: []string{address}}
	first, second := open(option), open(option) // in place of two processes
	defer first.Close()
	defer second.Close()
	scripts := bindings.New()

	paused, err := first.Acquire(ctx, "{page:17}:lock", rlock.WithTTL(300*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	next, err := second.Acquire(ctx, "{page:17}:lock") // waits until the lease of paused ends
	if err != nil {
		log.Fatal(err)
	}
	defer next.Release(ctx)

	// Held by: the lock and the data are on the same server, in one slot.
	put := func(lock *rlock.Lock, text string) error {
		return scripts.GuardedPut(ctx, second.Client(),
			bindings.GuardedPutParams{Lock: lock, Value: "{page:17}:text", Text: text})
	}
	fmt.Println("held: the next holder writes:", put(next, "new") == nil)
	fmt.Println("held: the paused one is refused:", errors.Is(put(paused, "old"), bindings.ErrNotHeld))

	// Fenced by: the data may be on any server. The entry remembers the largest fence.
	putFenced := func(lock *rlock.Lock, text string) error {
		return scripts.FencedPut(ctx, second.Client(),
			bindings.FencedPutParams{Entry: "page:17", Text: text, Fence: lock})
	}
	fmt.Println("fenced: the next holder writes:", putFenced(next, "new") == nil)
	fmt.Println("fenced: the paused one is refused:",
		errors.Is(putFenced(paused, "old"), bindings.ErrStaleFence))
}

func open(option rueidis.ClientOption) *rlock.Locker {
	locker, err := rlock.Open(option)
	if err != nil {
		log.Fatal(err)
	}
	return locker
}
