// Command workers lets at most N workers of a fleet run at a time, on any number of machines.
//
//	REDIS_ADDR=localhost:6379 go run ./rlock_test/examples/workers -limit 2
//
// There are N permits, and a worker works while it holds one. Waiters get free permits first come, first
// served. When a holder dies, its permit is free when the lease ends.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"log"
	"os"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
)

func main() {
	limit := flag.Int("limit", 2, "how many work at a time")
	jobs := flag.Int("jobs", 5, "how many jobs this process has to do")
	flag.Parse()
	address := cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{address}},
		rlock.WithOwner(rlock.DefaultOwner()))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	for range *jobs {
		err := locker.DoPermits(ctx, "workers", 1, *limit, func(ctx context.Context, lock *rlock.Lock) error {
			return work(ctx, locker.Client())
		})
		if err != nil {
			log.Fatal(err)
		}
	}
	fmt.Println("done")
}

// work counts on the server how many workers work at the same time.
func work(ctx context.Context, client rueidis.Client) error {
	n, err := client.Do(ctx, client.B().Incr().Key("working").Build()).AsInt64()
	if err != nil {
		return err
	}
	fmt.Println("working:", n)
	time.Sleep(20 * time.Millisecond)
	return errors.Join(ctx.Err(), client.Do(ctx, client.B().Decr().Key("working").Build()).Error())
}
