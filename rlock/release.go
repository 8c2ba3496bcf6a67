package rlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/reaper"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// Release gives the lock up. The Context ends before the keys are freed. If ctx has ended,
// Release still does its work, within 2 seconds, so that a deferred Release of a cancelled
// caller leaves nothing behind. If the network has gone silent and ctx has no end, Release
// waits for the client's own time-outs first.
//
// It returns nil if it has freed the keys, or handed the lock over. ErrReleased means that the
// lock was released before, and ErrDetached that it was detached. ErrLost and ErrExpired mean
// that keys were no longer this lock's: Release leaves those as they are. With any other
// error, too, the caller has given the lock up. The Locker then frees the keys in the
// background, if the server allows that within half a minute. If it does not, or if the caller
// chose the token (see WithToken), the keys stay until their lease ends. Release may be called
// again. If another Release of the lock has no answer yet, it waits for that one until ctx
// ends.
//
// If others of this process wait for the key, Release hands the lock over to the next of them:
// see WithTurn. It may do so without asking the server, if the server confirmed the lease at
// most 100 ms ago, or at most half a lease ago if the next holder extends it automatically. If
// the lock was lost in that time, the next holder has to notice.
func (l *Lock) Release(ctx context.Context) error {
	if err := l.usable(); err != nil {
		return err
	}
	if err := checkContext(ctx); err != nil {
		return err
	}
	defer l.deliver()
	if err := l.startFreeing(ctx); err != nil {
		return &LockError{"release", l.key[0], err}
	}
	defer l.endFreeing()
	r, err := l.startRelease()
	if err != nil {
		return err
	}
	settled := false
	defer func() {
		if !settled { // user code has panicked
			_ = l.settleRelease(r, 0, errInterrupted)
		}
	}()
	token, passed := l.lease.Token(), false
	if r.cause == released {
		token, passed = l.handOver(ctx)
	}
	if !passed && token == l.lease.Token() {
		freed, failure := l.free(ctx)
		err = l.settleRelease(r, freed, failure)
	} else {
		l.freed = true
		l.clean()
		if !passed {
			err = l.freeUnwanted(ctx, token)
		}
		l.emitRelease(err)
	}
	settled = true
	return err
}

// startFreeing waits until no other Release of the lock has calls to make.
func (l *Lock) startFreeing(ctx context.Context) error {
	for !l.tryFreeing() {
		l.mu.Lock()
		if l.freeable == nil {
			l.freeable = make(chan struct{})
		}
		freeable, freeing := l.freeable, l.freeing
		l.mu.Unlock()
		if !freeing {
			continue
		}
		select {
		case <-freeable:
		case <-ctx.Done():
			return fmt.Errorf("another Release of it has no answer yet: %w", clock.ContextError(ctx, nil))
		}
	}
	return nil
}

// tryFreeing reports whether the caller may release the lock now. If so, the caller must call
// endFreeing.
func (l *Lock) tryFreeing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.freeing {
		return false
	}
	l.freeing = true
	return true
}

func (l *Lock) endFreeing() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.freeing = false
	if l.freeable != nil {
		close(l.freeable)
		l.freeable = nil
	}
}

// ending is the end of the lock as a Release finds it.
type ending struct {
	cause *reason // why the lock ended
	held  bool    // this Release ends it
}

