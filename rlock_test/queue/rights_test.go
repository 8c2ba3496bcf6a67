package queue

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A user who lacks a right for the queue works as without it.
func TestQueueWithoutRights(t *testing.T) {
	t.Parallel()
	for _, denied := range []string{"-spublish", "-ssubscribe", "-pubsub|shardnumsub", "-exists", "-zadd",
		"-zrem", "-zrange", "-zcard", "-zrank -zscore", "resetchannels", "resetkeys ~k ~rlock:fence:*"} {
		t.Run(denied, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) {
				t.Parallel()
				server := e.Start(t)
				client := server.Client(t)
				server.Do(t, append([]string{"ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", "&*", "+@all"},
					strings.Fields(denied)...)...)
				option := server.Option()
				option.Username, option.Password = "u", "secret"
				a, b := env.OpenLocker(t, option), env.OpenLocker(t, option)
				for range 3 {
					held := env.MustLock(t)(a.Acquire(t.Context(), "k"))
					got := make(chan *rlock.Lock, 1)
					go func() { got <- env.MustLock(t)(b.Acquire(t.Context(), "k")) }()
					env.AwaitWaiting(t, b, 1)
					time.Sleep(20 * time.Millisecond)
					began := time.Now()
					require.NoError(t, held.Release(t.Context()))
					lock := env.Taken(t, got)
					require.Less(t, time.Since(began), 5*time.Second, "it has waited for more than its next look")
					require.NoError(t, lock.Release(t.Context()))
				}
				require.LessOrEqual(t, a.Stats().Attempts+b.Stats().Attempts, uint64(150), "nobody asks all the time")
				if denied == "-zrem" {
					require.Empty(t, env.Get(t, client, "k")) // a place lasts for half a minute then
				} else {
					idle(t, client, "k")
				}
			})
		})
	}
}

// A user who may wait in the queue and not hear of grants sees in the cache that its key has another holder,
// wherever it stands in the queue, and needs no heartbeat for that.
func TestQueueWithoutTheRightToHear(t *testing.T) {
	t.Parallel()
	for _, denied := range []string{"-ssubscribe", "resetchannels"} {
		t.Run(denied, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) {
				t.Parallel()
				const processes, times = 5, 20
				server := e.Start(t)
				server.Do(t, "ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", "&*", "+@all", denied)
				option := server.Option()
				option.Username, option.Password = "u", "secret"
				var group sync.WaitGroup
				var granted atomic.Int64
				began := time.Now()
				for range processes {
					l := env.OpenLocker(t, option)
					group.Go(func() {
						for range times {
							lock, err := l.Acquire(t.Context(), "k")
							if assert.NoError(t, err) && assert.NoError(t, lock.Release(t.Context())) {
								granted.Add(1)
							}
						}
					})
				}
				group.Wait()
				require.EqualValues(t, processes*times, granted.Load())
				require.Less(t, time.Since(began), processes*times*time.Second/4, "few of them wait for a heartbeat")
				idle(t, server.Client(t), "k")
			})
		})
	}
}

// A release at the end of a turn succeeds, whatever right the user lacks to join the queue again.
func TestEndOfATurnWithoutRights(t *testing.T) {
	t.Parallel()
	for _, denied := range []string{"-exists", "-pexpire", "-zadd", "-zrange", "-zcard", "-time", "-spublish"} {
		t.Run(denied, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) {
				t.Parallel()
				server := e.Start(t)
				server.Do(t, "ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", "&*", "+@all", denied)
				option := server.Option()
				option.Username, option.Password = "u", "secret"
				l := env.OpenLocker(t, option, rlock.WithTurn(time.Millisecond), rlock.WithFence(false))
				held := env.MustLock(t)(l.Acquire(t.Context(), "k"))
				other := env.NextInLine(t, env.OpenOn(t, server), "k")
				own := make(chan *rlock.Lock, 3)
				for range cap(own) {
					go func() { own <- env.MustLock(t)(l.Acquire(t.Context(), "k")) }()
				}
				env.AwaitWaiting(t, l, int64(cap(own)))
				time.Sleep(20 * time.Millisecond) // other has a place
				require.NoError(t, held.Release(t.Context()))
				for range cap(own) + 1 {
					select {
					case lock := <-other:
						require.NoError(t, lock.Release(t.Context()))
					case lock := <-own:
						time.Sleep(5 * time.Millisecond) // the turn ends
						require.NoError(t, lock.Release(t.Context()))
					case <-time.After(time.Minute):
						require.FailNow(t, "nobody has the lock")
					}
				}
			})
		})
	}
}

