package rlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// AcquireShared takes a share of the lock of key, for a reader, and waits like Acquire. Any number of
// readers hold the lock together, and while one does, nobody holds the whole lock. Each has a Lock of
// its own; all of them have the same fence.
//
// Readers and those who want the whole lock take turns: one who waits for the whole lock stops readers
// who come later, and when it has released the lock, all who wait by then get in together. A reader
// cannot go on to the whole lock, because two who wanted that would wait for each other: release the
// share, acquire the lock, and look again at what was read. Lock.Downgrade is the other way.
//
// Options, waiting and errors are those of Acquire, but WithToken and WithAtLeast are refused, and
// there is a fence whatever WithFence says. While permits of the key are held (see AcquirePermit), the
// error is a *LimitError. To other lock libraries the key is that of a held lock.
//
// Readers of one Locker with the same TTL and owner share what one of them has at the server, so that
// many short reads cost few commands: for 10 ms (see WithTurn), those who come get the lock without a
// command, with the deadline of the first. The last Release gives it up. They have one Token, and to
// the server they are one holder; if it is lost, it is for all of them. WithUniqueToken(true) has a
// reader share nothing.
func (l *Locker) AcquireShared(ctx context.Context, key string, opts ...Option) (*Lock, error) {
	return acquireShare(ctx, l, key, asReader, opts, wanted{wait: true})
}

// TryAcquireShared is AcquireShared without waiting. ErrHeld says that somebody holds the whole lock,
// or that others wait for the key.
func (l *Locker) TryAcquireShared(ctx context.Context, key string, opts ...Option) (*Lock, error) {
	return acquireShare(ctx, l, key, asReader, opts, wanted{})
}

// AcquirePermit takes a permit of key, of which there are as many as limit, or waits for one: a
// semaphore whose permits have leases. WithPermits takes several at once. A holder that dies keeps its
// permits until its lease ends. Options, waiting and errors are those of AcquireShared.
//
// Permits go to those who wait in the order in which they came. One who wants several waits until so
// many are free, and those behind it wait too, so that large requests do not starve.
//
// All callers must name the same limit: if it is not that of the present holders, or readers hold the
// key, the error is a *LimitError. While nobody has a permit, the next caller sets the limit;
// ChangeLimit changes it meanwhile.
func (l *Locker) AcquirePermit(ctx context.Context, key string, limit int, opts ...Option) (*Lock, error) {
	return acquireShare(ctx, l, key, permits(limit), opts, wanted{wait: true})
}

// TryAcquirePermit is AcquirePermit without waiting. ErrHeld says that there are not enough permits
// free, that somebody holds the whole lock, or that others wait.
func (l *Locker) TryAcquirePermit(ctx context.Context, key string, limit int, opts ...Option) (*Lock, error) {
	return acquireShare(ctx, l, key, permits(limit), opts, wanted{})
}

// DoShared is Do with a share of the lock of key, as AcquireShared takes it.
func (l *Locker) DoShared(ctx context.Context, key string, fn func(ctx context.Context, lock *Lock) error, opts ...Option) error {
	_, err := l.do(ctx, fn, func(want wanted) (*Lock, error) { return acquireShare(ctx, l, key, asReader, opts, want) }, true)
	return err
}

// DoPermit is Do with a permit of key, as AcquirePermit takes it.
func (l *Locker) DoPermit(ctx context.Context, key string, limit int, fn func(ctx context.Context, lock *Lock) error, opts ...Option) error {
	_, err := l.do(ctx, fn, func(want wanted) (*Lock, error) { return acquireShare(ctx, l, key, permits(limit), opts, want) }, true)
	return err
}

// mostPermits is how many permits one call may take. The server writes an entry for each.
const mostPermits = 1000

// WithPermits has AcquirePermit, TryAcquirePermit and DoPermit take n permits in one step, from 1 to
// 1000 and no more than the limit. Without it they take one. The n permits are one Lock. Other calls
// ignore it.
func WithPermits(n int) Option {
	return callOption(func(s *settings) error {
		s.permits = n
		if n < 1 || n > mostPermits {
			return invalid("WithPermits", fmt.Sprintf("%d is not from 1 to %d", n, mostPermits))
		}
		return nil
	})
}

// sharing returns the share that a call wants.
type sharing func(*settings) (remote.Share, error)

func asReader(*settings) (remote.Share, error) { return remote.Share{Permits: 1}, nil }

func permits(limit int) sharing {
	return func(s *settings) (remote.Share, error) {
		switch n := max(s.permits, 1); {
		case limit < 1:
			return remote.Share{}, invalid("limit", fmt.Sprintf("%d is below 1; for any number of holders, use AcquireShared", limit))
		case n > limit:
			return remote.Share{}, invalid("WithPermits", fmt.Sprintf("%d permits of a limit of %d: there will never be so many; ask for less, or raise the limit", n, limit))
		default:
			return remote.Share{Limit: limit, Permits: n}, nil
		}
	}
}

