package rlock

import (
	"context"
	"slices"
	"time"

	"github.com/rlock-go/toolkit/gen"
)

// taken is the server's answer to an attempt.
type taken struct {
	sent     instant
	acquired bool
	fence    int64
	key      string        // first key that another token holds
	left     time.Duration // and its holder's remaining time
}

// take makes one attempt. A lost reply is asked for again, which is safe because
// the script knows the token.
func (l *Lock) take(ctx context.Context, counters []string, c *collector) (taken, error) {
	if l.token == "" {
		l.token = newToken()
	}
	var t taken
	err := repeat(ctx, tries, func(ctx context.Context) (err error) {
		sent := now()
		l.locker.counters.attempts.Add(1)
		if len(l.keys) == 1 {
			t, err = l.takeOne(ctx, counters)
		} else {
			t, err = l.takeAll(ctx, counters, c)
		}
		t.sent = sent
		if answerOf(err) == unknown {
			l.late++
		}
		return err
	})
	return t, err
}

func (l *Lock) takeOne(ctx context.Context, counters []string) (taken, error) {
	r, err := l.locker.scripts.Acquire(ctx, l.locker.client, gen.AcquireParams{
		Lock: l.keys[0], Counter: counters, Token: l.token, TTL: lease(l.ttl),
	})
	return taken{acquired: r.Acquired, fence: r.Fence, key: l.keys[0], left: remaining(r.Left)}, err
}

func (l *Lock) takeAll(ctx context.Context, counters []string, c *collector) (taken, error) {
	keys, collect := c.order(l)
	r, err := l.locker.scripts.AcquireAll(ctx, l.locker.client, gen.AcquireAllParams{
		Keys: slices.Concat(keys, counters), Token: l.token, TTL: lease(l.ttl), Locks: int64(len(keys)), Collect: collect,
	})
	t := taken{acquired: r.Acquired, fence: r.Fence, key: keys[0], left: remaining(r.Left)}
	if held := r.Held; held > 0 && held <= int64(len(keys)) {
		t.key = keys[held-1]
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
