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

// embedded returns a locker on a server of its own, where a program would call
// rlock.Open with the address of its Redis.
func embedded(opts ...rlock.LockerOption) (*rlock.Locker, func()) {
	server, err := rlocktest.Open()
	if err != nil {
		log.Fatal(err)
	}
	locker, err := rlock.Open(server.Option(), opts...)
	if err != nil {
		log.Fatal(err)
	}
	return locker, func() {
		locker.Close()
		server.Close()
	}
}

func Example() {
	server, err := rlocktest.Open()
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()
	address := server.Addr()
	ctx := context.Background()

	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{address}})
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()

	err = locker.Do(ctx, "report:2026-11", func(ctx context.Context, lock *rlock.Lock) error {
		fmt.Println("alone with", lock.Key()) // extended until we return
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: alone with report:2026-11
}

func ExampleLocker_Acquire() {
	locker, done := embedded()
	defer done()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()

	lock, err := locker.Acquire(ctx, "order:17", rlock.WithTTL(30*time.Second))
	if err != nil {
		log.Fatal(err) // held by others for 5 seconds, no answer, or refused by the server
	}
	defer lock.Release(ctx) // does its work even if ctx has ended

	fmt.Println(lock.Err() == nil, lock.Attempts())
	// Output: true 1
}

func ExampleLocker_TryAcquire() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()

	first, err := locker.TryAcquire(ctx, "order:17")
	if err != nil {
		log.Fatal(err)
	}
	defer first.Release(ctx)

	_, err = locker.TryAcquire(ctx, "order:17")
	var facts *rlock.AcquireError
	if errors.Is(err, rlock.ErrHeld) && errors.As(err, &facts) {
		fmt.Println(facts.Key, "is free in", facts.Remaining.Round(10*time.Second))
	}
	// Output: order:17 is free in 10s
}

func ExampleLocker_TryDo() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()

	cleanUp := func(ctx context.Context, lock *rlock.Lock) error {
		fmt.Println("cleaning up")
		// On another machine, at the same moment:
		ran, err := locker.TryDo(context.Background(), "cleanup",
			func(context.Context, *rlock.Lock) error { return nil })
		fmt.Println("the other one ran:", ran, err)
		return nil
	}
	ran, err := locker.TryDo(ctx, "cleanup", cleanUp)
	switch {
	case err != nil:
		log.Fatal(err)
	case !ran:
		fmt.Println("another process is cleaning up")
	}
	// Output:
	// cleaning up
	// the other one ran: false <nil>
}

func ExampleFromContext() {
	locker, done := embedded()
	defer done()

	write := func(ctx context.Context, text string) {
		lock, ok := rlock.FromContext(ctx)
		if !ok || lock.Err() != nil {
			log.Fatal("write needs a lock")
		}
		fmt.Println(text, "under", lock.Key(), "with a fence:", lock.Fence() > 0)
	}
	err := locker.Do(context.Background(), "order:17", func(ctx context.Context, _ *rlock.Lock) error {
		write(ctx, "paid")
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: paid under order:17 with a fence: true
}

func ExampleLocker_DoAll() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()

	accounts := []string{"{bank}:alice", "{bank}:bob"} // one hash tag, one slot
	err := locker.DoAll(ctx, accounts, func(ctx context.Context, lock *rlock.Lock) error {
		fmt.Println("both at once:", len(lock.Keys()))
		return nil
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: both at once: 2
}

func ExampleLocker_Check() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "order:17")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)

	state, err := locker.Check(ctx, "order:17") // asks the server, once
	if err != nil {
		log.Fatal(err)
	}
	again, err := locker.Check(ctx, "order:17") // from the cache, until the key changes
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(state.Held, again.Cached)
	fmt.Println("held by this lock:", state.Token() == lock.Token())
	// Output:
	// true true
	// held by this lock: true
}

func ExampleLock_Extend() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "import", rlock.WithTTL(10*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)

	if err := lock.Extend(ctx, time.Minute); errors.Is(err, rlock.ErrNotHeld) {
		log.Fatal("too late: ", err)
	} else if err != nil {
		log.Print("still ours until ", lock.Deadline(), ": ", err)
	}
	fmt.Println(time.Until(lock.Deadline()).Round(time.Second))
	// Output: 1m0s
}