func acquireShare(ctx context.Context, l *Locker, key string, wants sharing, opts []Option, want wanted) (*Lock, error) {
	set, err := l.begin(ctx, opts)
	if err != nil {
		return nil, err
	}
	full, err := set.redisKey(key)
	if err != nil {
		return nil, err
	}
	if set.token != "" {
		return nil, invalid("WithToken", "a share has a token of its own kind; leave the option out")
	}
	if set.atLeast > 0 {
		return nil, invalid("WithAtLeast", "a share keeps no other share out; leave the option out, or undo the Locker's with WithAtLeast(0)")
	}
	share, err := wants(set)
	if err != nil {
		return nil, err
	}
	claim := remote.One(full)
	claim.Wants(share)
	return l.acquireClaim(ctx, claim, set, want)
}

// ErrLimit: the present holders of permits have another limit than the call. LimitError names both.
var ErrLimit = errors.New("rlock: another limit than that of the present holders")

// LimitError reports a call that named another limit than the present holders have. Nothing was
// taken. It matches ErrLimit.
type LimitError struct {
	Limit   int // of the call; 0: none, it is a reader's
	Present int // of those who hold the key; 0: none, they are readers
}

func (e *LimitError) Error() string {
	switch {
	case e.Present == 0:
		return fmt.Sprintf("rlock: readers share the key, and this call names a limit of permits, %d; permits need a key of their own, or come when no reader holds it", e.Limit)
	case e.Limit == 0:
		return fmt.Sprintf("rlock: permits of the key are held, with a limit of %d, and this call is a reader's; readers need a key of their own, or come when no permit is held", e.Present)
	}
	return fmt.Sprintf("rlock: the limit of those who hold permits is %d, and this call names %d; name the same, or change it with ChangeLimit", e.Present, e.Limit)
}

// Unwrap returns ErrLimit.
func (e *LimitError) Unwrap() error { return ErrLimit }

// limitError makes the error of package remote that is about a limit a *LimitError.
func limitError(claim *remote.Claim, err error) error {
	if other := (*remote.LimitError)(nil); errors.As(err, &other) {
		share, _ := claim.Share()
		return &LimitError{Limit: share.Limit, Present: other.Present}
	}
	return err
}

// ChangeLimit changes how many permits of key there are, and returns how many there were. It returns 0
// and changes nothing if nobody has a permit, because the next caller sets the limit. Those who have
// permits keep them, and nobody gets one until they are fewer than the new limit. A call that names the
// former limit fails with a *LimitError from then on, also one that waits already, unless a permit is
// free for it at once.
//
// If readers share the key, the error is a *LimitError. If the server does not answer, ChangeLimit asks
// again for 2 seconds, while ctx lasts.
func (l *Locker) ChangeLimit(ctx context.Context, key string, limit int) (former int, err error) {
	full, err := l.begun(ctx, "change limit", key)
	if err != nil {
		return 0, err
	}
	if limit < 1 {
		return 0, invalid("limit", fmt.Sprintf("%d is below 1; to let nobody in, acquire the whole lock", limit))
	}
	if ctx.Err() != nil {
		return 0, &LockError{"change limit", full, clock.ContextError(ctx, nil)}
	}
	former, err = l.remote.Shares().ChangeLimit(ctx, full, limit)
	switch {
	case err != nil:
		return 0, &LockError{"change limit", full, err}
	case former == remote.NotShared:
		return 0, nil
	case former == 0:
		return 0, &LockError{"change limit", full, &LimitError{Limit: limit}}
	}
	return former, nil
}

