// Command leader has one of several processes lead, and another when that one ends.
//
//	REDIS_ADDR=localhost:6379 go run ./rlock_test/examples/leader -name a
//
// On SIGTERM a leader stops its work and then releases the lock, so the next one leads at once. Its work may
// take half a second to stop, which it does before its lease is over, whatever the network does.
// When a leader dies, the next one leads when its lease is over, here after two seconds. The fence
// is the number of the term: give it to whatever the leader writes to (see the example guarded).
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
)

func main() {
	name := flag.String("name", rlock.DefaultOwner(), "name of this process")
	flag.Parse()
	address := cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379")
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()

	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{address}},
		rlock.WithOwner(*name), rlock.WithTTL(2*time.Second), rlock.WithStopBefore(500*time.Millisecond))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	for ctx.Err() == nil {
		err := locker.Lead(ctx, "leader:indexer", func(ctx context.Context, lock *rlock.Lock) error {
			fmt.Println(*name, "leads, term", lock.Fence())
			err := lead(ctx)
			if errors.Is(err, rlock.ErrNotHeld) {
				fmt.Println(*name, "has lost the lead:", err) // and Lead makes it a candidate again
			}
			return err
		})
		if ctx.Err() == nil { // no SIGTERM
			log.Print(err)
			time.Sleep(time.Second) // the server refuses something: do not ask it without a pause
		}
	}
	fmt.Println(*name, "is done")
}

// lead works until its context ends: with the process, or because the lock was lost.
func lead(ctx context.Context) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-tick.C: // one piece of work, much shorter than the lease
		}
	}
}
