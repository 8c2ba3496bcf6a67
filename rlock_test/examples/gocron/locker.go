// Package adapter makes locks of rlock fit gocron. Several schedulers have the same job, and one of them runs
// the job each time. Copy this code. It is a module of its own, so rlock does not require gocron.
//
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(
//		adapter.Locker{Locker: locker, MinHold: 10 * time.Minute}))
//
// Do two things:
//
//   - Give each job a name with gocron.WithName. The name is the key of the job's lock.
//   - Let all schedulers start the job at the same time of day. Use gocron.CronJob, or a DurationJob with
//     WithStartAt. A DurationJob without WithStartAt counts from the start of its process. Its starts in two
//     processes lie further apart than any MinHold may be.
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

	// MinHold keeps the other schedulers out, from the start of a job, even if the job ends sooner. A
	// scheduler whose clock is late then finds the lock held. MinHold must be longer than the clocks differ
	// by, and shorter than the period. Give a job with another period its own Locker, with
	// gocron.WithDistributedJobLocker.
	MinHold time.Duration
}

// Lock takes the lock of a job, and extends the lease while the job runs. Lock does not wait. On any error,
// gocron leaves this run out.
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

// held is the lock of a running job.
type held struct{ lock *rlock.Lock }

// Unlock releases the lock, even if ctx has ended. The ctx ends when the scheduler shuts down.
func (h held) Unlock(ctx context.Context) error { return h.lock.Release(ctx) }
