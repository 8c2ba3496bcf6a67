package rlock

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
)

// answerOf tells what an error of a call says about the server.
func answerOf(err error) answer {
	if err == nil {
		return confirmed
	}
	var (
		server *rueidis.RedisError
		param  *gen.ParamError
		slots  *gen.CrossSlotError
		local  *LockError
	)
	if errors.As(err, &server) || errors.As(err, &param) || errors.As(err, &slots) || errors.As(err, &local) {
		return refused
	}
	return unknown
}

// tries is how often a call is sent when replies are lost. Every script is safe
// to repeat with the same token.
const tries = 3

// repeat calls f until its outcome is known, ctx ends, or it was tried enough.
func repeat(ctx context.Context, most int, f func(ctx context.Context) error) error {
	for try := 1; ; try++ {
		err := f(ctx)
		if answerOf(err) != unknown || try == most || ctx.Err() != nil {
			return err
		}
		pause := min(10*time.Millisecond<<try, 500*time.Millisecond)
		if sleep(ctx, pause/2+rand.N(pause), nil) != nil {
			return err
		}
	}
}

// sleep waits for d. It returns ctx's error if that ends first, and ErrClosed if
// closed does.
func sleep(ctx context.Context, d time.Duration, closed <-chan struct{}) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-closed:
		return ErrClosed
	}
}

// abandon frees keys that an acquisition with a lost reply may have taken. The
// lost command may still be on its way and arrive behind the release, so one that
// found nothing is repeated, until the lease that the command could have started
// must be over.
func (l *Locker) abandon(keys []string, token string, ttl time.Duration) {
	const longest = 30 * time.Second
	l.detach(min(ttl, longest)+time.Second, func(ctx context.Context) {
		for pause := 25 * time.Millisecond; ; pause *= 4 {
			freed, err := l.scripts.Release(ctx, l.client, gen.ReleaseParams{Locks: keys, Token: token})
			if answerOf(err) == refused || err == nil && (freed > 0 || pause > time.Second) {
				return
			}
			if sleep(ctx, min(pause, time.Second), l.closed) != nil {
				return
			}
		}
	})
}
