package failure

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A lease ends a little earlier here than at the server. Who tries right after that, in the same process, has
// the key although the server has not noticed the end yet: nobody holds it.
func TestTryRightAfterTheEnd(t *testing.T) {
	t.Parallel()
	const lease = 300 * time.Millisecond
	try := func(t *testing.T, l *rlock.Locker) error {
		lock, err := l.TryAcquire(t.Context(), "k")
		if err != nil {
			return err
		}
		return lock.Release(t.Context())
	}
	whole := func(t *testing.T, l *rlock.Locker) (*rlock.Lock, error) {
		return l.Acquire(t.Context(), "k", rlock.WithTTL(lease))
	}
	for name, test := range map[string]struct {
		acquire func(t *testing.T, l *rlock.Locker) (*rlock.Lock, error)
		try     func(t *testing.T, l *rlock.Locker) error
	}{
		"one key": {whole, try},
		"a batch": {whole, func(t *testing.T, l *rlock.Locker) error {
			results, err := l.TryAcquireEach(t.Context(), []string{"k"})
			require.NoError(t, err)
			if results[0].Err != nil {
				return results[0].Err
			}
			return results[0].Lock.Release(t.Context())
		}},
		"a set": {
			func(t *testing.T, l *rlock.Locker) (*rlock.Lock, error) {
				return l.AcquireAll(t.Context(), []string{"k", "l"}, rlock.WithTTL(lease))
			},
			func(t *testing.T, l *rlock.Locker) error {
				lock, err := l.TryAcquireAll(t.Context(), []string{"l", "k"})
				if err != nil {
					return err
				}
				return lock.Release(t.Context())
			},
		},
		"after a reader": {func(t *testing.T, l *rlock.Locker) (*rlock.Lock, error) {
			return l.AcquireShared(t.Context(), "k", rlock.WithTTL(lease))
		}, try},
		"after a permit": {func(t *testing.T, l *rlock.Locker) (*rlock.Lock, error) {
			return l.AcquirePermits(t.Context(), "k", 1, 3, rlock.WithTTL(lease))
		}, try},
		"after a token of a shorter lease": {func(t *testing.T, l *rlock.Locker) (*rlock.Lock, error) {
			lock, err := l.Acquire(t.Context(), "k", rlock.WithTTL(time.Minute))
			if err == nil {
				err = lock.Extend(t.Context(), lease)
			}
			return lock, err
		}, try},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := env.OpenLocker(t, rlocktest.StartInMemory(t).Option())
				for range 10 {
					lock := env.MustLock(t)(test.acquire(t, l))
					<-lock.Context().Done()
					require.ErrorIs(t, lock.Err(), rlock.ErrExpired)
					require.NoError(t, test.try(t, l))
				}
			})
		})
	}
}

// It frees nothing that somebody else may have by the same token, or that is to keep others out.
func TestTryFreesNothingOfOthers(t *testing.T) {
	t.Parallel()
	const lease = time.Second
	for name, acquire := range map[string]func(t *testing.T, l *rlock.Locker) (ends *rlock.Lock){
		"a chosen token": func(t *testing.T, l *rlock.Locker) *rlock.Lock {
			ends := env.MustLock(t)(l.Acquire(t.Context(), "k", rlock.WithToken("chosen"), rlock.WithTTL(lease)))
			env.MustLock(t)(l.Acquire(t.Context(), "k", rlock.WithToken("chosen"), rlock.WithTTL(time.Minute)))
			return ends
		},
		"a token that was shown": func(t *testing.T, l *rlock.Locker) *rlock.Lock {
			ends := env.MustLock(t)(l.Acquire(t.Context(), "k", rlock.WithTTL(lease)))
			other, err := rlock.New(l.Client())
			require.NoError(t, err)
			t.Cleanup(other.Close)
			env.MustLock(t)(other.Acquire(t.Context(), "k", rlock.WithToken(ends.Token()), rlock.WithTTL(time.Minute)))
			return ends
		},
		"readers who share": func(t *testing.T, l *rlock.Locker) *rlock.Lock {
			ends := env.MustLock(t)(l.AcquireShared(t.Context(), "k", rlock.WithTTL(lease)))
			env.MustLock(t)(l.AcquireShared(t.Context(), "k", rlock.WithTTL(lease), rlock.WithAutoExtend(true)))
			return ends
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := env.OpenLocker(t, rlocktest.StartInMemory(t).Option())
				ends := acquire(t, l)
				<-ends.Context().Done()
				lock, err := l.TryAcquire(t.Context(), "k")
				if errors.Is(err, rlock.ErrHeld) {
					return
				}
				require.NoError(t, err)
				require.Fail(t, "it has freed what others hold", "%v", lock)
			})
		})
	}
}
