package adapter_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/google/uuid"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	adapter "github.com/rlock-go/toolkit/rlock_test/examples/gocron"
)

// Two schedulers have the same job, and one of them runs it.
func Example() {
	server, err := rlocktest.Open() // yours is a Redis or Valkey
	if err != nil {
		log.Fatal(err)
	}
	defer server.Close()

	results := make(chan string)
	for range 2 { // each stands for a process
		locker, err := rlock.Open(server.Option())
		if err != nil {
			log.Fatal(err)
		}
		defer locker.Close()
		scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(
			adapter.Locker{Locker: locker, MinHold: 10 * time.Minute}))
		if err != nil {
			log.Fatal(err)
		}
		defer func() { _ = scheduler.Shutdown() }()
		_, err = scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()),
			gocron.NewTask(func() { results <- "wrote the report" }),
			gocron.WithName("report"),
			gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, name string, err error) {
				results <- fmt.Sprint("another has the job: ", errors.Is(err, rlock.ErrHeld))
			})))
		if err != nil {
			log.Fatal(err)
		}
		scheduler.Start()
	}
	fmt.Println(<-results)
	fmt.Println(<-results)
	// Unordered output:
	// wrote the report
	// another has the job: true
}

// fleet is two schedulers with an hourly job, and what has run. The clock of the second is late.
type fleet struct {
	server  *rlocktest.Server
	lockers []*rlock.Locker
	runs    chan int   // the scheduler, 0 or 1
	skips   chan error // why a scheduler has left a run out
}

// newFleet starts the schedulers, in a bubble. Their first run is in an hour.
func newFleet(t *testing.T, minHold, late time.Duration, job func()) *fleet {
	t.Helper()
	f := &fleet{server: rlocktest.StartInMemory(t), runs: make(chan int, 100), skips: make(chan error, 100)}
	start := time.Now().Add(time.Hour)
	for i := range 2 {
		locker, err := rlock.Open(f.server.Option())
		require.NoError(t, err)
		t.Cleanup(locker.Close)
		f.lockers = append(f.lockers, locker)
		scheduler, err := gocron.NewScheduler(
			gocron.WithDistributedLocker(adapter.Locker{Locker: locker, MinHold: minHold}))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, scheduler.Shutdown()) })
		_, err = scheduler.NewJob(gocron.DurationJob(time.Hour),
			gocron.NewTask(func() {
				f.runs <- i
				job()
			}),
			gocron.WithName("report"),
			gocron.WithStartAt(gocron.WithStartDateTime(start.Add(time.Duration(i)*late))),
			gocron.WithEventListeners(gocron.AfterLockError(func(_ uuid.UUID, name string, err error) {
				f.skips <- err
			})))
		require.NoError(t, err)
		scheduler.Start()
	}
	return f
}

// seen returns what has run since the last call, and requires that what was left out was held by the other.
func (f *fleet) seen(t *testing.T) (runs []int, skips int) {
	t.Helper()
	for {
		select {
		case i := <-f.runs:
			runs = append(runs, i)
		case err := <-f.skips:
			require.ErrorIs(t, err, rlock.ErrHeld)
			skips++
		default:
			return runs, skips
		}
	}
}

// The job takes no time, and is done when the late scheduler comes: MinHold alone keeps that one out.
func TestOncePerPeriodThoughClocksDiffer(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		minHold time.Duration
		runs    []int
		skips   int
	}{
		"enough":     {10 * time.Minute, []int{0, 0}, 2},
		"not enough": {4 * time.Minute, []int{0, 1, 0, 1}, 0},
		"no MinHold": {0, []int{0, 1, 0, 1}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				f := newFleet(t, test.minHold, 5*time.Minute, func() {})
				f.server.Advance(2*time.Hour + 30*time.Minute)
				runs, skips := f.seen(t)
				require.Equal(t, test.runs, runs)
				require.Equal(t, test.skips, skips)
			})
		})
	}
}

// The job takes longer than the lease, which is as long as MinHold: the late scheduler comes after that, and
// finds the lock held.
func TestExtendedWhileTheJobRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 10*time.Minute, 25*time.Minute, func() { time.Sleep(30 * time.Minute) })
		f.server.Advance(2*time.Hour + 58*time.Minute) // by when no job runs, which Shutdown would wait for
		runs, skips := f.seen(t)
		require.Equal(t, []int{0, 0}, runs)
		require.Equal(t, 2, skips)
	})
}

// A process that dies in its job keeps the other out for the rest of the lease, and from the next period on,
// that one does the job.
func TestTheOtherGoesOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, 10*time.Minute, 5*time.Minute, func() { time.Sleep(time.Minute) })
		f.server.Advance(time.Hour + 30*time.Second)
		f.lockers[0].Close() // as if its process had died: nobody extends the lock, nor releases it
		f.server.Advance(10 * time.Minute)
		runs, skips := f.seen(t)
		require.Equal(t, []int{0}, runs)
		require.Equal(t, 1, skips)

		f.server.Advance(time.Hour)
		require.Equal(t, 1, <-f.runs)
		require.ErrorIs(t, <-f.skips, rlock.ErrClosed)
		require.Empty(t, f.runs)
	})
}

// A server that does not answer costs a run, and not more: gocron does not wait for it.
func TestSilentServer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		locker, err := rlock.Open(server.Option())
		require.NoError(t, err)
		t.Cleanup(locker.Close)
		lift := server.Silence()
		start := time.Now()
		_, err = adapter.Locker{Locker: locker}.Lock(context.Background(), "report")
		require.ErrorIs(t, err, rlock.ErrNoAnswer)
		require.LessOrEqual(t, time.Since(start), 5*time.Second)
		lift()
	})
}
