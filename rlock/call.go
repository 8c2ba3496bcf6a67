package rlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// answer is what is known of a command's outcome.
type answer int

const (
	confirmed answer = iota // the server ran it
	refused                 // the server did not run it
	unknown                 // the reply was lost: it may have run, or may still run
)

// answerOf tells what an error of a call says about the server.
func answerOf(err error) answer {
	if err == nil {
		return confirmed
	}
	var (
		server *rueidis.RedisError
		param  *gen.ParamError
		slots  *gen.CrossSlotError
		local  *LockError
		input  *ArgumentError
		some   *partialError
		plain  *refusal
	)
	if errors.As(err, &some) {
		return unknown
	}
	if errors.As(err, &server) || errors.As(err, &param) || errors.As(err, &slots) || errors.As(err, &local) ||
		errors.As(err, &input) || errors.As(err, &plain) {
		return refused
	}
	return unknown
}

// tries is how often a call is sent when replies are lost. Every script is safe
// to repeat with the same token.
const tries = 3

// insistence is how long a call goes on that a lock depends on. After a failover, the
// client may need a second to learn of the new primary.
const insistence = 2 * time.Second

// repeat calls f until its outcome is known, ctx ends, or it was tried enough.
func repeat(ctx context.Context, f func(ctx context.Context) error) error {
	return again(ctx, f, func(try int) bool { return try < tries })
}

// insist calls f until its outcome is known, ctx ends, or it has no more time.
func insist(ctx context.Context, f func(ctx context.Context) error) error {
	end := clock.Now().After(insistence)
	return again(ctx, f, func(int) bool { return clock.Now() < end })
}

// persist insists whether or not ctx has ended.
func persist(ctx context.Context, f func(ctx context.Context) error) error {
	if ctx.Err() == nil {
		if err := f(ctx); answerOf(err) != unknown {
			return err
		}
	}
	detached, cancel := context.WithTimeout(context.WithoutCancel(ctx), insistence)
	defer cancel()
	return insist(detached, f)
}

func again(ctx context.Context, f func(ctx context.Context) error, more func(try int) bool) error {
	for try := 1; ; try++ {
		err := f(ctx)
		if answerOf(err) != unknown || ctx.Err() != nil || !more(try) {
			return err
		}
		if try >= tries && final(err) {
			return err
		}
		pause := min(10*time.Millisecond<<min(try, 6), 500*time.Millisecond)
		if clock.Sleep(ctx, pause/2+rand.N(pause), nil) != nil {
			return err
		}
	}
}

// final reports an error that more tries do not change: the client is closed, not just
// a connection that it replaces, or some slots refuse what the others have done.
func final(err error) bool {
	var some *partialError
	return errors.Is(err, rueidis.ErrClosing) || errors.As(err, &some)
}

// checkContext refuses a nil context. One whose methods panic does so here, before anything
// has begun: in the midst of a call it would leave the client's connection unusable.
func checkContext(ctx context.Context) error {
	if ctx == nil {
		return &ArgumentError{"ctx", "it is nil; use context.Background()"}
	}
	_, _ = ctx.Deadline()
	_, _ = ctx.Done(), ctx.Err()
	return nil
}
