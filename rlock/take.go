package rlock

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/internal/slot"
)

// taken is the server's answer to an attempt.
type taken struct {
	sent     clock.Instant // the command that was answered
	acquired bool
	fence    int64
	key      string        // first key that another token holds
	left     time.Duration // and its holder's remaining time; 0: not known
	at       clock.Instant // when that was learnt
	held     bool          // somebody stands in the way
}

// remains returns what should be left of the holder's time by now.
func (t *taken) remains() time.Duration {
	if t.left == NoExpiry {
		return NoExpiry
	}
	return max(t.left-time.Duration(clock.Now()-t.at), 0)
}

// attempt tries once to take all keys.
func (l *Lock) attempt(ctx context.Context, counters []string, c *collector) (taken, error) {
	l.identify()
	if l.groups() != nil {
		return l.takeGroups(ctx)
	}
	keys, collect := c.order(l)
	return l.take(ctx, keys, counters, collect)
}

// identify gives the lock a token, if it has none. One that is handed over needs none.
func (l *Lock) identify() {
	if l.lease.Token() == "" {
		l.lease.SetToken(l.mintToken())
	}
}

// take takes keys of one slot. A lost reply is asked for again, which is safe
// because the script knows the token.
func (l *Lock) take(ctx context.Context, keys, counters []string, collect bool) (taken, error) {
	var (
		t       taken
		failure error
	)
	clientClosed := &l.locker.clientClosed
	_ = remote.RetryTimes(ctx, remote.Attempts, func(ctx context.Context) (err error) {
		sent := clock.Now()
		l.locker.counters.attempts.Add(1)
		if len(l.keys()) == 1 {
			t, err = l.takeOne(ctx, counters)
		} else {
			t, err = l.takeAll(ctx, keys, counters, collect)
		}
		failure = remote.Redact(err, l.lease.Token())
		t.sent = sent
		if remote.OutcomeOf(failure) == remote.Indeterminate {
			l.late++
		}
		if clientClosed.Load() {
			if errors.Is(failure, rueidis.ErrClosing) {
				return nil // those who found the client closed have asked often enough for all
			}
			clientClosed.Store(false)
		}
		return failure
	})
	return t, failure
}

func (l *Lock) takeOne(ctx context.Context, counters []string) (taken, error) {
	r, err := l.locker.scripts.Acquire(ctx, l.locker.client, l.acquireParams(counters))
	return l.takenOne(r), err
}

func (l *Lock) acquireParams(counters []string) gen.AcquireParams {
	return gen.AcquireParams{Lock: l.key[0], Counter: counters, Token: l.lease.Token(), TTL: ttlParam(l.lease.TTL())}
}

func (l *Lock) takenOne(r gen.AcquireResult) taken {
	return taken{acquired: r.Acquired, fence: r.Fence, key: l.key[0], left: remaining(r.Remaining), held: !r.Acquired}
}

func (l *Lock) takeAll(ctx context.Context, keys, counters []string, collect bool) (taken, error) {
	r, err := l.locker.scripts.AcquireAll(ctx, l.locker.client, gen.AcquireAllParams{
		Keys: slices.Concat(keys, counters), Token: l.lease.Token(), TTL: ttlParam(l.lease.TTL()), Locks: int64(len(keys)), Partial: collect,
	})
	t := taken{acquired: r.Acquired, fence: r.Fence, key: keys[0], left: remaining(r.Remaining), held: !r.Acquired}
	if r.Held != 0 {
		t.key = slot.KeyAt(keys, r.Held)
	}
	return t, err
}

// remaining reads what PTTL answers: -1 stands for a key that never expires.
func remaining(left time.Duration) time.Duration {
	if left == -time.Millisecond {
		return NoExpiry
	}
	return max(left, 0)
}
