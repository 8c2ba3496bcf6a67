package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// No call notices that its script is forgotten just then, wherever that happens.
func TestScriptFlushAtAnyMoment(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		server := e.Start(t)
		locker, client := opened(t, server), server.Client(t)
		ctx, stop := context.WithCancel(t.Context())
		var flushing sync.WaitGroup
		flushing.Go(func() {
			for ctx.Err() == nil {
				client.Do(ctx, client.B().ScriptFlush().Build())
			}
		})
		require.NoError(t, together(4, func(i int) error {
			for range 50 {
				err := locker.Do(t.Context(), "job", func(ctx context.Context, lock *rlock.Lock) error {
					if err := lock.Extend(ctx, time.Minute); err != nil {
						return err
					}
					return locker.DoAll(ctx, []string{fmt.Sprint(i), "other"}, func(ctx context.Context, lock *rlock.Lock) error {
						_, err := lock.Check(ctx)
						return errors.Join(err, errors.Join(locker.ExtendEach(ctx, []*rlock.Lock{lock}, time.Minute)...))
					})
				})
				if err != nil {
					return err
				}
			}
			return nil
		}))
		stop()
		flushing.Wait()
		require.Greater(t, errorsOf(t, server, "NOSCRIPT"), 50)
		require.Empty(t, get(t, client, "job"))
		require.Empty(t, get(t, client, "other"))
	})
}
