package rlock

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Lead runs fn while this process is the leader: while it holds the lock of key. All callers of Lead with
// that key are candidates, in the order in which they came. One hold of the lock is a term. lock.Fence() is
// the number of the term, larger than the number of every earlier term.
//
// The context of fn ends when the term ends. fn must return soon after that, because Lead releases the lock
// only then. Two leaders exist only if fn works on past the end of its lease. If a former leader must not
// write even in this case, use the fence.
//
//   - If fn returns while it leads, or after ctx has ended, Lead releases the lock and returns the error of
//     fn.
//   - If fn returns after its term was lost, Lead ignores the error of fn and is a candidate again. The same
//     holds if fn called Release to resign, or if WithStopBefore had ended its context.
//   - If fn panics, Lead releases the lock, and the panic goes on.
//
// Lead also returns the error of an acquisition that fails: ErrGaveUp if ctx or the retry policy ends the
// candidacy, and ErrClosed when the Locker stops. Lead refuses WithToken and ignores WithFence. WithOwner
// tells others who leads.
func (l *Locker) Lead(ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error,
	opts ...Option) error {
	if fn == nil {
		return invalid("fn", "it is nil; pass the function that is to run with the lock")
	}
	given, full, err := l.beginKey(ctx, key, opts)
	if err != nil {
		return err
	}
	if given.token != "" {
		return invalid("WithToken", "each term of a leader has a token of its own; leave it out")
	}
	set := *given
	set.uniqueToken = true // so Leaders can tell the terms of one process apart
	set.unfenced = false   // the fence is the number of the term
	for {
		var end error // why the term ended before fn returned; nil: it had not ended
		_, err := l.do(ctx, func(ctx context.Context, lock *Lock) error {
			err := fn(ctx, lock)
			if end = lock.Err(); end == nil {
				end = endedEarly(ctx)
			}
			return err
		}, func(by method) (*Lock, error) {
			by.lead = true
			return l.acquireClaim(ctx, wire.One(full), &set, by)
		}, true)
		again := end != nil && !errors.Is(end, ErrDetached)
		if !again || ctx.Err() != nil {
			return err
		}
	}
}

// endedEarly returns why the Context ctx has ended although its lock is held, or nil.
func endedEarly(ctx context.Context) error {
	switch cause := context.Cause(ctx); cause {
	case ErrLeaseEnding, ErrShutdown:
		return cause
	}
	return nil
}

// Leaders yields the holder of the lock of key at once, and then each time the holder changes. It yields the
// State of each term, and a State that is not Held while there is no leader. The State is a hint, like the
// State of Check: some 50 ms old if the client has a cache, and up to 250 ms otherwise. If terms follow each
// other faster, Leaders skips some. Leaders tells terms apart by their tokens, so it also yields when a
// leader shortens its lease.
//
// The sequence ends when ctx ends. If the server does not answer, Leaders asks again. It yields any other
// error and ends the sequence. The error matches ErrClosed if the Locker was closed.
func (l *Locker) Leaders(ctx context.Context, key string) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		full, err := l.begun(ctx, "check", key)
		if err != nil {
			yield(State{}, err)
			return
		}
		last, outage := State{}, l.wire.Outage(new(clock.Silence))
		for first := true; ctx.Err() == nil; {
			s, err := checkLeader(ctx, l, key)
			switch passes := outage.Record(err); {
			case err != nil && ctx.Err() == nil && !passes:
				yield(State{}, err)
				return
			case err == nil && (first || s.Held != last.Held || s.token != last.token):
				if !yield(s, nil) {
					return
				}
				first, last = false, s
			}
			pause := lookForLeader
			if err != nil || l.wire.Uncached() {
				pause = lookForLeaderUncached
			}
			if clock.Sleep(ctx, pause, l.closed) == clock.ErrStopped {
				yield(State{}, &LockError{"check", full, ErrClosed})
				return
			}
		}
	}
}

// checkLeader is Check, and ends when the Locker is closed.
func checkLeader(ctx context.Context, l *Locker, key string) (State, error) {
	ctx, end := clock.EndsWith(ctx, l.background)
	defer end()
	return l.Check(ctx, key)
}

// How often Leaders looks into the cache of the client (BenchmarkCheck has the cost), and at the server.
const (
	lookForLeader         = 50 * time.Millisecond
	lookForLeaderUncached = 250 * time.Millisecond
)