// A Locker whose user was refused a command for the queue polls until it is closed, for all keys, and tells
// so once. A new one uses the queue once the right is there.
func TestPollingAfterARefusal(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		server.Do(t, "ACL", "SETUSER", "u", "reset", "on", ">secret", "resetkeys",
			"~k", "~other", "~rlock:fence:*", "&*", "+@all")
		option := server.Option()
		option.Username, option.Password = "u", "secret"
		told := make(chan error, 8)
		observer := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
			if e.Kind == rlock.EventPolling {
				told <- e.Err
			}
		})
		open := func() *rlock.Locker { return env.OpenLocker(t, option, rlock.WithObserver(observer)) }
		polls := func(l *rlock.Locker, key string) {
			held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), key))
			next := env.NextInLine(t, l, key)
			time.Sleep(50 * time.Millisecond) // it has asked for a place, or pauses
			require.Empty(t, queued(t, client, key))
			require.True(t, l.Stats().Polling)
			require.NoError(t, held.Release(t.Context()))
			require.NoError(t, env.Taken(t, next).Release(t.Context()))
		}
		old := open()
		require.False(t, old.Stats().Polling, "nobody knows yet")
		polls(old, "k")
		server.Do(t, "ACL", "SETUSER", "u", "~rlock:*")
		polls(old, "other")
		require.Len(t, told, 1)
		refusal := <-told
		require.Regexp(t, env.NoPermission, refusal.Error())
		require.ErrorContains(t, refusal, "PRODUCTION.md")

		held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k"))
		l := open()
		passesOn(t, client, "k", held, waits(t, client, l, "k"))
		require.False(t, l.Stats().Polling)
	})
}

// A user who loses the right to the fences does not lose the queue: it is used again once the right is back.
func TestNoPollingWithoutFences(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		server.Do(t, "ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", "&*", "+@all")
		option := server.Option()
		option.Username, option.Password = "u", "secret"
		l, other := env.OpenLocker(t, option), env.OpenOn(t, server)
		held := env.MustLock(t)(l.Acquire(t.Context(), "k"))
		next := waits(t, client, other, "k")
		server.Do(t, "ACL", "SETUSER", "u", "resetkeys", "~k", "~rlock:queue:*", "~rlock:waiters:*",
			"~rlock:holders:*",
			"~rlock:grant:*")
		require.NoError(t, held.Release(t.Context()),
			"it cannot give the next a fence, so it passes the key on to nobody")
		require.NoError(t, env.Taken(t, next).Release(t.Context()))
		_, err := l.Acquire(t.Context(), "k")
		require.Regexp(t, env.NoPermission, err)
		require.False(t, l.Stats().Polling)

		server.Do(t, "ACL", "SETUSER", "u", "~rlock:*")
		held = env.MustLock(t)(other.Acquire(t.Context(), "k"))
		passesOn(t, client, "k", held, waits(t, client, l, "k"))
		require.False(t, l.Stats().Polling)
	})
}

