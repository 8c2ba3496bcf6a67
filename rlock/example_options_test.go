package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// A client that the program has for other things, too.
func ExampleNew() {
	server, err := rlocktest.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	address := server.Addr()

	invalidations := rlock.NewInvalidations()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:      []string{address},
		OnInvalidations:  invalidations.OnInvalidations, // the server says that a key has changed
		ConnWriteTimeout: 2 * time.Second,               // a dead connection is noticed within a lease
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

	report, err := locker.Probe(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(report.Err())
	// Output: <nil>
}

func ExampleWithAutoExtend() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "import", rlock.WithTTL(2*time.Second), rlock.WithAutoExtend(true))
	if err != nil {
		log.Fatal(err)
	}

	first := lock.Deadline()
	for lock.Deadline().Equal(first) { // work that takes longer than the lease
		time.Sleep(10 * time.Millisecond)
	}
	fmt.Println(lock.Err() == nil, lock.Release(ctx))
	// Output: true <nil>
}

func ExampleWithPrefix() {
	locker, done := embedded(rlock.WithPrefix("shop:"))
	defer done()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "order:17")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)
	fmt.Println(lock.Key())
	// Output: shop:order:17
}

// Whoever has the token has the lock: a caller that died goes on after its restart.
func ExampleWithToken() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	token := rlock.WithToken("job 4711") // stored with the job
	if _, err := locker.Acquire(ctx, "import", token); err != nil {
		log.Fatal(err)
	}

	again, err := locker.TryAcquire(ctx, "import", token)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(again.Err() == nil, again.Release(ctx))
	// Output: true <nil>
}

// A fence costs the server a little. Who has nothing that compares it can leave it out.
func ExampleWithFence() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "import", rlock.WithFence(false))
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)
	fmt.Println(lock.Fence())
	// Output: 0
}

func ExampleRetry_MaxTime() {
	locker, done := embedded(rlock.WithRetry(rlock.DefaultRetry().MaxTime(50 * time.Millisecond)))
	defer done()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)

	_, err = locker.Acquire(context.Background(), "import")
	fmt.Println(errors.Is(err, rlock.ErrGaveUp), errors.Is(err, rlock.ErrHeld))
	// Output: true true
}

func ExampleArgumentError() {
	locker, done := embedded()
	defer done()
	_, err := locker.AcquireAll(context.Background(), []string{"a", "b", "a"})
	var wrong *rlock.ArgumentError
	if errors.As(err, &wrong) { // before anything was sent
		fmt.Println(wrong.Argument, errors.Is(err, rlock.ErrDuplicateKey))
	}
	// Output: keys true
}
