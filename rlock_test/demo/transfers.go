package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
)

const (
	workers   = 8
	transfers = 25 // of each worker
	sample    = 20 // every so many are on the timeline
)

// transfers has workers move money between accounts, all at once.
func (d *demo) transfers(ctx context.Context) error {
	d.heading(fmt.Sprintf("1. %d workers move money between %d accounts. A transfer takes the locks of both at one instant.",
		workers, len(d.bank.accounts)))
	if err := d.bank.open(ctx, d.server.client); err != nil {
		return err
	}
	d.say("bank", "%d accounts with %d each, %d in all", len(d.bank.accounts), opening, opening*len(d.bank.accounts))

	var staff []*worker
	for number := 1; number <= workers; number++ {
		w, err := d.hire(number, d.server.lockPrefix())
		if err != nil {
			return err
		}
		defer w.close()
		staff = append(staff, w)
	}
	return together(ctx, staff, (*worker).work)
}

// worker stands for a process: it shares nothing with the others but the server
// and the names of the locks.
type worker struct {
	*demo
	number int
	client rueidis.Client
	locker *rlock.Locker
}

func (d *demo) hire(number int, lockPrefix string) (*worker, error) {
	client, err := rueidis.NewClient(d.server.option)
	if err != nil {
		return nil, err
	}
	// New uses a client that the program has anyway; Open, as in the scenes to
	// come, makes one.
	locker, err := rlock.New(client, rlock.WithPrefix(lockPrefix))
	if err != nil {
		client.Close()
		return nil, err
	}
	return &worker{demo: d, number: number, client: client, locker: locker}, nil
}

func (w *worker) close() {
	w.locker.Close()
	w.client.Close()
}

func (w *worker) work(ctx context.Context) error {
	for range transfers {
		from, to := w.bank.pair()
		if err := w.transfer(ctx, from, to, 1+rand.Int64N(10)); err != nil {
			return fmt.Errorf("worker %d: %w", w.number, err)
		}
	}
	return nil
}

// transfer moves money under the locks of both accounts. DoAll gets both or waits
// with neither, so two workers that want the same two accounts in opposite order
// cannot wait for each other. It extends the lease while the function runs and
// releases the locks whatever happens in it.
func (w *worker) transfer(ctx context.Context, from, to *account, most int64) error {
	return w.locker.DoAll(ctx, []string{from.lock(), to.lock()}, func(ctx context.Context, lock *rlock.Lock) error {
		w.referee.acquired(lock)
		defer w.referee.enter(w.number, from, to)()

		// This ctx ends when the locks are lost, so that the commands under it
		// stop then and do not write into accounts that are another's by now.
		moved, err := move(ctx, w.client, from, to, most)
		if err != nil {
			return err
		}
		if n := w.referee.transferred(); n%sample == 0 {
			w.say(fmt.Sprintf("worker %d", w.number), "transfer %3d:  %-4s -> %-4s  %2d   fence %d   attempts %d",
				n, from.name, to.name, moved, lock.Fence(), lock.Attempts())
		}
		return nil
	})
}

// together lets all workers do f at once. The first that fails stops the others,
// and its error is returned.
func together(ctx context.Context, staff []*worker, f func(*worker, context.Context) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		group  sync.WaitGroup
		once   sync.Once
		failed error
	)
	for _, w := range staff {
		group.Go(func() {
			if err := f(w, ctx); err != nil {
				once.Do(func() { failed = err })
				cancel()
			}
		})
	}
	group.Wait()
	return failed
}
