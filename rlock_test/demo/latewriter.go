package main

import (
	"context"
	"time"
)

const stalledLease = time.Second

// lateWriter stops a process for longer than its lease, and then lets the process write. The scene shows that
// a lock alone cannot prevent the write, and that guarded and fenced writes can.
func (d *demo) lateWriter(ctx context.Context) error {
	d.heading(
		"4. A process stalls for longer than its lease, and then writes without looking. Guarded scripts " +
			"refuse it.")
	processes, stop, err := d.startAll(ctx, 2)
	if err != nil {
		return err
	}
	defer stop()
	late, next := processes[0], processes[1]
	keys := []string{"config"}
	e, err := late.do(ctx, order{Do: doBorrow, Keys: keys, TTL: stalledLease}, isAcquired)
	if err != nil {
		return err
	}
	fence := e.Fence
	d.sayAt(e.At, late.name, "took the lock for %v, fence %d, and stalls", stalledLease, fence)
	if err := next.tell(order{Do: doAcquire, Keys: keys, TTL: 10 * time.Second}); err != nil {
		return err
	}
	for e.Kind = isWaiting; e.Kind == isWaiting; {
		if e, err = next.next(ctx); err != nil {
			return err
		}
	}
	wrote, err := next.do(ctx, order{Do: doWrite, Text: "new"}, isWritten)
	if err != nil {
		return err
	}
	d.sayAt(wrote.At, next.name, "has the lock now, fence %+d, and has written %q", int64(e.Fence-fence), "new")
	if _, err := late.await(ctx, isEnded); err != nil {
		return err
	}
	refused, err := late.do(ctx, order{Do: doWrite, Text: "late"}, isWritten)
	if err != nil {
		return err
	}
	d.sayAt(refused.At, late.name, "writes %q: %s", "late", said(refused.Held))
	d.sayAt(refused.At, late.name, "the same by its fence: %s", said(refused.Fenced))
	value, fenced, err := d.server.written(ctx)
	if err != nil {
		return err
	}
	d.judge("guarded scripts let the holder write and refuse the late writer", firstOf(
		unless(wrote.Held == "" && wrote.Fenced == "", "the holder was refused: %s%s", wrote.Held, wrote.Fenced),
		unless(refused.Held != "", "the late writer was not refused by its token"),
		unless(refused.Fenced != "", "the late writer was not refused by its fence"),
		unless(value == "new" && fenced == "new", "the values are %q and %q", value, fenced)))
	_, err = next.do(ctx, order{Do: doRelease}, isReleased)
	return err
}

// said returns how the server refused a write, or that it did not.
func said(refusal string) string {
	if refusal == "" {
		return "written"
	}
	return "refused, " + refusal
}
