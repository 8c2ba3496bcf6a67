package rlock

import "context"

// checkContext refuses a nil context. One whose methods panic does so here, before anything
// has begun: in the midst of a call it would leave the client's connection unusable.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return invalid("ctx", "it is nil; use context.Background()")
	}
	_, _ = ctx.Deadline()
	_, _ = ctx.Done(), ctx.Err()
	return nil
}