// Downgrade turns a lock into a reader's share of it, as AcquireShared would return it, without letting
// anybody else have the whole lock in between. The share is a Lock of its own, with the same fence and
// a new lease, which is extended automatically if that of l was: Release it. l ends with ErrDetached,
// and so does its Context; if l is the lock of Do, Do returns ErrDetached and does not release the
// share.
//
// ctx may be the Context of l: the call then goes on for two seconds at most. Use the Context of the
// share for what follows.
//
// If the lock was lost, the error matches ErrLost. After any other error of the server or the context
// the caller holds nothing, and the Locker frees the key in the background. A set, a lock with
// WithToken or WithAtLeast, a share and permits are refused, and stay as they are.
func (l *Lock) Downgrade(ctx context.Context) (*Lock, error) {
	if err := l.usable(); err != nil {
		return nil, err
	}
	if err := checkContext(ctx); err != nil {
		return nil, err
	}
	key := l.claim.Key()
	switch {
	case l.claim.IsSet():
		return nil, invalid("lock", "it is of several keys, of which nobody has a share; release it, and acquire what is needed")
	case l.claim.IsShare():
		return nil, invalid("lock", "it is a share already, or has permits; only one who has the whole lock can give it up for a share")
	case l.claim.Chosen():
		return nil, invalid("WithToken", "another handle may hold the lock by the same token, and counts on the whole lock; leave the option out")
	case keepsOut(l):
		return nil, invalid("WithAtLeast", "the lock keeps others out for a time that is not over, readers too; leave the option out")
	case ctx.Err() != nil:
		return nil, &LockError{"downgrade", key, clock.ContextError(ctx, nil)}
	}
	if cause := l.Err(); cause != nil {
		return nil, &LockError{"downgrade", key, cause}
	}
	if _, within := l.locker.heldIn(ctx, l.claim.Keys()); within { // ctx ends with l, before the server is asked
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), remote.Patience)
		defer cancel()
	}
	if _, err := l.Detach(); err != nil {
		return nil, &LockError{"downgrade", key, l.Err()}
	}
	former, ttl := l.lease.Tokens(), l.lease.TTL()
	claim := remote.One(key)
	claim.Wants(remote.Share{Permits: 1})
	lock := l.locker.newLock(l.parent, claim, l.set, wanted{do: l.want.do}, clock.Now())
	lock.attempts = 1
	lock.lease.Prepare(ttl, lock.mint())
	done := false
	defer func() { // also when user code has panicked
		if !done || l.claim.Possible() > 0 {
			l.locker.remote.Abandon(&l.claim, former, NoExpiry, 1)
		}
		if !done {
			l.locker.remote.Abandon(&lock.claim, lock.lease.Tokens(), ttl, 1)
		}
	}()
	d, err := l.locker.remote.Shares().Downgrade(ctx, &lock.claim, remote.Request{Token: lock.lease.Token(), TTL: ttl}, l.fence, former)
	switch {
	case err != nil:
		return nil, &LockError{"downgrade", key, err}
	case !d.Done:
		return nil, &LockError{"downgrade", key, ErrLost}
	}
	if cause := lock.hold(clock.LeaseEnd(d.Sent, ttl), d.Fence, arrival{kind: EventAttached, start: clock.Now()}); cause != nil {
		return nil, &LockError{"downgrade", key, cause}
	}
	done = true
	lock.events.tell(false)
	return lock, nil
}

// SharedState says who shares a lock.
type SharedState struct {
	Limit   int      // how many permits there are; 0: none, readers share the lock
	Permits int      // how many of them are in use; of readers, how many holders: several of one process may be one
	Holders []Sharer // in the order in which their leases end
}

// Sharer is one of those who share a lock.
type Sharer struct {
	Owner   string // what the holder says about itself, see WithOwner; "" when it says nothing
	Permits int    // that it has

	token *string // a pointer, because package fmt would show a string
	until clock.Instant
}

// Token returns the token of the holder, for ForceRelease.
func (s Sharer) Token() string {
	if s.token == nil {
		return ""
	}
	return *s.token
}

// Remaining returns what is left of the holder's lease by now: NoExpiry when it never expires.
func (s Sharer) Remaining() time.Duration { return max(s.until.Until(), 0) }

// inspectShared asks the server who shares a key.
func inspectShared(ctx context.Context, l *Locker, op, key string) (State, error) {
	found, err := l.remote.Shares().Inspect(ctx, key)
	if err != nil {
		return State{}, &LockError{op, key, err}
	}
	s := stateOf(found.Holder)
	if found.Phase == 0 {
		return s, nil
	}
	s.Shared = &SharedState{Limit: found.Limit}
	for i := range found.Sharers {
		h := &found.Sharers[i]
		s.Shared.Permits += h.Permits
		s.Shared.Holders = append(s.Shared.Holders, Sharer{remote.OwnerIn(h.Token), h.Permits, &h.Token, h.End})
	}
	return s, nil
}

// asOwner returns the token that the value of a key stands for. A shared key has no token. To a lock that
// is a share of it, asOwner returns the lock's own token as long as the phase in which the share was
// granted lasts. Whether the lock still has its share then, only the server knows.
func asOwner(l *Lock, value string) string {
	if phase, _, shared := remote.SharedValue(value); shared && l.claim.IsShare() && phase == l.fence {
		return l.lease.Token()
	}
	return value
}

// verifyShare is Verify for a share.
func verifyShare(ctx context.Context, l *Lock) (State, error) {
	l.mu.Lock()
	version, tokens := l.lease.Version(), l.lease.Tokens()
	l.mu.Unlock()
	h, err := l.locker.remote.Shares().HolderOf(ctx, &l.claim, tokens)
	if err != nil {
		return State{}, &LockError{"verify", l.claim.Key(), err}
	}
	s := stateOf(h)
	is, again := l.endIfLost(h.Token, version)
	switch {
	case again: // the lock has got another token meanwhile
		return l.Verify(ctx)
	case is:
		return s, &LockError{"verify", s.Key, l.cause()}
	}
	return s, nil
}
