package main

import (
	"context"
	"fmt"
	"slices"
)

const (
	bankers   = 4
	transfers = 50 // of each banker
	sample    = 40 // the timeline shows one transfer in so many
)

// transfers lets several processes move money between accounts at the same time.
func (d *demo) transfers(ctx context.Context) error {
	bank := newBank(d.server.prefix)
	d.heading("1. %d processes move money between %d accounts. A transfer takes the locks of both accounts at "+
		"once.", bankers, len(bank.accounts))
	if err := bank.open(ctx, d.server.client); err != nil {
		return err
	}
	processes, stop, err := d.startAll(ctx, bankers)
	if err != nil {
		return err
	}
	defer stop()
	for _, p := range processes {
		if err := p.tell(order{Do: doTransfers, Count: transfers}); err != nil {
			return err
		}
	}
	var t tally
	for _, p := range processes {
		if err := d.follow(ctx, p, &t); err != nil {
			return err
		}
	}
	slices.SortFunc(t.shown, func(a, b event) int { return a.At.Compare(b.At) })
	for _, e := range t.shown {
		d.sayAt(e.At, e.By, "%-4s -> %-4s  %2d  fence %d", e.From, e.To, e.Move.Amount, e.Fence)
	}
	total, err := bank.total(ctx, d.server.client)
	if err != nil {
		return err
	}
	want := int64(opening * len(bank.accounts))
	d.say("demo", "%d transfers, %d waited for a lock; the balances add up to %d", t.done, t.waits, total)
	d.judge("no process met another at an account, and no money was lost or made", firstOf(
		unless(t.done == bankers*transfers, "there were %d transfers", t.done),
		unless(t.others == 0, "they met %d times", t.others),
		unless(total == want, "the balances add up to %d, not %d", total, want)))
	d.judge("every fence is above the one that its key had before", t.falls())
	return nil
}

// follow records the events of a process until the process is done.
func (d *demo) follow(ctx context.Context, p *process, t *tally) error {
	for {
		e, err := p.next(ctx)
		if err != nil {
			return err
		}
		if e.Kind == isDone {
			return nil
		}
		t.add(e)
		if d.verbose || t.done%sample == 0 {
			e.By = p.name
			t.shown = append(t.shown, e)
		}
	}
}

// tally collects the events of all processes.
type tally struct {
	done, waits, others int64
	shown               []event
	fences              map[string]map[int64]uint64 // of each account, by visit
}

func (t *tally) add(e event) {
	t.done++
	t.others += e.Move.Others
	if e.Waited {
		t.waits++
	}
	for i, account := range []string{e.From, e.To} {
		if t.fences == nil {
			t.fences = map[string]map[int64]uint64{}
		}
		if t.fences[account] == nil {
			t.fences[account] = map[int64]uint64{}
		}
		t.fences[account][e.Move.Visits[i]] = e.Fence
	}
}

// falls returns an error for the first fence that is not above the fence of the visit before.
func (t *tally) falls() error {
	for account, fences := range t.fences {
		var last uint64
		for visit := range int64(len(fences)) {
			fence, ok := fences[visit+1]
			if !ok || fence <= last {
				return fmt.Errorf("%d comes after %d at %s", fence, last, account)
			}
			last = fence
		}
	}
	return nil
}
