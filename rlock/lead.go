package rlock

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Lead runs fn while this process is the leader, that is, while it holds the lock of key. All who call Lead
// with that key are candidates, in the order in which they came. Each time that the lock is held is a term,
// and lock.Fence() is its number, larger than that of every earlier term.
//
// fn's context ends when the term does, as that of Do. fn must return soon after that: Lead releases the
// lock only then, so there are two leaders only if fn works on past the end of its lease. What must not
// happen even then needs the fence.
//
//   - If fn returns while it leads, or after ctx has ended, Lead releases the lock and returns fn's error.
//   - If fn returns after its term was lost, after it has called Release to resign, or after its context
//     has ended WithStopBefore, Lead ignores fn's error and is a candidate again.
//   - If fn panics, Lead releases the lock, and the panic goes on.
//
// Lead also returns the error of an acquisition that fails: ErrGaveUp if ctx or the retry policy has ended
// the candidacy, ErrClosed when the Locker stops. WithToken is refused, WithFence has no effect, and
// WithOwner tells others who leads.
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
	set.uniqueToken = true // so that Leaders tells the terms of one process apart
	set.unfenced = false   // the fence is the number of the term
	for {
		var end error // of the term, before fn returned
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

// endedEarly returns why the Context ctx has ended although its lock is held, nil if it has not.
func endedEarly(ctx context.Context) error {
	switch cause := context.Cause(ctx); cause {
	case ErrLeaseEnding, ErrShutdown:
		return cause
	}
	return nil
}

// Leaders yields who holds the lock of key, at once and then whenever that changes: the State of each
// leader's term, and one that is not Held while there is none. It is a hint, as from Check, some 50 ms old
// where the client has a cache, and up to 250 ms elsewhere. Of terms that follow each other faster, only
// some are seen. Terms are told apart by their tokens, which change when a leader shortens its lease, too.
//
// The sequence ends when ctx does. A server that does not answer is asked again. Any other error is yielded,
// and ends the sequence: it matches ErrClosed if the Locker was closed.
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

// How often Leaders looks: into the cache of the client (BenchmarkCheck says what that costs), and at
// the server.
const (
	lookForLeader         = 50 * time.Millisecond
	lookForLeaderUncached = 250 * time.Millisecond
)
