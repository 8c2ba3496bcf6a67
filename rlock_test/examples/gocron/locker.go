// Package adapter has the locks of rlock in the form in which gocron wants them: of several schedulers that
// have the same job, one runs it each time. It is to be copied from, and a module of its own, so that gocron
// is not among the requirements of rlock.
//
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(
//		adapter.Locker{Locker: locker, MinHold: 10 * time.Minute}))
//
// Give each job a name (gocron.WithName), which is the key of its lock, and have all schedulers start it at
// the same time of day: with gocron.CronJob, or a DurationJob with WithStartAt. A DurationJob without it
// counts from when its process started, so its starts lie further apart than any MinHold may be.
//
// gocron gives the job no context that ends with the lock. A job that must stop when its lock is lost takes
// the lock itself, with TryDo, as ../cron does.
package adapter

import (
	"context"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/rlock-go/toolkit/rlock"
)

// Locker is a gocron.Locker, for gocron.WithDistributedLocker.
type Locker struct {
	Locker *rlock.Locker

	// MinHold is for how long the others are kept out, from the start of a job, however soon it is done:
	// a scheduler whose clock is late then finds the lock held. So choose more than the clocks differ by, and
	// less than the period. A job of another period has another Locker: gocron.WithDistributedJobLocker.
	MinHold time.Duration
}

// Lock takes the lock of a job, and extends it while the job runs. It does not wait: on any error, gocron
// leaves this run out.
func (l Locker) Lock(ctx context.Context, key string) (gocron.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // a server that is silent for longer costs a run
	defer cancel()
	lock, err := l.Locker.TryAcquire(ctx, key, rlock.WithAutoExtend(true),
		rlock.WithTTL(max(l.MinHold, rlock.DefaultTTL)), rlock.WithMinHold(l.MinHold))
	if err != nil {
		return nil, err
	}
	return held{lock}, nil
}

// held is the lock of a job that runs.
type held struct{ lock *rlock.Lock }

// Unlock releases the lock, also if ctx has ended, as it has when the scheduler shuts down.
func (h held) Unlock(ctx context.Context) error { return h.lock.Release(ctx) }
