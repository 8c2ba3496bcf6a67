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

// link is a locker whose traffic goes through a proxy, and a client beside it.
type link struct {
	server *env.Server
	proxy  *env.Proxy
	locker *rlock.Locker
	direct rueidis.Client
}

func newLink(t *testing.T, e env.Engine, opts ...rlock.LockerOption) *link {
	t.Helper()
	return newLinkOver(t, e, 0, opts...)
}

// newLinkOver is newLink for a client with that PipelineMultiplex.
func newLinkOver(t *testing.T, e env.Engine, multiplex int, opts ...rlock.LockerOption) *link {
	t.Helper()
	server := e.Start(t)
	proxy := env.NewProxy(t, server.Addr())
	client := server.Client(t, func(o *rueidis.ClientOption) {
		o.InitAddress, o.PipelineMultiplex = []string{proxy.Addr()}, multiplex
	})
	locker := env.NewLocker(t, client, opts...)
	// The scripts are known to the server, so that requests carry their SHA1.
	require.NoError(t, gen.New().Load(t.Context(), client))
	return &link{server: server, proxy: proxy, locker: locker, direct: server.Client(t)}
}

func (l *link) free(t *testing.T, keys ...string) {
	t.Helper()
	env.Soon(t, func() bool {
		left, err := env.Do(t, l.direct, append([]string{"EXISTS"}, keys...)...).AsInt64()
		require.NoError(t, err)
		return left == 0
	}, "no key is left behind")
}

func TestLostReplyOnAcquire(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Run("one key", func(t *testing.T) {
			l := newLink(t, e)
			l.proxy.DropReply(env.Contains(gen.AcquireSHA1))
			lock, err := l.locker.Acquire(t.Context(), "job")
			require.NoError(t, err, "the question is repeated, and the owner confirmed")
			require.Equal(t, 1, l.proxy.Dropped())
			require.Equal(t, lock.Token(), env.Get(t, l.direct, "job"))
			require.NoError(t, lock.Release(t.Context()))
			l.free(t, "job")
		})
		t.Run("a set", func(t *testing.T) {
			l := newLink(t, e)
			l.proxy.DropReply(env.Contains(gen.AcquireAllSHA1))
			lock, err := l.locker.AcquireAll(t.Context(), []string{"a", "b"})
			require.NoError(t, err)
			require.Equal(t, 1, l.proxy.Dropped())
			require.NoError(t, lock.Release(t.Context()))
			l.free(t, "a", "b")
		})
		t.Run("every reply", func(t *testing.T) {
			l := newLink(t, e)
			for range 10 {
				l.proxy.DropReply(env.Contains(gen.AcquireSHA1))
			}
			_, err := l.locker.TryAcquire(t.Context(), "job")
			require.Error(t, err)
			require.NotErrorIs(t, err, rlock.ErrHeld)
			l.free(t, "job")
		})
		// What these tests are there for: a script that does not know its own token,
		// repeated, calls its lock another's and leaves it behind.
		t.Run("a script that is not safe to repeat", func(t *testing.T) {
			server := e.Start(t)
			proxy := env.NewProxy(t, server.Addr())
			client := server.Client(t, func(o *rueidis.ClientOption) { o.InitAddress = []string{proxy.Addr()} })
			proxy.DropReply(env.Contains("evalsha"))
			const script = "return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', 60000) and 1 or 0"
			server.Do(t, "SCRIPT", "LOAD", script)
			acquired, err := rueidis.NewLuaScriptRetryable(script).Exec(t.Context(), client, []string{"job"},
				[]string{"mine"}).AsInt64()
			require.NoError(t, err)
			require.Zero(t, acquired)
			require.Equal(t, "mine", env.Get(t, server.Client(t), "job"))
		})
	})
}

func TestLostReplyOnRelease(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		l := newLink(t, e)
		lock, err := l.locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		l.proxy.DropReply(env.Contains(gen.ReleaseSHA1))
		require.NoError(t, lock.Release(t.Context()), "the first try did the work")
		require.Equal(t, 1, l.proxy.Dropped())
		l.free(t, "job")
	})
}

