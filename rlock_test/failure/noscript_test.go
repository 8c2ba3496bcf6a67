package failure

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// No call notices that its script is forgotten just then, wherever that happens.
func TestScriptFlushAtAnyMoment(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker, client := env.OpenOn(t, server), server.Client(t)
		ctx, stop := context.WithCancel(t.Context())
		var flushing sync.WaitGroup
		flushing.Go(func() {
			for ctx.Err() == nil {
				client.Do(ctx, client.B().ScriptFlush().Build())
			}
		})
		require.NoError(t, env.Together(4, func(i int) error {
			for range 50 {
				err := locker.Do(t.Context(), "job", func(ctx context.Context, lock *rlock.Lock) error {
					if err := lock.Extend(ctx, time.Minute); err != nil {
						return err
					}
					return locker.DoAll(ctx, []string{fmt.Sprint(i), "other"},
						func(ctx context.Context, lock *rlock.Lock) error {
							err := lock.Verify(ctx)
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
		require.Greater(t, server.ErrorCount(t, "NOSCRIPT"), 50)
		require.Empty(t, env.Get(t, client, "job"))
		require.Empty(t, env.Get(t, client, "other"))
	})
}
