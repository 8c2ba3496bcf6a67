package rlocktest_test

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// ready returns a server and a Locker of it. In a test these are rlocktest.Start(t) and
// rlock.Open(server.Option()).
func ready(opts ...rlock.LockerOption) (*rlocktest.Server, *rlock.Locker, func()) {
	server, err := rlocktest.Open()
	if err != nil {
		panic(err)
	}
	locker, err := rlock.Open(server.Option(), opts...)
	if err != nil {
		panic(err)
	}
	return server, locker, func() {
		locker.Close()
		server.Close()
	}
}

// A server that is out of memory refuses to take a lock. The error is the server's.
func ExampleServer_FailNext() {
	server, locker, done := ready()
	defer done()
	ctx := context.Background()

	server.FailNext(rlocktest.Acquires, "OOM command not allowed")
	_, err := locker.Acquire(ctx, "job")
	var refusal *rueidis.RedisError
	fmt.Println(errors.As(err, &refusal), refusal)

	_, err = locker.Acquire(ctx, "job")
	fmt.Println(err)
	// Output:
	// true OOM command not allowed
	// <nil>
}

// The lock was taken and its reply lost: it is asked for again, and confirmed.
func ExampleServer_LoseReply() {
	server, locker, done := ready()
	defer done()

	lost := server.LoseReply(rlocktest.Key("job"))
	lock, err := locker.Acquire(context.Background(), "job")
	<-lost
	fmt.Println(err, lock.Err() == nil)
	// Output:
	// <nil> true
}

// While the network is silent nobody can extend the lock, so its Context ends with the
// lease.
func ExampleServer_Silence() {
	server, locker, done := ready(rlock.WithTTL(3*time.Second), rlock.WithAutoExtend(true))
	defer done()

	lock, err := locker.Acquire(context.Background(), "job")
	if err != nil {
		panic(err)
	}
	lift := server.Silence()
	<-lock.Context().Done()
	fmt.Println(errors.Is(context.Cause(lock.Context()), rlock.ErrExpired))

	lift()
	_, err = locker.Acquire(context.Background(), "job")
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// A slow answer shortens the lease that counts; one that is slower than the lease is of
// no use.
func ExampleServer_Delay() {
	server, locker, done := ready()
	defer done()

	server.Delay(300 * time.Millisecond)
	_, err := locker.TryAcquire(context.Background(), "job", rlock.WithTTL(200*time.Millisecond))
	fmt.Println(errors.Is(err, rlock.ErrExpired))
	// Output: true
}

// A server that crashes and comes back without its data has lost the lock.
func ExampleServer_Restart() {
	server, locker, done := ready(rlock.WithAutoExtend(true))
	defer done()
	ctx := context.Background()

	lock, err := locker.Acquire(ctx, "job")
	if err != nil {
		panic(err)
	}
	server.Stop()
	_, err = locker.TryAcquire(ctx, "other")
	fmt.Println(errors.Is(err, syscall.ECONNREFUSED))

	if err := server.Restart(rlocktest.LoseData); err != nil {
		panic(err)
	}
	<-lock.Context().Done()
	fmt.Println(errors.Is(context.Cause(lock.Context()), rlock.ErrLost))
	// Output:
	// true
	// true
}

// A stranger has the lock, and gives it back.
func ExampleServer_Take() {
	server, locker, done := ready()
	defer done()
	ctx := context.Background()

	server.Take("job", time.Minute)
	_, err := locker.TryAcquire(ctx, "job")
	fmt.Println(errors.Is(err, rlock.ErrHeld))

	time.AfterFunc(100*time.Millisecond, func() { server.Free("job") })
	_, err = locker.Acquire(ctx, "job")
	fmt.Println(err)
	// Output:
	// true
	// <nil>
}

// A stranger deletes the key of a lock that is held, so that the work must stop.
func ExampleServer_Free() {
	server, locker, done := ready()
	defer done()

	err := locker.Do(context.Background(), "job", func(ctx context.Context, lock *rlock.Lock) error {
		server.Free("job")
		<-ctx.Done()
		return ctx.Err()
	})
	fmt.Println(errors.Is(err, rlock.ErrLost))
	// Output: true
}
