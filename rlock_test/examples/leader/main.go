// Command leader lets one of several processes lead. When the leader ends, another process leads.
//
//	REDIS_ADDR=localhost:6379 go run ./rlock_test/examples/leader -name a
//
// A leader can end in three ways:
//
//   - On SIGTERM, the leader stops its work and then releases the lock. The next process leads at once.
//   - When the leader dies, the next process leads when the lease ends, here after two seconds.
//   - When the leader cannot extend its lease, its work has half a second to stop before the lease ends.
//
// The fence is the number of the term. Give the fence to the store that the leader writes to, as the example
// guarded does.
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
				fmt.Println(*name, "has lost the lead:", err) // Lead then waits for the lock again
			}
			return err
		})
		if ctx.Err() == nil { // no SIGTERM
			log.Print(err)
			time.Sleep(time.Second) // the server refuses a command: pause before the next try
		}
	}
	fmt.Println(*name, "is done")
}

// lead works until its context ends, because the process ends or the lock is lost.
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