func TestLostReplyOnExtend(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		l := newLink(t, e)
		lock, err := l.locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		l.proxy.DropReply(env.Contains(gen.ExtendSHA1))
		require.NoError(t, lock.Extend(t.Context(), time.Hour))
		require.Equal(t, 1, l.proxy.Dropped())
		require.WithinDuration(t, time.Now().Add(time.Hour), lock.Deadline(), time.Minute)

		// The server may have shortened the lease although nobody says so.
		for range 100 {
			l.proxy.DropReply(env.Contains(gen.AttachSHA1))
		}
		require.Error(t, lock.Extend(t.Context(), 30*time.Second))
		require.NoError(t, lock.Err())
		require.LessOrEqual(t, time.Until(lock.Deadline()), 30*time.Second)
	})
}

func TestContextEndsMidAcquire(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Run("reply under way", func(t *testing.T) {
			// The client has one connection: to dial another would take longer than a call of the reaper may.
			l := newLinkOver(t, e, -1)
			l.proxy.Delay(1500 * time.Millisecond)
			ctx, exceed := env.Deadline(t.Context())
			gaveUp := make(chan error, 1)
			go func() {
				_, err := l.locker.Acquire(ctx, "job", rlock.WithTTL(time.Minute))
				gaveUp <- err
			}()
			env.Soon(t, func() bool { return l.server.ScriptCalls(t) > 0 }, "the acquisition arrives")
			start := time.Now()
			exceed()
			require.ErrorIs(t, env.Receive(t, gaveUp), context.DeadlineExceeded)
			require.Less(t, time.Since(start), 2500*time.Millisecond, "the caller does not wait for the cleaning up")
			env.Soon(t, func() bool { return l.server.ScriptCalls(t) >= 2 }, "the acquisition and the release arrive")
			l.free(t, "job")
		})
		t.Run("request under way", func(t *testing.T) {
			l := newLink(t, e)
			deliver := l.proxy.Hold(env.Contains(gen.AcquireSHA1))
			ctx, cancel := context.WithCancel(t.Context())
			soonCancelled := make(chan error, 1)
			go func() {
				_, err := l.locker.Acquire(ctx, "job", rlock.WithTTL(time.Minute))
				soonCancelled <- err
			}()
			env.Soon(t, func() bool { return l.proxy.Held() == 1 }, "the request is held")
			cancel()
			require.ErrorIs(t, env.Receive(t, soonCancelled), context.Canceled)
			deliver()
			env.Soon(t, func() bool { return l.server.CommandStats(t)["evalsha"] >= 2 },
				"the acquisition and the release arrive")
			l.free(t, "job")
		})
		t.Run("swept", func(t *testing.T) {
			l := newLink(t, e)
			l.proxy.Delay(5 * time.Millisecond)
			for wait := range 30 {
				ctx, cancel := context.WithTimeout(t.Context(), time.Duration(wait)*time.Millisecond)
				if lock, err := l.locker.Acquire(ctx, "job", rlock.WithTTL(time.Minute)); err == nil {
					require.NoError(t, lock.Release(ctx))
				} else {
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
				cancel()
				l.free(t, "job")
			}
		})
	})
}

// A reply that takes longer than the lease grants nothing.
func TestReplyAfterTheLease(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		l := newLink(t, e)
		l.proxy.Delay(100 * time.Millisecond)
		_, err := l.locker.Acquire(t.Context(), "job", rlock.WithTTL(50*time.Millisecond))
		require.ErrorIs(t, err, rlock.ErrExpired)
		l.free(t, "job")
	})
}

// An answer to Verify that comes after the lease confirms nothing: somebody else may hold the lock.
func TestVerifyIsAnsweredLate(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		const ttl = 2 * time.Second
		for name, acquire := range map[string]func(l *rlock.Locker) (*rlock.Lock, error){
			"a key": func(l *rlock.Locker) (*rlock.Lock, error) { return l.Acquire(t.Context(), "a") },
			"a set": func(l *rlock.Locker) (*rlock.Lock,
				error) {
				return l.AcquireAll(t.Context(), []string{"a", "b"})
			},
			"a reader": func(l *rlock.Locker) (*rlock.Lock, error) { return l.AcquireShared(t.Context(), "a") },
			"a permit": func(l *rlock.Locker) (*rlock.Lock, error) { return l.AcquirePermits(t.Context(), "a", 1, 1) },
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f, locker, direct := env.NewFaulty(t, e, rlock.WithTTL(ttl))
				lock := env.MustLock(t)(acquire(locker))
				var delay time.Duration
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					answer := run()
					if env.Calls(words, gen.InspectSHA1) {
						time.Sleep(delay)
					}
					return answer
				})
				delay = ttl / 10
				require.NoError(t, lock.Verify(t.Context()))
				delay = ttl
				require.ErrorIs(t, lock.Verify(t.Context()), rlock.ErrExpired)
				require.NoError(t, env.ErrorOf(env.NewLocker(t, direct).TryAcquire(t.Context(), "a")))
			})
		}
	})
}

