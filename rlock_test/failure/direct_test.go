package failure

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func isSet(words []string) bool { return words[0] == "SET" }

// acquireSHA1 is of the acquire.lua in place of which package rlock sends a SET.
const acquireSHA1 = "69f7e0a528b5caf7f459998be72a5761ce8b369a"

// ready has the locker find out that the server runs scripts, without which it sends no
// SET.
func ready(t *testing.T, locker *rlock.Locker) {
	t.Helper()
	require.Equal(t, acquireSHA1, gen.AcquireSHA1, "see TestSetKnowsTheScript")
	lock, err := locker.TryAcquire(t.Context(), "ready")
	require.NoError(t, err)
	require.NoError(t, lock.Release(t.Context()))
}

// If acquire.lua was changed, see to it that a SET is still all that it does for a free
// lock without a fence, then put its new sum above and into rlock/direct.go.
func TestSetKnowsTheScript(t *testing.T) {
	t.Parallel()
	require.Equal(t, acquireSHA1, gen.AcquireSHA1)
}

// A lock without a fence that is taken by a SET is the lock that the script takes.
func TestSetTakesWhatTheScriptTakes(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, ttl := range map[string]time.Duration{"lease": time.Minute, "no end": rlock.NoExpiry} {
			t.Run(name, func(t *testing.T) {
				client := e.Start(t).Client(t)
				locker := env.NewLocker(t, client, rlock.WithFence(false), rlock.WithTTL(ttl))
				ready(t, locker)
				lock, err := locker.TryAcquire(t.Context(), "job")
				require.NoError(t, err)

				params := gen.AcquireParams{Lock: "scripted", Token: lock.Token()}
				if ttl != rlock.NoExpiry {
					params.TTL = ttl
				}
				scripts := gen.New()
				r, err := scripts.Acquire(t.Context(), client, params)
				require.NoError(t, err)
				require.True(t, r.Acquired)
				dumps := [2]string{}
				lefts := [2]int64{}
				for i, key := range []string{"job", "scripted"} {
					dumps[i], err = env.Do(t, client, "DUMP", key).ToString()
					require.NoError(t, err)
					lefts[i], err = env.Do(t, client, "PTTL", key).ToInt64()
					require.NoError(t, err)
				}
				require.Equal(t, dumps[0], dumps[1])
				require.InDelta(t, lefts[0], lefts[1], 5_000)

				params.Lock = "job"
				r, err = scripts.Acquire(t.Context(), client, params)
				require.NoError(t, err)
				require.True(t, r.Acquired, "the script knows the lock as this token's")
				require.NoError(t, lock.Release(t.Context()))
			})
		}
	})
}

// A SET whose reply is lost is followed by the script, which knows whether it ran.
func TestLostSet(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, runs := range map[string]bool{"ran": true, "did not run": false} {
			t.Run(name, func(t *testing.T) {
				f, locker, direct := env.NewFaulty(t, e, rlock.WithFence(false), rlock.WithTTL(time.Minute))
				ready(t, locker)
				var sets int
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					if !isSet(words) {
						return run()
					}
					if sets++; runs {
						run()
					}
					return env.NoReply()
				})
				lock, err := locker.TryAcquire(t.Context(), "job")
				require.NoError(t, err)
				require.Equal(t, 1, sets)
				owner, err := env.Do(t, direct, "GET", "job").ToString()
				require.NoError(t, err)
				require.Equal(t, lock.Token(), owner)
				require.NoError(t, lock.Release(t.Context()))
			})
		}
	})
}

// One that runs after the call has given up is cleaned up like a script.
func TestLateSet(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e, rlock.WithFence(false), rlock.WithTTL(time.Minute))
		ready(t, locker)
		l := &late{client: direct}
		ctx, cancel := context.WithCancel(t.Context())
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if isSet(words) && l.words.CompareAndSwap(nil, &words) {
				cancel()
				return env.NoReply()
			}
			return run()
		})
		_, err := locker.TryAcquire(ctx, "job")
		require.ErrorIs(t, err, context.Canceled)
		l.deliver(t)
		env.Soon(t, func() bool {
			n, err := env.Do(t, direct, "EXISTS", "job").ToInt64()
			return err == nil && n == 0
		}, "it is free again")
	})
}

// What SET does not do, the script answers: the holder's remaining time, a key of
// another type, a refusal, an answer that makes no sense.
func TestSetThatDoesNotDo(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e, rlock.WithFence(false))
		ready(t, locker)
		env.Do(t, direct, "SET", "held", "somebody", "PX", "60000")
		env.Do(t, direct, "RPUSH", "list", "x")

		_, err := locker.TryAcquire(t.Context(), "held")
		var held *rlock.AcquireError
		require.ErrorAs(t, err, &held)
		require.ErrorIs(t, err, rlock.ErrHeld)
		require.InDelta(t, time.Minute, held.Remaining, float64(10*time.Second))
		_, err = locker.TryAcquire(t.Context(), "list")
		require.ErrorContains(t, err, "WRONGTYPE")

		for name, answer := range map[string]func(run func() rueidis.RedisResult) rueidis.RedisResult{
			"refused": func(func() rueidis.RedisResult) rueidis.RedisResult { return f.Refuse("OOM no memory") },
			"a number": func(func() rueidis.RedisResult) rueidis.RedisResult {
				return f.Client.Do(t.Context(), f.Client.B().Arbitrary("INCR", "n").Build())
			},
			"another text": func(func() rueidis.RedisResult) rueidis.RedisResult {
				return f.Client.Do(t.Context(), f.Client.B().Ping().Build())
			},
		} {
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if isSet(words) {
					return answer(run)
				}
				return run()
			})
			lock, err := locker.TryAcquire(t.Context(), name)
			require.NoError(t, err, name)
			owner, err := env.Do(t, direct, "GET", name).ToString()
			require.NoError(t, err)
			require.Equal(t, lock.Token(), owner)
		}
	})
}

// Whoever finds a lock held again and again asks once each time.
func TestHeldLocksAreAskedForOnce(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e, rlock.WithFence(false))
		ready(t, locker)
		var sent []string
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			sent = append(sent, words[0])
			return run()
		})
		try := func() (commands []string, err error) {
			sent = nil
			lock, err := locker.TryAcquire(t.Context(), "job")
			commands = sent
			if err == nil {
				require.NoError(t, lock.Release(t.Context()))
			}
			return commands, err
		}
		const set, script = "SET", "EVALSHA"
		env.Do(t, direct, "SET", "job", "somebody", "PX", "60000")
		for _, want := range [][]string{{set, script}, {script}, {script}, {script}} {
			commands, err := try()
			require.ErrorIs(t, err, rlock.ErrHeld)
			require.Equal(t, want, commands)
		}
		env.Do(t, direct, "DEL", "job")
		for _, want := range []string{script, script, script, script, set, set} {
			commands, err := try()
			require.NoError(t, err)
			require.Equal(t, []string{want}, commands)
		}
	})
}

// Once the server has refused a script, locks are taken by nothing else.
func TestNoSetWithoutScripts(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e, rlock.WithFence(false))
		ready(t, locker)
		lock, err := locker.TryAcquire(t.Context(), "job")
		require.NoError(t, err)
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if words[0] == "EVALSHA" {
				return f.Refuse("NOPERM not any more")
			}
			return run()
		})
		require.ErrorContains(t, lock.Release(t.Context()), "NOPERM")
		_, err = locker.TryAcquire(t.Context(), "other")
		require.ErrorContains(t, err, "NOPERM")
		require.Empty(t, env.Get(t, direct, "other"))
	})
}
