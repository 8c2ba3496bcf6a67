package rlockadmin

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/internal/argument"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/interrupt"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Admin looks at locks and repairs them. It is safe for concurrent use, keeps nothing open and needs no
// Close. The zero Admin refuses every call with an error that matches rlock.ErrInvalid.
//
// Errors are an *rlock.LockError, which matches rlock.ErrNoAnswer if the server did not answer while ctx
// lasted, or an *rlock.ArgumentError for a wrong argument.
type Admin struct {
	client rueidis.Client
	wire   *wire.Server
}

// New returns an Admin that uses client, such as that of Locker.Client, and leaves it open. Make one and keep
// it: it remembers what the user may not do.
func New(client rueidis.Client) (*Admin, error) {
	if client == nil {
		return nil, invalid("client", "it is nil")
	}
	return &Admin{client, wire.NewServer(interrupt.Of(client), wire.Scripts(), wire.NewToken(""))}, nil
}

// Inspect asks the server who holds the lock of key, for how long, and who waits for it.
func (a *Admin) Inspect(ctx context.Context, key string) (State, error) {
	if err := a.begin(ctx, "inspect", key); err != nil {
		return State{}, err
	}
	found, err := a.wire.Look(ctx, key)
	if err != nil {
		return State{}, failed(ctx, "inspect", key, err)
	}
	return stateOf(&found), nil
}

// ForceRelease frees what a holder has of the lock of key, if its token is still token. Holder.Token has it:
// it keeps the call from freeing the lock of a later holder. The next who waits gets the lock. The error
// matches rlock.ErrLost if nobody holds the lock by that token; after any other error the lock may or may not
// be free.
//
// The holder learns of its loss as of that of a key which somebody has deleted: at once where the server
// tells its client, and otherwise, as one of several who share a key always, when it next extends, verifies
// or releases, which may be never. Until then it may be at work beside the next one: let the resource check
// the fence. If the holder has handed over what it had within its process, the next one may have the same
// token and loses it; with rlock.WithUniqueToken it has not.
//
// If the server does not answer, ForceRelease asks again for 2 seconds, while ctx lasts.
func (a *Admin) ForceRelease(ctx context.Context, key, token string) error {
	if err := a.begin(ctx, "force release", key); err != nil {
		return err
	}
	if token == "" {
		return invalid("token", emptyToken)
	}
	freed, err := a.wire.ReleaseWhile(ctx, key, token)
	switch {
	case err != nil:
		return failed(ctx, "force release", key, err)
	case freed == wire.Missing:
		return &rlock.LockError{Op: "force release", Key: key, Err: rlock.ErrLost}
	}
	return nil
}

// Extend gives a holder, if its token is still token, a lease of ttl, counted from now, in whole
// milliseconds, or rlock.NoExpiry: for who has the token and no *rlock.Lock, such as a script, and to give a
// holder more time. A lease that ends later stays as it is. The error matches rlock.ErrLost if nobody holds
// the lock by that token; after any other error the lease may or may not be extended.
//
// A Lock that has the token does not learn of it, and ends when its own lease does.
//
// If the server does not answer, Extend asks again for 2 seconds, while ctx lasts.
func (a *Admin) Extend(ctx context.Context, key, token string, ttl time.Duration) error {
	if err := a.begin(ctx, "extend", key); err != nil {
		return err
	}
	if wrong := argument.TTL(ttl); wrong != nil {
		return invalid(wrong.Argument, wrong.Reason)
	}
	if token == "" {
		return invalid("token", emptyToken)
	}
	held, err := a.wire.ExtendWhile(ctx, key, token, ttl)
	switch {
	case err != nil:
		return failed(ctx, "extend", key, err)
	case !held:
		return &rlock.LockError{Op: "extend", Key: key, Err: rlock.ErrLost}
	}
	return nil
}

// emptyToken says what is wrong with no token.
const emptyToken = "it is empty; Inspect tells those of the holders"

// begin checks the arguments of a call, which is told of as op. A call whose context has ended is not sent.
func (a *Admin) begin(ctx context.Context, op, key string) error {
	if err := a.usable(ctx); err != nil {
		return err
	}
	if _, wrong := argument.Key("", key); wrong != nil {
		return invalid(wrong.Argument, wrong.Reason)
	}
	return ended(ctx, op, key)
}

// usable refuses an Admin that New has not made, and a nil context.
func (a *Admin) usable(ctx context.Context) error {
	if a == nil || a.wire == nil {
		return invalid("admin", "it is nil or the zero Admin; make one with New")
	}
	if ctx == nil {
		return invalid("ctx", "it is nil; use context.Background()")
	}
	return nil
}

// ended is the error of a call whose context has ended before.
func ended(ctx context.Context, op, key string) error {
	if ctx.Err() != nil {
		return &rlock.LockError{Op: op, Key: key, Err: clock.ContextError(ctx, nil)}
	}
	return nil
}

func invalid(argument, reason string) error {
	return &rlock.ArgumentError{Argument: argument, Reason: reason}
}

// failed is the error of a call that ended with err.
func failed(ctx context.Context, op, key string, err error) error {
	return &rlock.LockError{Op: op, Key: key, Err: wire.Ended(ctx, err)}
}
