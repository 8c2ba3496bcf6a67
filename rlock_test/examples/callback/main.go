// Command callback adds locks to a program whose rueidis client already has a callback for invalidations.
//
//	REDIS_ADDR=localhost:6379 go run ./rlock_test/examples/callback
//
// rueidis has one callback for each client. The program's own function therefore calls that of rlock. Then
// rlock notices a lost lock at once. Closing the Locker leaves the client open.
package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
)

func main() {
	address := cmp.Or(os.Getenv("REDIS_ADDR"), "localhost:6379")
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	var invalidated atomic.Int64 // the program's own count
	invalidations := rlock.NewInvalidations()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{address},
		OnInvalidations: func(messages []rueidis.RedisMessage) {
			invalidated.Add(int64(len(messages)))
			invalidations.OnInvalidations(messages)
		},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	locker, err := rlock.New(client, rlock.WithInvalidations(invalidations))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close() // leaves the client open

	lock, err := locker.Acquire(ctx, "order:17", rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
	if err != nil {
		log.Fatal(err)
	}
	if _, err := locker.Check(ctx, "order:17"); err != nil { // the client caches the key
		log.Fatal(err)
	}

	// An operator deletes the key. The lease has a minute left, but the lock ends long before.
	if err := client.Do(ctx, client.B().Del().Key("order:17").Build()).Error(); err != nil {
		log.Fatal(err)
	}
	begin := time.Now()
	<-lock.Context().Done()
	fmt.Println("lost:", errors.Is(context.Cause(lock.Context()), rlock.ErrLost))
	fmt.Println("within ten seconds:", time.Since(begin) < 10*time.Second)
	fmt.Println("the program's own callback was called:", invalidated.Load() > 0)
}
