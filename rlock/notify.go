package rlock

import (
	"context"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/events"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/internal/terms"
	"github.com/rlock-go/toolkit/rlock/internal/wire"
)

// Version returns the version of the lock's lease, or false after the end of the lock.
func (l *monitored) Version() (terms.Version, bool) {
	l.mu.Lock()
	defer (*lease)(l).unlock()
	return l.terms.Version(), l.state <= leaseLive
}

// Owners ends the lock if one of its keys has an owner that is not its token.
func (l *monitored) Owners(owners []string, v terms.Version) (held, again bool) {
	l.mu.Lock()
	defer (*lease)(l).unlock()
	for _, owner := range owners {
		switch is, again := l.terms.Lost(asOwner((*lease)(l), owner), v); {
		case is:
			(*lease)(l).lose()
			return false, false
		case again:
			return true, true
		}
	}
	return true, false
}

// Left takes the server's answer about a lease that another program may have shortened. If the lease is
// shorter, the deadline comes nearer. A lock with automatic extension is then extended at once.
func (l *monitored) Left(left time.Duration, v terms.Version, sent, received clock.Instant) terms.Verdict {
	l.mu.Lock()
	defer (*lease)(l).unlock()
	if !(*lease)(l).used() {
		return terms.Settled
	}
	before := l.terms.Deadline()
	verdict := l.terms.Shortened(v, left, sent, received)
	if l.terms.Deadline() < before {
		at := clock.Never
		if verdict == terms.Settled {
			at = clock.Now()
		}
		(*lease)(l).advance(at)
	}
	return verdict
}

// deliverRead tells the observers of locks that the monitor has read.
func deliverRead(read []notify.Held) {
	events.Each(read, func(h notify.Held) { (*lease)(h.(*monitored)).deliver() })
}

// newWait returns a Wait for keys of the Locker.
func (l *Locker) newWait() *notify.Wait {
	return &notify.Wait{Listener: l.listener, Look: l.look, Stop: l.underway.Stopped()}
}

// lookTimeout is how long a call waits for an answer about a key before it goes on without.
const lookTimeout = 2 * time.Second

// peek reads a key through the cache. It has a time limit, because rueidis repeats a cached read until its
// context ends if the server is gone.
func (l *Locker) peek(ctx context.Context, key string) (notify.Seen, error) {
	ctx, end := clock.EndsWith(ctx, l.background)
	defer end()
	ctx, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	peeked, err := l.wire.Peek(ctx, key, l.defaults.cacheTTL)
	return notify.Seen{Held: peeked.Held, Token: peeked.Token, Left: time.Until(peeked.Until),
		Cached: peeked.Cached}, err
}

// holder returns the lease by which this Locker holds the whole lock of a key, as far as this process knows.
func (l *Locker) holder(key string) *lease { return leaseOf(l.lines.Holder(key)) }

// holds reports whether a lock of this Locker seems to hold the whole lock of a key.
func (l *Locker) holds(key string) bool {
	h := l.holder(key)
	return h != nil && h.valid()
}

// lookFor asks the server who has the key of a claim. holder is the lease by which this Locker seems to hold
// the key, or nil. If the lease has lost the key, the lease ends, and lookFor reports that.
func (l *Locker) lookFor(
	ctx context.Context, claim *wire.Claim, holder *lease,
) (seen wire.Holder, lost bool, err error) {
	var version terms.Version
	if holder != nil {
		version = holder.version()
	}
	holders, err := l.wire.Inspect(ctx, claim)
	if err != nil {
		return seen, false, err
	}
	if holder != nil {
		lost, _ = holder.endIfLost(holders[0].Token, version)
	}
	return holders[0], lost, nil
}

// asOwner returns the token that the value of a key stands for. A shared key has no token. For a lock with a
// share of it, asOwner returns the lock's own token while the phase of that share lasts. Only the server
// knows whether the lock still has its share.
func asOwner(t *lease, value string) string {
	if phase, _, shared := wire.SharedValue(value); shared && t.claim.IsShare() && phase == t.fence {
		return t.terms.Token()
	}
	return value
}
