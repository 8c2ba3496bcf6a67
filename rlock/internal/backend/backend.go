// Package backend does with a backend what scripts do at Redis. It knows keys and tokens, and asks for one
// key at a time. It does not know what a lock is to its holder, or how the backend keeps its keys.
package backend

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Keys are the methods that a backend must have. Package rlock tells their authors what each method does.
type Keys interface {
	Acquire(
		ctx context.Context, key, token string, ttl time.Duration,
	) (acquired bool, left time.Duration, err error)
	Extend(ctx context.Context, key, token string, ttl time.Duration) (held bool, err error)
	Release(ctx context.Context, key, token string) (released bool, err error)
	Holder(ctx context.Context, key string) (token string, left time.Duration, err error)
}

// Fences are the methods that a backend may also have.
type Fences interface {
	Fence(ctx context.Context, key string) (uint64, error)
}

// Locks does what scripts do: it is a wire.Locks and a notify.Server. Its methods do not use the client.
type Locks struct {
	Keys   Keys
	Fences Fences          // nil: there are none
	Closed context.Context // ends with the Locker
}

// errEnded is the answer to a call whose goroutine code of the backend has ended.
var errEnded = &wire.BackendError{Err: errors.New("the backend has called runtime.Goexit")}

// replies has an answer for each of params. No call waits for a silent one.
func replies[P, R any](params []P, ask func(p P) (R, error)) []redislua.Reply[R] {
	all := make([]redislua.Reply[R], len(params))
	for i := range all {
		all[i].Err = errEnded
	}
	wire.AtOnce(len(params), func(i int) { all[i].Value, all[i].Err = ask(params[i]) })
	return all
}

// longestCall is how long a backend may be silent before Locks gives a call up and makes it again. A client
// of Redis waits as long by default for a server that reads nothing.
const longestCall = 10 * time.Second

// call makes a call of the backend. The call ends after longestCall or with the Locker, even if ctx lasts.
func (l *Locks) call(ctx context.Context, do func(ctx context.Context) error) error {
	limited, cancel := context.WithTimeout(ctx, longestCall)
	defer cancel()
	limited, end := clock.EndsWith(limited, l.Closed)
	defer end()
	err := do(limited)
	var known *wire.BackendError
	switch ended := ctx.Err(); {
	case err == nil:
		return nil
	case ended != nil && errors.Is(err, ended): // the caller knows this error
		return err
	case limited.Err() != nil && errors.Is(err, limited.Err()):
		return &wire.BackendError{Err: errSilent}
	case errors.As(err, &known):
		return err
	}
	return &wire.BackendError{Err: err}
}

// errSilent is the error of a call that ended, although the context of its caller did not.
var errSilent = fmt.Errorf("the backend has not answered for %v, or the Locker was closed", longestCall)

// lease converts a TTL for a backend.
func lease(ttl time.Duration) time.Duration {
	if ttl == 0 {
		return clock.NoExpiry
	}
	return ttl
}

// milliseconds converts the rest of a lease as scripts return it. -1 stands for a lease that does not end.
func milliseconds(left time.Duration) int64 {
	if left == clock.NoExpiry {
		return -1
	}
	return max((left + time.Millisecond - 1).Milliseconds(), 0)
}

// take takes a key, and then a fence. So each holder before and after this one has another fence.
func (l *Locks) take(
	ctx context.Context, key, token string, ttl time.Duration, fenced bool,
) (acquired bool, left time.Duration, fence uint64, err error) {
	err = l.call(ctx, func(ctx context.Context) (err error) {
		acquired, left, err = l.Keys.Acquire(ctx, key, token, lease(ttl))
		return err
	})
	if err != nil || !acquired || !fenced || l.Fences == nil {
		return acquired, left, 0, err
	}
	err = l.call(ctx, func(ctx context.Context) (err error) {
		fence, err = l.Fences.Fence(ctx, key)
		return err
	})
	if err != nil {
		return false, 0, 0, wire.Unfenced(err)
	}
	return true, 0, fence, nil
}

// Acquire implements wire.Locks.
func (l *Locks) Acquire(
	ctx context.Context, _ rueidis.Client, p gen.AcquireParams,
) (gen.AcquireResult, error) {
	acquired, left, fence, err := l.take(ctx, p.Lock, p.Token, p.TTL, len(p.Counter) > 0)
	if err == nil && acquired {
		return gen.AcquireResult{Outcome: 1, Value: int64(fence)}, nil
	}
	return gen.AcquireResult{Outcome: 2, Value: milliseconds(left)}, err
}

