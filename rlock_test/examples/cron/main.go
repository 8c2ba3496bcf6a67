// Command cron runs a job once a period, although each of N replicas starts it.
//
//	REDIS_ADDR=localhost:6379 go run ./rlock_test/examples/cron -replica web-1 -period 24h
//
// Call it from cron on every machine. The key names the job and the period, and the lock is not
// released when the job is done: a replica whose clock is late finds it held. If the job fails,
// the lock is released, and the next replica that comes tries again.
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
	replica := flag.String("replica", rlock.DefaultOwner(), "name of this replica")
	period := flag.Duration("period", 24*time.Hour, "how often the job is to run")
	fail := flag.Bool("fail", false, "have the job fail")
	flag.Parse()
	address := cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379")

	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{address}}, rlock.WithOwner(*replica))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	ctx, cancel := context.WithTimeout(context.Background(), *period)
	defer cancel()
	job := func() error {
		if *fail {
			return errors.New("the disk is full")
		}
		return nil
	}
	ran, err := oncePer(ctx, locker, "report", *period, job)
	switch {
	case err != nil:
		fmt.Println(*replica, "failed:", err)
		os.Exit(1)
	case ran:
		fmt.Println(*replica, "wrote the report")
	default:
		fmt.Println(*replica, "has nothing to do")
	}
}

// oncePer runs job unless a replica has run it, or is running it, in the present period.
func oncePer(ctx context.Context, locker *rlock.Locker, name string, period time.Duration, job func() error) (ran bool, err error) {
	key := fmt.Sprintf("cron:%s:%s", name, time.Now().UTC().Truncate(period).Format(time.RFC3339))
	lock, err := locker.TryAcquire(ctx, key, rlock.WithTTL(period))
	switch {
	case errors.Is(err, rlock.ErrHeld):
		return false, nil
	case err != nil:
		return false, err
	}
	if err := job(); err != nil {
		return true, errors.Join(err, lock.Release(ctx))
	}
	return true, nil // the lock stays until its lease ends
}