// startRelease ends the lock. If there are no keys to free, it returns an error that says why.
// The caller holds freeing.
func (l *Lock) startRelease() (ending, error) {
	if l.freed {
		return ending{}, &LockError{"release", l.key[0], ErrReleased}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.expire()
	held := l.cause() == nil
	cause := l.finish(stateReleased)
	if cause == detached { // the keys are another handle's now
		return ending{}, &LockError{"release", l.key[0], cause}
	}
	return ending{cause, held}, nil
}

// settleRelease takes the answer of the release script, which is how many keys it freed, and
// returns the error of Release. The caller holds freeing.
func (l *Lock) settleRelease(e ending, freed int64, err error) error {
	err = l.freedBy(e.cause, freed, err)
	if e.held {
		l.emitRelease(err)
	}
	return err
}

// freedBy returns the error of Release, and lets the next in the queue try.
func (l *Lock) freedBy(cause *reason, freed int64, err error) error {
	l.ticket.Leave()
	if n := int64(len(l.keys())); err == nil && freed > n {
		err = fmt.Errorf("the server answers that it freed %d keys, where %d were asked for: something between them changes answers", freed, n)
	}
	err = remote.Redact(remote.Redact(err, l.lease.Token()), l.lease.Former()...)
	if errors.Is(err, rueidis.ErrClosing) {
		err = fmt.Errorf("%w: %w", ErrClosed, err)
	}
	if err != nil {
		if !isHopeless(err) {
			l.leaveRelease()
		}
		return &LockError{"release", l.key[0], err}
	}
	l.freed = true
	l.clean()
	switch {
	case freed == int64(len(l.keys())):
		return nil
	case freed == 0 && l.unsure && (cause == released || cause == closed):
		return nil // an earlier try that got no answer did it
	case cause == released || cause == closed:
		cause = lost
	}
	return &LockError{"release", l.key[0], cause}
}

// free runs the release script until its outcome is known. The caller holds
// freeing.
func (l *Lock) free(ctx context.Context) (freed int64, err error) {
	if l.groups() != nil {
		return l.freeGroups(ctx)
	}
	err = remote.RetryDetached(ctx, remote.Patience, func(ctx context.Context) error {
		early, err := l.freeFormer(ctx)
		if err != nil {
			return err
		}
		freed, err = l.locker.scripts.Release(ctx, l.locker.client, l.releaseParams())
		freed += early
		if remote.OutcomeOf(err) == remote.Indeterminate {
			l.unsure = true // this try may do the work, and the next one find nothing
		}
		return err
	})
	return freed, remote.Redact(remote.Redact(err, l.lease.Token()), l.lease.Former()...)
}

// freeFormer frees the keys where they still have a former token. The caller holds freeing,
// and the lock has ended.
func (l *Lock) freeFormer(ctx context.Context) (freed int64, err error) {
	for _, token := range l.lease.Former() {
		for _, keys := range l.parts() {
			n, err := l.locker.scripts.Release(ctx, l.locker.client, gen.ReleaseParams{Locks: keys, Token: token})
			if err != nil {
				l.unsure = l.unsure || remote.OutcomeOf(err) == remote.Indeterminate
				return freed, err
			}
			freed += n
		}
	}
	return freed, nil
}

// isHopeless reports whether every further try of a release would fail with the same error:
// the client is closed, or a key now has another type than a lock has.
func isHopeless(err error) bool {
	var server *rueidis.RedisError
	return errors.Is(err, rueidis.ErrClosing) || errors.As(err, &server) && strings.HasPrefix(server.Error(), "WRONGTYPE")
}

// leaveRelease has the reaper free what Release could not free. The caller holds freeing.
func (l *Lock) leaveRelease() {
	if l.ownToken {
		return // as abandon does
	}
	l.unsure = true
	for i := range l.groups() {
		l.groups()[i].unsure = true
	}
	l.abandon(NoExpiry, int(l.late)+1) // a lost extension may have made the lease longer
}

func (l *Lock) releaseParams() gen.ReleaseParams {
	return gen.ReleaseParams{Locks: l.keys(), Token: l.lease.Token()}
}

// clean has the reaper free the keys once more after the end of a lock, if attempts of its
// acquisition got no answer: they may still arrive, find the keys free, and take them.
func (l *Lock) clean() {
	if l.late > 0 {
		l.abandon(NoExpiry, int(l.late)+1)
	}
}

// abandon has the reaper free the keys, because commands of this lock without an answer may
// have taken them or may still do so. If the caller chose the token, abandon does nothing:
// another acquisition with that token may rightfully hold the keys.
func (l *Lock) abandon(ttl time.Duration, lost int) {
	if l.ownToken {
		return
	}
	tokens := l.lease.Tokens()
	if first := l.lease.First(); l.late > 0 && first != "" {
		tokens = append(tokens, first) // late commands of the acquisition have it
	}
	for _, keys := range l.parts() {
		for _, token := range tokens {
			l.locker.reaper.Add(reaper.Item{Keys: keys, Token: token, Unanswered: lost}, ttl)
		}
	}
}

// releaseItems is how the reaper frees what it has been given.
func (l *Locker) releaseItems(ctx context.Context, items []reaper.Item) (freed []bool) {
	params := make([]gen.ReleaseParams, len(items))
	for i, item := range items {
		params[i] = gen.ReleaseParams{Locks: item.Keys, Token: item.Token}
	}
	freed = make([]bool, len(items))
	for i, reply := range l.scripts.ReleaseBatch(ctx, l.client, params) {
		freed[i] = reply.Err == nil && reply.Value > 0
	}
	return freed
}
