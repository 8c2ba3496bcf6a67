package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock"
)

const (
	cachedChecks = 200_000
	inspections  = 500
)

// cachedChecks shows a question that costs no round trip: the first Check puts the
// answer into this process, and the server says when it is not true any more.
func (d *demo) cachedChecks(ctx context.Context) error {
	d.heading("3. Who holds a lock is known here, without asking, until the server says that it changed.")
	holder, err := d.server.locker()
	if err != nil {
		return err
	}
	defer holder.Close()
	watcher, err := d.server.locker()
	if err != nil {
		return err
	}
	defer watcher.Close()

	const key = "maintenance"
	lock, err := holder.Acquire(ctx, key, rlock.WithTTL(30*time.Second))
	if err != nil {
		return err
	}
	defer lock.Release(ctx) // matters if the scene is cut short
	d.referee.acquired(lock)
	d.say("holder", "took %s", key)

	begin := time.Now()
	state, err := watcher.Check(ctx, key)
	if err != nil {
		return err
	}
	d.say("watcher", "first Check:  held=%t cached=%t, %v", state.Held, state.Cached, time.Since(begin).Round(time.Microsecond))

	check, err := each(cachedChecks, func() error {
		state, err := watcher.Check(ctx, key)
		if state.Cached {
			d.referee.fromCache++
		}
		return err
	})
	if err != nil {
		return err
	}
	inspect, err := each(inspections, func() error {
		_, err := watcher.Inspect(ctx, key)
		return err
	})
	if err != nil {
		return err
	}
	inspect = inspect.Round(100 * time.Nanosecond)
	d.say("watcher", "%7d x Check:   %8v each, from memory", cachedChecks, check)
	d.say("watcher", "%7d x Inspect: %8v each, asking the server; %d times as long", inspections, inspect, inspect/max(check, 1))

	return d.invalidation(ctx, lock, watcher, key)
}

// invalidation releases the lock and measures how long a Check goes on saying that
// it is held.
func (d *demo) invalidation(ctx context.Context, lock *rlock.Lock, watcher *rlock.Locker, key string) error {
	begin := time.Now()
	if err := lock.Release(ctx); err != nil {
		return err
	}
	released := time.Now()
	d.say("holder", "released it, which took %v", released.Sub(begin).Round(time.Microsecond))
	for stale := 0; ; stale++ {
		state, err := watcher.Check(ctx, key)
		switch {
		case err != nil:
			return err
		case !state.Held:
			d.say("watcher", "Check says free %v after that, and %d checks that still said held",
				time.Since(released).Round(time.Microsecond), stale)
			return nil
		case time.Since(released) > 5*time.Second:
			return errors.New("a Check says held 5s after the release")
		case ctx.Err() != nil:
			return fmt.Errorf("check: %w", ctx.Err())
		}
	}
}

// each calls f n times and returns how long one call takes.
func each(n int, f func() error) (time.Duration, error) {
	begin := time.Now()
	for range n {
		if err := f(); err != nil {
			return 0, err
		}
	}
	return time.Since(begin) / time.Duration(n), nil
}