func ExampleLocker_Attach() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "import", rlock.WithTTL(time.Minute))
	if err != nil {
		log.Fatal(err)
	}
	handoff, err := lock.Detach()
	if err != nil {
		log.Fatal(err)
	}
	text, err := handoff.MarshalText() // a secret: whoever has it can take the lock over
	if err != nil {
		log.Fatal(err)
	}

	// In another process:
	var received rlock.Handoff
	if err := received.UnmarshalText(text); err != nil {
		log.Fatal(err)
	}
	attached, err := locker.Attach(ctx, received, rlock.WithAutoExtend(true))
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(received.Keys(), attached.Fence() == lock.Fence())
	_, err = locker.Attach(ctx, received)
	fmt.Println(errors.Is(err, rlock.ErrLost))
	fmt.Println(attached.Release(ctx))
	// Output:
	// [import] true
	// true
	// <nil>
}

func ExampleLock_Context() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "import", rlock.WithTTL(2*time.Second))
	if err != nil {
		log.Fatal(err)
	}

	select {
	case <-lock.Context().Done(): // no longer ours; stop working
		fmt.Println(context.Cause(lock.Context()))
	case <-time.After(time.Minute):
	}
	// Output: rlock: lease expired before it was extended
}

func ExampleLocker_Locks() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	for _, key := range []string{"order:17", "order:18"} {
		if _, err := locker.Acquire(ctx, key); err != nil {
			log.Fatal(err)
		}
	}

	for _, err := range locker.ReleaseEach(ctx, locker.Locks()) {
		if err != nil {
			log.Print(err)
		}
	}
	fmt.Println(len(locker.Locks()))
	// Output: 0
}

func ExampleWithRetry() {
	other, done := embedded()
	defer done()
	ctx := context.Background()
	lock, err := other.Acquire(ctx, "import") // as another process does
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)

	locker, err := rlock.New(other.Client(), rlock.WithRetry(rlock.Fixed(10*time.Millisecond).MaxAttempts(3)))
	if err != nil {
		log.Fatal(err)
	}
	defer locker.Close()
	_, err = locker.Acquire(ctx, "import")
	var facts *rlock.AcquireError
	if errors.Is(err, rlock.ErrGaveUp) && errors.As(err, &facts) {
		fmt.Println("gave up after", facts.Attempts, "attempts")
	}
	// Output: gave up after 3 attempts
}

func ExampleRetryFunc() {
	patient := rlock.RetryFunc(func(a rlock.Attempt) (time.Duration, bool) {
		if a.Remaining > time.Minute {
			return 0, false // not worth waiting
		}
		return max(a.Remaining/2, 10*time.Millisecond), true
	})
	locker, done := embedded(rlock.WithRetry(patient))
	defer done()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "import", rlock.WithTTL(time.Hour))
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)

	_, err = locker.Acquire(ctx, "import")
	fmt.Println(errors.Is(err, rlock.ErrGaveUp))
	// Output: true
}

func ExampleLocker_TryAcquireEach() {
	locker, done := embedded()
	defer done()
	ctx := context.Background()
	busy, err := locker.Acquire(ctx, "job:2")
	if err != nil {
		log.Fatal(err)
	}
	defer busy.Release(ctx)

	jobs := []string{"job:1", "job:2", "job:3"}
	results, err := locker.TryAcquireEach(ctx, jobs) // one round trip
	if err != nil {
		log.Fatal(err) // refused, nothing was sent
	}
	var mine []*rlock.Lock
	for i, r := range results {
		switch {
		case r.Err == nil:
			mine = append(mine, r.Lock)
		case errors.Is(r.Err, rlock.ErrHeld):
			fmt.Println(jobs[i], "is somebody else's")
		default:
			log.Print(r.Err)
		}
	}
	for _, lock := range mine {
		fmt.Println("working on", lock.Key())
	}
	for _, err := range locker.ReleaseEach(ctx, mine) {
		if err != nil {
			log.Print(err)
		}
	}
	// Output:
	// job:2 is somebody else's
	// working on job:1
	// working on job:3
}

func ExampleWithOwner() {
	locker, done := embedded(rlock.WithOwner("web-3: nightly import")) // or rlock.DefaultOwner()
	defer done()
	ctx := context.Background()
	lock, err := locker.Acquire(ctx, "import")
	if err != nil {
		log.Fatal(err)
	}
	defer lock.Release(ctx)

	state, err := locker.Check(ctx, "import") // by anybody who asks why
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held by", state.Owner)
	// Output: held by web-3: nightly import
}

func ExampleLocker_Probe() {
	locker, done := embedded()
	defer done()

	ctx := context.Background()
	report, err := locker.Probe(ctx) // when the program starts
	if err != nil {
		log.Fatal(err) // no server answers
	}
	if err := report.Err(); err != nil {
		log.Fatal(err) // what is missing, and what to do about it
	}
	for _, f := range report {
		if f.Name == "waiting" {
			fmt.Println(f)
		}
	}
	// Output: ok    waiting: the server wakes the waiters
}