// WithQueue(true) makes an error of a right that is missing, and WithQueue(false) uses no queue.
func TestWithQueue(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		server.Do(t, "ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", "&*", "+@all", "-zadd")
		option := server.Option()
		option.Username, option.Password = "u", "secret"
		other := env.OpenOn(t, server)

		held := env.MustLock(t)(other.Acquire(t.Context(), "k"))
		l := env.OpenLocker(t, option, rlock.WithQueue(true))
		err := env.ErrorOf(l.Acquire(t.Context(), "k"))
		require.Error(t, err)
		require.Regexp(t, env.NoPermission, err.Error())
		require.ErrorContains(t, err, "PRODUCTION.md")
		require.False(t, l.Stats().Polling)
		report, err := l.Probe(t.Context())
		require.NoError(t, err)
		require.Equal(t, rlock.ProbeFault, env.Worst(t, report)["queue"], "%s", report)

		before := server.CommandStats(t)["zadd"]
		l = env.OpenOn(t, server, rlock.WithQueue(false))
		require.True(t, l.Stats().Polling)
		next := env.NextInLine(t, l, "k")
		time.Sleep(20 * time.Millisecond)
		require.NoError(t, held.Release(t.Context()))
		require.NoError(t, env.Taken(t, next).Release(t.Context()))
		require.Equal(t, before, server.CommandStats(t)["zadd"])
		report, err = l.Probe(t.Context())
		require.NoError(t, err)
		require.Equal(t, rlock.ProbeNote, env.Worst(t, report)["queue"], "%s", report)
	})
}

// Only the first call of a Locker is refused, and for two seconds none after it asks for the queue.
func TestRefusedOnce(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	server.Do(t, "ACL", "SETUSER", "u", "reset", "on", ">secret", "resetkeys", "~k", "~rlock:fence:*", "&*",
		"+@all")
	option := server.Option()
	option.Username, option.Password = "u", "secret"
	l := env.OpenLocker(t, option)
	cycle := func() {
		require.NoError(t, env.MustLock(t)(l.Acquire(t.Context(), "k")).Release(t.Context()))
	}
	refused := func() int { return server.ErrorCount(t, "NOPERM") }
	cycle()
	began, once := time.Now(), refused()
	require.Positive(t, once)
	for range 30 {
		cycle()
	}
	again := 1 + int(time.Since(began)/(2*time.Second)) // two calls may ask at the same time
	require.LessOrEqual(t, refused()-once, again*once)
}

// A user who may not use one key has the queues of the others, also while calls for that key are refused all
// the time.
func TestAForbiddenKeyIsNothingToTheOthers(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		server.Do(t, "ACL", "SETUSER", "u", "reset", "on", ">secret", "resetkeys",
			"~good", "~rlock:*", "&*", "+@all")
		option := server.Option()
		option.Username, option.Password = "u", "secret"
		a, b := env.OpenLocker(t, option), env.OpenLocker(t, option)
		bad := func(l *rlock.Locker) {
			require.Regexp(t, env.NoPermission, env.ErrorOf(l.TryAcquire(t.Context(), "bad")).Error())
		}
		for range 5 {
			bad(a)
			held := env.MustLock(t)(a.Acquire(t.Context(), "good"))
			bad(b)
			got := waits(t, client, b, "good")
			bad(a)
			before := server.CommandStats(t)["spublish"]
			require.NoError(t, held.Release(t.Context()))
			lock := env.Taken(t, got)
			require.Equal(t, before+1, server.CommandStats(t)["spublish"], "the release passes it on")
			require.NoError(t, lock.Release(t.Context()))
		}
		idle(t, client, "good")
	})
}

// Calls go together in spite of a user who may not use some of the keys.
func TestCallsGoTogetherInSpiteOfAForbiddenKey(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		server.Do(t, "ACL", "SETUSER", "u", "reset", "on", ">secret", "resetkeys",
			"~good*", "~rlock:*", "&*", "+@all")
		f := &env.Faulty{Client: server.Client(t,
			func(o *rueidis.ClientOption) { o.Username, o.Password = "u", "secret" })}
		var together atomic.Int64
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			reply := run()
			if env.Calls(words, gen.AcquireManySHA1) && reply.Error() == nil {
				together.Add(1)
			}
			return reply
		})
		l := env.NewLocker(t, f)
		env.Soon(t, func() bool {
			require.NoError(t, env.Together(128, func(n int) error {
				if n == 0 {
					assert.Error(t, env.ErrorOf(l.Acquire(t.Context(), "bad")))
					return nil
				}
				lock, err := l.Acquire(t.Context(), fmt.Sprint("good", n))
				if err != nil {
					return err
				}
				return lock.Release(t.Context())
			}))
			return together.Load() >= 3
		}, "calls for the others go together")
	})
}
