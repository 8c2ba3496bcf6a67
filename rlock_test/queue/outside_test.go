package queue

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
	"github.com/stretchr/testify/require"
)

// Those whose tokens cannot stand in the queue of one key get their locks although it is never empty.
func TestNobodyStarvesOutsideTheQueue(t *testing.T) {
	t.Parallel()
	for name, acquire := range map[string]func(ctx context.Context, l *rlock.Locker) (*rlock.Lock, error){
		"a chosen token": func(ctx context.Context, l *rlock.Locker) (*rlock.Lock, error) {
			return l.Acquire(ctx, "k", rlock.WithToken("chosen"))
		},
		"a set": func(ctx context.Context, l *rlock.Locker) (*rlock.Lock, error) {
			return l.AcquireAll(ctx, []string{"j", "k"})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := env.Start(t)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			stop := make(chan struct{})
			var all sync.WaitGroup
			for range 3 {
				l := env.OpenOn(t, server)
				all.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						if lock, err := l.Acquire(ctx, "k"); err == nil {
							time.Sleep(time.Millisecond)
							_ = lock.Release(ctx)
						}
					}
				})
			}
			time.Sleep(200 * time.Millisecond)
			l := env.OpenOn(t, server)
			began := time.Now()
			lock, err := acquire(ctx, l)
			close(stop)
			require.NoError(t, err)
			t.Log(time.Since(began))
			require.NoError(t, lock.Release(t.Context()))
			all.Wait()
		})
	}
}
