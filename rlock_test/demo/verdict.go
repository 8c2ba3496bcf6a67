package main

import (
	"context"
	"fmt"
	"strings"
)

// verdict is a claim of the demo, and what is wrong with the claim.
type verdict struct {
	claim string
	wrong error // nil: the claim is true
}

// judge keeps a verdict for the end.
func (d *demo) judge(claim string, wrong error) {
	d.verdicts = append(d.verdicts, verdict{claim, wrong})
}

// judgeTheEnd judges the state after all processes have ended.
func (d *demo) judgeTheEnd(ctx context.Context) error {
	left, err := d.server.locks(ctx)
	if err != nil {
		return err
	}
	d.judge("no lock is left on the server", unless(len(left) == 0, "%s", strings.Join(left, ", ")))
	return nil
}

// verdict prints which claims held. It returns an error if one did not.
func (d *demo) verdict() error {
	d.heading("What must be true, of %d processes:", d.started)
	failed := 0
	for _, v := range d.verdicts {
		if v.wrong == nil {
			d.print("  PASS  %s\n", v.claim)
			continue
		}
		failed++
		d.print("  FAIL  %s: %v\n", v.claim, v.wrong)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d things that must be true are not", failed, len(d.verdicts))
	}
	return nil
}

// unless returns nil if ok, and otherwise an error that says what is wrong.
func unless(ok bool, format string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf(format, args...)
}

// firstOf returns the first error that is not nil.
func firstOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