func TestBlackHole(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		l := newLink(t, e)
		const ttl = 3 * time.Second
		fixed, err := l.locker.Acquire(t.Context(), "fixed", rlock.WithTTL(ttl))
		require.NoError(t, err)
		extended, err := l.locker.Acquire(t.Context(), "extended", rlock.WithTTL(ttl), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		contexts := []context.Context{fixed.Context(), extended.Context()}
		l.proxy.BlackHole(true)

		// A rival takes each lock as soon as the server lets go of it. By then its
		// holder must know.
		rival := env.NewLocker(t, l.direct, rlock.WithRetry(rlock.Fixed(time.Millisecond)))
		for i, lock := range []*rlock.Lock{fixed, extended} {
			_, err := rival.Acquire(t.Context(), lock.Key())
			require.NoError(t, err)
			require.Error(t, lock.Err(), "two holders of %s", lock.Key())
			env.Receive(t, contexts[i].Done())
			require.ErrorIs(t, context.Cause(contexts[i]), rlock.ErrExpired)
		}
	})
}

// One lost extension is not a lost lock.
func TestAutoExtendSurvivesAnOutage(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		l := newLink(t, e)
		lock, err := l.locker.Acquire(t.Context(), "job", rlock.WithTTL(6*time.Second), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		for range 2 {
			l.proxy.DropReply(env.Contains(gen.ExtendSHA1))
		}
		env.Soon(t, func() bool { return l.proxy.Dropped() == 2 }, "two extensions are lost")
		time.Sleep(4 * time.Second)
		require.NoError(t, lock.Err())
		require.NoError(t, lock.Context().Err())
		require.NoError(t, lock.Release(t.Context()))
	})
}

// Servers forget scripts: on restart, on failover, by SCRIPT FLUSH, and newer
// ones by themselves.
func TestScriptFlushIsInvisible(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client, rlock.WithTTL(10*time.Second))
		flush := func() {
			t.Helper()
			require.NoError(t, env.Do(t, client, "SCRIPT", "FLUSH").Error())
		}
		for range 2 {
			flush()
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			flush()
			_, err = locker.TryAcquire(t.Context(), "job")
			require.ErrorIs(t, err, rlock.ErrHeld)
			flush()
			state, err := locker.Check(t.Context(), "job")
			require.NoError(t, err)
			require.True(t, state.Held)
			flush()
			require.NoError(t, lock.Verify(t.Context()))
			flush()
			require.NoError(t, lock.Extend(t.Context(), 10*time.Second))
			flush()
			require.NoError(t, lock.Release(t.Context()))
			flush()
			set, err := locker.AcquireAll(t.Context(), []string{"a", "b"}, rlock.WithTTL(9*time.Second),
				rlock.WithAutoExtend(true))
			require.NoError(t, err)
			before := locker.Stats().Extended
			flush()
			env.Soon(t, func() bool { return locker.Stats().Extended > before }, "it is extended in the pipeline")
			require.NoError(t, set.Err())
			flush()
			require.NoError(t, set.Release(t.Context()))
		}
	})
}

func TestServerGone(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		l := newLink(t, e)
		lock, err := l.locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		l.server.Kill()
		require.NoError(t, lock.Err(), "until the lease ends, the lock may well be ours")
		start := time.Now()
		require.Error(t, lock.Release(t.Context()))
		require.Less(t, time.Since(start), 20*time.Second)
		require.Error(t, lock.Err())
		_, err = l.locker.TryAcquire(t.Context(), "job")
		require.Error(t, err)
		require.NotErrorIs(t, err, rlock.ErrGaveUp)
		require.NotErrorIs(t, err, rlock.ErrHeld)
	})
}
