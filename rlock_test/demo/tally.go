package main

import (
	"context"
	"fmt"
	"strings"
)

// tally prints what was counted and whether everything is as it must be. It
// returns an error if something is not.
func (d *demo) tally(ctx context.Context) error {
	if err := d.judgeTheEnd(ctx); err != nil {
		return err
	}
	r := d.referee
	d.heading("Tally")
	for _, line := range []struct {
		n    int64
		what string
	}{
		{r.done.Load(), "transfers"},
		{int64(r.waits), "waits: acquisitions that took more than one attempt"},
		{r.handOvers.Load(), "hand-overs: an account's lock went from one worker to another"},
		{r.fromCache, "checks answered from the cache"},
		{int64(r.checked), "fences compared with the one before"},
	} {
		d.print("%8d  %s\n", line.n, line.what)
	}

	d.heading("What must be true")
	failed := 0
	for _, v := range r.verdicts {
		if v.wrong == nil {
			d.print("    PASS  %s\n", v.claim)
			continue
		}
		failed++
		d.print("    FAIL  %s: %v\n", v.claim, v.wrong)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d things that must be true are not", failed, len(r.verdicts))
	}
	d.print("\nok: all %d are true\n", len(r.verdicts))
	return nil
}

// judgeTheEnd judges what can be seen when everybody has stopped.
func (d *demo) judgeTheEnd(ctx context.Context) error {
	total, err := d.bank.total(ctx, d.server.client)
	if err != nil {
		return err
	}
	left, err := d.server.existing(ctx, d.referee.lockKeys())
	if err != nil {
		return err
	}
	r := d.referee
	want := int64(opening * len(d.bank.accounts))
	overlaps := r.overlaps.Load()
	r.judge(fmt.Sprintf("the total of all balances is still %d", want),
		unless(total == want, "it is %d", total))
	r.judge("no account had two workers at it at the same time",
		unless(overlaps == 0, "there were %d overlaps", overlaps))
	r.judge("every fence is above the one that its key had before",
		unless(r.fallen == 0, "%d are not, the first %s", r.fallen, r.firstFall))
	r.judge("no lock is left on the server",
		unless(len(left) == 0, "%s", strings.Join(left, ", ")))
	return nil
}

// unless returns nil if something is true, and otherwise an error that says what
// is wrong.
func unless(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}
