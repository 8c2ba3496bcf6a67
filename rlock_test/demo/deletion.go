package main

import (
	"context"
	"fmt"
	"time"
)

const deletedLease = 9 * time.Second

// deletion shows that the server tells a holder when its key is deleted.
func (d *demo) deletion(ctx context.Context) error {
	d.heading("3. Somebody deletes the key of a lock. The server tells the holder, whose context ends.")
	holder, err := d.start(ctx)
	if err != nil {
		return err
	}
	defer holder.stop()
	e, err := holder.do(ctx, order{Do: doAcquire, Keys: []string{"import"}, TTL: deletedLease}, isAcquired)
	if err != nil {
		return err
	}
	d.sayAt(e.At, holder.name, "took the lock for %v", deletedLease)
	if err := wait(ctx, 200*time.Millisecond); err != nil {
		return err
	}
	trip, err := d.server.roundTrip(ctx)
	if err != nil {
		return err
	}
	deleted := time.Now()
	if err := d.server.client.Do(ctx, d.server.client.B().Del().Key(e.Key).Build()).Error(); err != nil {
		return err
	}
	d.sayAt(deleted, "demo", "deletes the key")
	if e, err = holder.await(ctx, isEnded); err != nil {
		return err
	}
	after := e.At.Sub(deleted)
	d.sayAt(e.At, holder.name, "its context ended after %v; a round trip takes %v",
		after.Round(10*time.Microsecond), trip.Round(10*time.Microsecond))
	d.sayAt(e.At, holder.name, "the cause: %s", e.Cause)
	d.judge("a holder whose key is deleted knows it long before its lease ends", toldOf(e, after))
	return nil
}

// toldOf returns what is wrong with how a holder learned that its key was deleted. On a cluster the server
// cannot tell the holder. The holder finds out at the next extension, after a third of the lease.
func toldOf(e event, after time.Duration) error {
	switch {
	case !e.Lost:
		return fmt.Errorf("the context ended with %q", e.Cause)
	case after > deletedLease*2/3:
		return fmt.Errorf("it took %v", after)
	}
	return nil
}
