package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/rlock-go/toolkit/rlock"
)

// What a service does on SIGTERM, after its servers have stopped.
func ExampleLocker_Shutdown() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()

	began, ended := make(chan struct{}), make(chan error)
	go func() {
		ended <- locker.Do(ctx, "report", func(ctx context.Context, lock *rlock.Lock) error {
			close(began)
			<-ctx.Done() // work until the process is to stop
			fmt.Println(context.Cause(ctx), "| still held:", lock.Err() == nil)
			return nil
		})
	}()
	<-began
	if _, err := locker.Acquire(ctx, "order:17"); err != nil { // and nobody releases it
		log.Fatal(err)
	}

	ending, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	fmt.Println("left:", locker.Shutdown(ending))
	fmt.Println("report:", <-ended)
	_, err := locker.TryAcquire(ctx, "order:18")
	fmt.Println(errors.Is(err, rlock.ErrClosed))
	// Output:
	// rlock: locker is shutting down | still held: true
	// left: <nil>
	// report: <nil>
	// true
}

func ExampleWithMaxHold() {
	locker, done := embedded()
	defer done()

	err := locker.Do(context.Background(), "report", func(ctx context.Context, lock *rlock.Lock) error {
		<-ctx.Done() // it hangs, but heeds its context
		return context.Cause(ctx)
	}, rlock.WithTTL(100*time.Millisecond), rlock.WithMaxHold(300*time.Millisecond))
	fmt.Println(errors.Is(err, rlock.ErrMaxHold))
	// Output: true
}

// A leader that needs half a second to stop begins to stop half a second before another may lead.
func ExampleWithStopBefore() {
	locker, done := embedded()
	defer done()
	ctx, resign := context.WithCancel(context.Background())
	defer resign()

	err := locker.Lead(ctx, "scheduler", func(ctx context.Context, lock *rlock.Lock) error {
		go resign() // or the network goes away: the context ends all the same
		<-ctx.Done()
		time.Sleep(50 * time.Millisecond) // finish what was begun
		fmt.Println("stopped in time:", lock.Err() == nil)
		return nil
	}, rlock.WithTTL(10*time.Second), rlock.WithStopBefore(500*time.Millisecond))
	fmt.Println(err)
	// Output:
	// stopped in time: true
	// <nil>
}
