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

// Admin looks at locks and repairs them. It is safe for concurrent use. It keeps nothing open and needs no
// Close. The zero Admin refuses every call with an error that matches rlock.ErrInvalid.
//
// An error is an *rlock.LockError, or an *rlock.ArgumentError for a wrong argument. It matches
// rlock.ErrNoAnswer if the server does not answer while ctx lasts.
type Admin struct {
	client rueidis.Client
	wire   *wire.Server
}

// New returns an Admin that uses client, such as Locker.Client, and leaves the client open. Make one Admin
// and keep it: it remembers the rights that the user lacks.
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

// ForceRelease frees the lock of key if its holder has this token. If a sharer has the token, ForceRelease
// frees only this share. It never frees the lock of a
// later holder with another token. Holder.Token returns the token. The next waiter gets the lock. The error
// matches rlock.ErrLost if no holder has the token. After any other error the lock may be free or not. If the
// server does not answer, ForceRelease asks again for 2 seconds, while ctx lasts.
//
// The former holder may work on beside the next holder, so let the resource check the fence. The former
// holder learns of the loss as if its key was deleted:
//
//   - at once, if it has the whole lock and the server sends invalidations to its client
//   - otherwise when it next extends, verifies or releases, which may be never
//
// After a hand-over within a process, the next holder may have the same token, and then the next holder loses
// the lock. rlock.WithUniqueToken prevents that.
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

// Extend gives the holder with this token a lease of ttl, counted from now, in whole milliseconds, or
// rlock.NoExpiry. It is for a program with a token and no *rlock.Lock, such as a script, and for operators
// who give a holder more time. If the lease ends later already, Extend leaves it as it is. The error matches
// rlock.ErrLost if no holder has the token. After any other error the lease may be extended or not. If the
// server does not answer, Extend asks again for 2 seconds, while ctx lasts.
//
// A Lock with the token does not learn of the extension. It ends with its own lease.
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

// emptyToken says what is wrong with an empty token.
const emptyToken = "it is empty; Inspect shows the tokens of the holders"

// begin checks the arguments of the call op. It refuses a call whose context has ended.
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

// ended is the error of a call whose context has ended before the call.
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
