package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/rlock-go/toolkit/rlock"
)

// risingFences shows the number that comes with every acquisition. What a lock
// protects can remember the largest one it has seen and refuse smaller ones: then a
// holder that has lost the lock and does not know it yet cannot write any more.
func (d *demo) risingFences(ctx context.Context) error {
	d.heading("4. Every acquisition comes with a fence, a number above all fences that the key had before.")
	const key = "invoice-number"
	var lockers [2]*rlock.Locker
	for i := range lockers {
		locker, err := d.server.locker()
		if err != nil {
			return err
		}
		defer locker.Close()
		lockers[i] = locker
	}

	var fences strings.Builder
	var last uint64
	for i := range 6 {
		err := lockers[i%2].Do(ctx, key, func(_ context.Context, lock *rlock.Lock) error {
			d.referee.acquired(lock)
			if i == 0 {
				fmt.Fprint(&fences, lock.Fence())
			} else {
				fmt.Fprintf(&fences, ", %+d", int64(lock.Fence()-last))
			}
			last = lock.Fence()
			return nil
		})
		if err != nil {
			return err
		}
	}
	d.say("C and D", "took %s in turn; fences: %s", key, fences.String())
	return nil
}
