// Command cron does a job once a period, although each of N replicas starts it.
//
//	REDIS_ADDR=localhost:6379 go run ./rlock_test/examples/cron -replica web-1 -min-hold 10m
//
// Call the command from cron on every machine. The first replica does the job. It keeps the other replicas
// out for -min-hold, even if the job ends sooner. A replica whose clock is late then finds the lock held. The
// -min-hold must be longer than the clocks differ by, and shorter than the period.
//
// A job that fails also keeps the other replicas out. The next period tries again. If the job takes longer
// than -min-hold, rlock extends the lease until the job is done.
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
	minHold := flag.Duration("min-hold", 10*time.Minute, "for how long others are kept out, from the start")
	fail := flag.Bool("fail", false, "have the job fail")
	flag.Parse()
	address := cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379")

	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{address}}, rlock.WithOwner(*replica))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	report := func(ctx context.Context, _ *rlock.Lock) error {
		if *fail {
			return errors.New("the disk is full")
		}
		return nil
	}
	ran, err := locker.TryDo(context.Background(), "cron:report", report,
		rlock.WithTTL(*minHold), rlock.WithMinHold(*minHold))
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
