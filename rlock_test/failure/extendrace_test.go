package failure

import (
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// An extension that is on its way while the lease ends finds the key or does not. It
// never makes it anew, and never deletes it.
func TestExtensionsRaceTheLease(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		const keys = 100
		client := e.Start(t).Client(t)
		// Each key is extended at another moment, before, at and after the lease's end.
		race := func(t *testing.T, ttl time.Duration,
			try func(key string, wait time.Duration) (extended bool, err error)) {
			var in, late atomic.Int32
			all := func(round int) error {
				return env.Together(keys, func(i int) error {
					key := fmt.Sprint(t.Name(), round, ":", i)
					extended, err := try(key, 2*ttl*time.Duration(i)/keys)
					if err != nil {
						return err
					}
					left, err := env.Do(t, client, "PTTL", key).ToInt64()
					switch {
					case err != nil:
						return err
					case extended && left < 30_000:
						return fmt.Errorf("%s was extended, and has %d ms left", key, left)
					case !extended && left != -2:
						return fmt.Errorf("%s was not extended, and has %d ms left", key, left)
					case extended:
						in.Add(1)
					default:
						late.Add(1)
					}
					return nil
				})
			}
			// On a busy machine, a whole round may come too late.
			for round := 0; round < 10 && (in.Load() == 0 || late.Load() == 0); round++ {
				require.NoError(t, all(round))
			}
			require.Positive(t, in.Load())
			require.Positive(t, late.Load())
		}
		t.Run("script", func(t *testing.T) {
			s := gen.New()
			race(t, 300*time.Millisecond, func(key string, wait time.Duration) (bool, error) {
				if err := env.Do(t, client, "SET", key, "token", "PX", "300").Error(); err != nil {
					return false, err
				}
				time.Sleep(wait)
				lost, err := s.Extend(
					t.Context(), client, gen.ExtendParams{Keys: []string{key}, Tokens: []string{"token"}, TTL: time.Minute},
				)
				return len(lost) == 0, err
			})
		})
		t.Run("lock", func(t *testing.T) {
			locker := env.NewLocker(t, client)
			race(t, 500*time.Millisecond, func(key string, wait time.Duration) (bool, error) {
				lock, err := locker.Acquire(t.Context(), key, rlock.WithTTL(500*time.Millisecond))
				if err == nil {
					time.Sleep(wait)
					err = lock.Extend(t.Context(), time.Minute)
					if valid := lock.Err() == nil; valid != (err == nil) {
						return false, fmt.Errorf("Valid is %t, and Extend says %w", valid, err)
					}
				}
				if err == nil || !errors.Is(err, rlock.ErrNotHeld) {
					return true, err
				}
				// What is over by the local clock has a moment left on the server, and what was
				// answered too late is freed in the background.
				for end := time.Now().Add(10 * time.Second); env.Get(t, client, key) != "" && time.Now().Before(end); {
					time.Sleep(5 * time.Millisecond)
				}
				return false, nil
			})
		})
		t.Run("without a lease", func(t *testing.T) {
			require.NoError(t, env.Do(t, client, "SET", "job", "token").Error())
			for _, ttl := range []time.Duration{-1, 1, time.Millisecond - 1, -time.Second} {
				_, err := gen.New().Extend(
					t.Context(), client, gen.ExtendParams{Keys: []string{"job"}, Tokens: []string{"token"}, TTL: ttl},
				)
				var param *redislua.ParamError
				require.ErrorAs(t, err, &param, "%v, which would delete the key", ttl)
			}
			require.Equal(t, "token", env.Get(t, client, "job"))
		})
	})
}
