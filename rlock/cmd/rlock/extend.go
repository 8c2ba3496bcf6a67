package main

import (
	"context"
	"time"
)

// defaultTTL is the lease of every command that takes or extends one.
const defaultTTL = 30 * time.Second

// defineTTL defines the flag that is the length of the lease.
func (a *arguments) defineTTL(ttl *time.Duration) {
	*ttl = defaultTTL
	a.duration(ttl, "ttl")
}

// checkTTL refuses what is no lease.
func (a *arguments) checkTTL(ttl time.Duration) error {
	if ttl == 0 {
		return a.usage("--ttl 0s is no lease; a lock must end if no holder extends it")
	}
	return nil
}

// extendCommand is rlock extend.
func (p *program) extendCommand(args []string) error {
	a := p.arguments("extend")
	var ttl time.Duration
	a.defineTTL(&ttl)
	operands, err := a.operands(args, 2, 2, "KEY and TOKEN; quote a TOKEN with spaces")
	if err != nil {
		return err
	}
	if err := checkKeys(operands[:1]); err != nil {
		return err
	}
	if err := a.checkTTL(ttl); err != nil {
		return err
	}
	ctx, admin, done, err := p.admin()
	if err != nil {
		return err
	}
	defer done()
	key, token := operands[0], operands[1]
	extended, err := told(ctx, func(ctx context.Context) error { return admin.Extend(ctx, key, token, ttl) })
	if err != nil {
		return err
	}
	return p.did(extended, key, fields{"extended": extended, "ttl_ms": ttl.Milliseconds()})
}
