package interop

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
)

func goRedis(tb testing.TB, address string) *redis.Client {
	client := redis.NewClient(&redis.Options{Addr: address})
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

type bsm struct{ client *redislock.Client }

func openBsm(tb testing.TB, address string) locker {
	return bsm{redislock.New(goRedis(tb, address))}
}

func (b bsm) try(ctx context.Context, name string, ttl time.Duration) (holding, error) {
	lock, err := b.client.Obtain(ctx, name, ttl, &redislock.Options{Metadata: "of a test"})
	if errors.Is(err, redislock.ErrNotObtained) {
		return nil, nil
	}
	return bsmLock{lock}, err
}

type bsmLock struct{ lock *redislock.Lock }

func (l bsmLock) release(ctx context.Context) (bool, error) {
	err := l.lock.Release(ctx)
	if errors.Is(err, redislock.ErrLockNotHeld) {
		return false, nil
	}
	return err == nil, err
}

func (l bsmLock) extend(ctx context.Context, ttl time.Duration) (bool, error) {
	err := l.lock.Refresh(ctx, ttl, nil)
	if errors.Is(err, redislock.ErrNotObtained) {
		return false, nil
	}
	return err == nil, err
}

type redsyncLocker struct{ sync *redsync.Redsync }

func openRedsync(tb testing.TB, address string) locker {
	return redsyncLocker{redsync.New(goredis.NewPool(goRedis(tb, address)))}
}

func (r redsyncLocker) try(ctx context.Context, name string, ttl time.Duration) (holding, error) {
	mutex := r.sync.NewMutex(name, redsync.WithExpiry(ttl))
	err := mutex.TryLockContext(ctx)
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) {
		return nil, nil
	}
	return redsyncLock{mutex}, err
}

type redsyncLock struct{ mutex *redsync.Mutex }

func (l redsyncLock) release(ctx context.Context) (bool, error) {
	return redsyncSays(l.mutex.UnlockContext(ctx))
}

func (l redsyncLock) extend(ctx context.Context, _ time.Duration) (bool, error) {
	return redsyncSays(l.mutex.ExtendContext(ctx))
}

func redsyncSays(own bool, err error) (bool, error) {
	var taken *redsync.ErrTaken
	if errors.As(err, &taken) || errors.Is(err, redsync.ErrLockAlreadyExpired) ||
		errors.Is(err, redsync.ErrExtendFailed) {
		return false, nil
	}
	return own, err
}

// rueidisLocker opens a locker for each lock, so that one can die alone. Its client dials
// nothing any more once it is dead.
type rueidisLocker struct {
	tb       testing.TB
	address  string
	majority int32
	setpx    bool
}

func openRueidislock(majority int32, setpx bool) func(testing.TB, string) locker {
	return func(tb testing.TB, address string) locker { return rueidisLocker{tb, address, majority, setpx} }
}

func (r rueidisLocker) try(ctx context.Context, name string, ttl time.Duration) (holding, error) {
	lifeline := &lifeline{}
	l, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{
			InitAddress: []string{r.address}, ForceSingleClient: true, DialCtxFn: lifeline.dial,
		},
		KeyMajority: r.majority, KeyValidity: ttl, FallbackSETPX: r.setpx,
		TryNextAfter: 5 * time.Second, // a busy machine may take longer than the 20 ms of the default
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel, err := l.TryWithContext(ctx, name)
	if err != nil {
		l.Close()
		if errors.Is(err, rueidislock.ErrNotLocked) {
			err = nil
		}
		return nil, err
	}
	r.tb.Cleanup(func() {
		lifeline.cut()
		l.Close()
	})
	return rueidisHolding{ctx, cancel, lifeline}, nil
}

type rueidisHolding struct {
	ctx    context.Context
	cancel context.CancelFunc
	life   *lifeline
}

func (h rueidisHolding) release(context.Context) (bool, error) {
	own := h.ctx.Err() == nil
	h.cancel()
	return own, nil
}

func (h rueidisHolding) lost() <-chan struct{} { return h.ctx.Done() }

func (h rueidisHolding) die() { h.life.cut() }

// lifeline is what connects a client, until it is cut.
type lifeline struct {
	mu    sync.Mutex
	dead  bool
	conns []net.Conn
}

func (l *lifeline) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead = true
	for _, conn := range l.conns {
		_ = conn.Close()
	}
}

func (l *lifeline) dial(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn,
	error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dead {
		return nil, net.ErrClosed
	}
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err == nil {
		l.conns = append(l.conns, conn)
	}
	return conn, err
}
