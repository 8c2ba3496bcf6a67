package observe

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// An observer that is told of any event may use every lock that is held, and the Locker,
// down to closing it: no call waits for itself.
func TestObserverMayCallTheLocker(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		kind  rlock.EventKind
		cause func(t *testing.T, s *reentry)
	}{
		{rlock.EventContended, func(t *testing.T, s *reentry) {
			_, _ = s.locker.Acquire(s.ctx, "foreign", rlock.WithRetry(rlock.Fixed(5*time.Millisecond).MaxAttempts(3)))
		}},
		{rlock.EventContended, func(t *testing.T, s *reentry) { // by another of the same Locker
			_, _ = s.locker.Acquire(s.ctx, "a", rlock.WithRetry(rlock.Fixed(5*time.Millisecond).MaxAttempts(3)))
		}},
		{rlock.EventAcquired, func(t *testing.T, s *reentry) { _, _ = s.locker.Acquire(s.ctx, "new") }},
		{rlock.EventAcquired, func(t *testing.T, s *reentry) {
			_, _ = s.locker.TryAcquireEach(s.ctx, []string{"foreign", "new", "newer"})
		}},
		{rlock.EventAcquired, func(t *testing.T, s *reentry) { // handed over
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _ = s.locker.Acquire(s.ctx, "a")
			}()
			env.AwaitWaiting(t, s.locker, 1)
			_ = s.lock.Release(s.ctx)
			env.Receive(t, done)
		}},
		{rlock.EventAcquireFailed, func(t *testing.T, s *reentry) { _, _ = s.locker.TryAcquire(s.ctx, "foreign") }},
		{rlock.EventAttached, func(t *testing.T, s *reentry) {
			handoff, err := s.lock.Detach()
			require.NoError(t, err)
			_, _ = s.locker.Attach(s.ctx, handoff)
		}},
		{rlock.EventExtended, func(t *testing.T, s *reentry) { _ = s.lock.Extend(s.ctx, time.Second) }},
		{rlock.EventExtended, func(t *testing.T, s *reentry) {
			s.locker.ExtendEach(s.ctx, s.locker.Locks(), time.Second)
		}},
		{rlock.EventExtendFailed, func(t *testing.T, s *reentry) {
			s.f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if env.IsExtend(words) {
					return s.f.Refuse("LOADING")
				}
				return run()
			})
			_ = s.lock.Extend(s.ctx, time.Second)
		}},
		{rlock.EventReleased, func(t *testing.T, s *reentry) { s.locker.ReleaseEach(s.ctx, s.locker.Locks()) }},
		{rlock.EventReleaseFailed, func(t *testing.T, s *reentry) {
			s.f.When(func([]string, func() rueidis.RedisResult) rueidis.RedisResult { return s.f.Refuse("LOADING") })
			_ = s.lock.Release(s.ctx)
		}},
		{rlock.EventDetached, func(t *testing.T, s *reentry) { _, _ = s.lock.Detach() }},
		{rlock.EventClosed, func(t *testing.T, s *reentry) { s.locker.Close() }},
		{rlock.EventLost, func(t *testing.T, s *reentry) { // of a lock that another call finds out about
			require.NoError(t, env.Do(t, s.direct, "DEL", "a").Error())
			_, _ = s.locker.TryAcquire(s.ctx, "a")
		}},
		{rlock.EventExpired, func(t *testing.T, s *reentry) {
			_, _ = s.locker.Acquire(s.ctx, "short", rlock.WithTTL(3*time.Second))
			env.Receive(t, s.called)
		}},
	} {
		t.Run(test.kind.String(), func(t *testing.T) {
			t.Parallel()
			s := &reentry{called: make(chan struct{})}
			var cancel context.CancelFunc
			s.ctx, cancel = context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			var armed atomic.Bool
			observer := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
				if e.Kind != test.kind || !armed.CompareAndSwap(true, false) {
					return
				}
				defer close(s.called)
				s.f.When(nil)
				held := s.locker.Locks()
				for _, lock := range append(held, s.lock) {
					_, _, _ = lock.Token(), lock.Deadline(), lock.Context()
					_ = lock.Verify(s.ctx)
					_ = lock.Extend(s.ctx, time.Second)
				}
				s.locker.ExtendEach(s.ctx, held, 500*time.Millisecond)
				s.locker.ReleaseEach(s.ctx, held)
				_, _ = s.lock.Detach()
				_ = s.lock.Release(s.ctx)
				if lock, err := s.locker.Acquire(s.ctx, "another"); err == nil {
					_ = lock.Release(s.ctx)
				}
				s.locker.Close()
			})
			s.f, s.locker, s.direct = env.NewFaulty(t, env.Engines(t)[0], rlock.WithObserver(observer),
				rlock.WithTTL(5*time.Second))
			require.NoError(t, env.Do(t, s.direct, "SET", "foreign", "foreign").Error())
			var err error
			s.lock, err = s.locker.Acquire(s.ctx, "a")
			require.NoError(t, err)
			_ = s.lock.Context() // it is looked after, so Close ends it
			armed.Store(true)
			done := make(chan struct{})
			go func() {
				defer close(done)
				test.cause(t, s)
			}()
			env.ReceiveWithin(t, 15*time.Second, s.called)
			env.ReceiveWithin(t, 15*time.Second, done)
			require.NoError(t, s.ctx.Err())
			require.Empty(t, s.locker.Locks())
			require.Zero(t, s.locker.Stats().Waiting)
			for _, key := range []string{"a", "new", "newer", "another", "short"} {
				env.Soon(t, func() bool { return env.Get(t, s.direct, key) == "" }, key)
			}
		})
	}
}

// reentry is what an observer calls that is called in the midst of a call.
type reentry struct {
	ctx    context.Context
	f      *env.Faulty
	locker *rlock.Locker
	direct rueidis.Client
	lock   *rlock.Lock // of "a"
	called chan struct{}
}