// AcquireAll implements wire.Locks. Each part of a set has one key.
func (l *Locks) AcquireAll(
	ctx context.Context, _ rueidis.Client, p gen.AcquireAllParams,
) (gen.AcquireAllResult, error) {
	acquired, left, fence, err := l.take(ctx, p.Keys[0], p.Token, p.TTL, len(p.Keys) > 1)
	if err == nil && acquired {
		return gen.AcquireAllResult{Acquired: true, Fence: int64(fence)}, nil
	}
	return gen.AcquireAllResult{Held: 1, Remaining: time.Duration(milliseconds(left)) * time.Millisecond}, err
}

// RaiseFenceBatch implements wire.Locks. It does nothing, since the fences of all keys have one counter.
func (l *Locks) RaiseFenceBatch(
	_ context.Context, _ rueidis.Client, params []gen.RaiseFenceParams,
) []redislua.Reply[int64] {
	return make([]redislua.Reply[int64], len(params))
}

// HandOver implements wire.Locks. It hands nothing over, since no token replaces another. The next caller
// takes the key as any other caller does.
func (l *Locks) HandOver(context.Context, rueidis.Client, gen.HandOverParams) (gen.HandOverResult, error) {
	return gen.HandOverResult{}, nil
}

// Extend implements wire.Locks, for one key.
func (l *Locks) Extend(ctx context.Context, _ rueidis.Client, p gen.ExtendParams) (lost []int64, err error) {
	held := false
	err = l.call(ctx, func(ctx context.Context) (err error) {
		held, err = l.Keys.Extend(ctx, p.Keys[0], p.Tokens[0], lease(p.TTL))
		return err
	})
	if err == nil && !held {
		lost = []int64{1}
	}
	return lost, err
}

// ExtendBatch implements wire.Locks.
func (l *Locks) ExtendBatch(
	ctx context.Context, c rueidis.Client, params []gen.ExtendParams,
) []redislua.Reply[[]int64] {
	return replies(params, func(p gen.ExtendParams) ([]int64, error) { return l.Extend(ctx, c, p) })
}

// ReleaseManyBatch implements wire.Locks, for one key in each call.
func (l *Locks) ReleaseManyBatch(
	ctx context.Context, _ rueidis.Client, params []gen.ReleaseManyParams,
) []redislua.Reply[[]int64] {
	return replies(params, func(p gen.ReleaseManyParams) ([]int64, error) {
		freed := []int64{0}
		err := l.call(ctx, func(ctx context.Context) error {
			released, err := l.Keys.Release(ctx, p.Keys[0], p.Tokens[0])
			if released {
				freed[0] = 1
			}
			return err
		})
		return freed, err
	})
}

func (l *Locks) holder(ctx context.Context, key string) (token string, left time.Duration, err error) {
	err = l.call(ctx, func(ctx context.Context) (err error) {
		token, left, err = l.Keys.Holder(ctx, key)
		return err
	})
	return token, left, err
}

// Inspect implements wire.Locks, for one key.
func (l *Locks) Inspect(
	ctx context.Context, _ rueidis.Client, p gen.InspectParams,
) (gen.InspectResult, error) {
	token, left, err := l.holder(ctx, p.Keys[0])
	return gen.InspectResult{
		Values:    []redislua.Null[string]{{V: token, Valid: token != ""}},
		Remaining: []time.Duration{time.Duration(milliseconds(left)) * time.Millisecond},
	}, err
}

// InspectBatch implements wire.Locks.
func (l *Locks) InspectBatch(
	ctx context.Context, c rueidis.Client, params []gen.InspectParams,
) []redislua.Reply[gen.InspectResult] {
	return replies(params, func(p gen.InspectParams) (gen.InspectResult, error) { return l.Inspect(ctx, c, p) })
}

// Slot implements notify.Server. A backend has no slots.
func (*Locks) Slot(string) uint16 { return 0 }

// Owners implements notify.Server.
func (l *Locks) Owners(ctx context.Context, locks [][]string) []notify.Answer[string] {
	return read(locks, func(key string) (string, error) {
		token, _, err := l.holder(ctx, key)
		return token, err
	})
}

// Left implements notify.Server.
func (l *Locks) Left(ctx context.Context, locks [][]string) []notify.Answer[time.Duration] {
	return read(locks, func(key string) (time.Duration, error) {
		token, left, err := l.holder(ctx, key)
		if token == "" {
			left = notify.Gone
		}
		return left, err
	})
}

// read asks about all keys at the same time.
func read[T any](locks [][]string, ask func(key string) (T, error)) []notify.Answer[T] {
	keys := slices.Concat(locks...)
	replies := replies(keys, ask)
	answers := make([]notify.Answer[T], len(locks))
	for i, lock := range locks {
		for _, reply := range replies[:len(lock)] {
			if reply.Err != nil {
				answers[i].Err = reply.Err
			}
			answers[i].Keys = append(answers[i].Keys, reply.Value)
		}
		replies = replies[len(lock):]
	}
	return answers
}
