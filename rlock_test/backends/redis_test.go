package backends

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/backendtest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// scripted is a backend of nothing but scripts: what is asked of a backend is what they do.
type scripted struct {
	client  rueidis.Client
	scripts *gen.Scripts
}

// ttlOf is a lease as scripts have it.
func ttlOf(ttl time.Duration) time.Duration {
	if ttl == rlock.NoExpiry {
		return 0
	}
	return ttl
}

// leftOf is what is left of a lease of which PTTL says that.
func leftOf(pttl time.Duration) time.Duration {
	if pttl == -time.Millisecond {
		return rlock.NoExpiry
	}
	return max(pttl, 0)
}

func (s scripted) Acquire(
	ctx context.Context, key, token string, ttl time.Duration,
) (acquired bool, left time.Duration, err error) {
	r, err := s.scripts.Acquire(ctx, s.client, gen.AcquireParams{
		Lock: key, Queue: key, Token: token, TTL: ttlOf(ttl),
	})
	return r.Outcome == 1, leftOf(time.Duration(r.Value) * time.Millisecond), err
}

func (s scripted) Extend(ctx context.Context, key, token string, ttl time.Duration) (bool, error) {
	lost, err := s.scripts.Extend(ctx, s.client, gen.ExtendParams{
		Keys: []string{key}, Tokens: []string{token}, TTL: ttlOf(ttl),
	})
	return err == nil && len(lost) == 0, err
}

func (s scripted) Release(ctx context.Context, key, token string) (bool, error) {
	freed, err := s.scripts.ReleaseMany(ctx, s.client, gen.ReleaseManyParams{
		Keys: []string{key}, Locks: 1, Tokens: []string{token},
	})
	return err == nil && freed[0] == 1, err
}

func (s scripted) Holder(ctx context.Context, key string) (token string, left time.Duration, err error) {
	r, err := s.scripts.Inspect(ctx, s.client, gen.InspectParams{Keys: []string{key}, Waiters: -1})
	if err != nil || !r.Values[0].Valid {
		return "", 0, err
	}
	return r.Values[0].V, leftOf(r.Remaining[0]), nil
}

func TestBackendOfScripts(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.Start(t).Client(t)
		backendtest.Run(t, func(*testing.T) rlock.Backend {
			return scripted{client, gen.New(redislua.WithoutRetry())}
		})
	})
}
