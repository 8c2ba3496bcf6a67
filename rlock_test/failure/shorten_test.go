package failure

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// leftOn returns how much is left of a key's lease on the server.
func leftOn(t *testing.T, server *env.Server, key string) time.Duration {
	t.Helper()
	reply := server.Do(t, "PTTL", key)
	left, err := reply.ToInt64()
	require.NoError(t, err)
	return time.Duration(left) * time.Millisecond
}

// The lease of an extended lock that somebody else shortens is extended at once, long
// before the next extension would, which is 20 seconds away.
func TestShortenedLeaseIsExtendedAtOnce(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		const ttl, short = time.Minute, 3 * time.Second
		for name, test := range map[string]struct {
			keys    []string
			shorten func(t *testing.T, server *env.Server, keys []string)
		}{
			"by hand": {[]string{"by hand"}, func(t *testing.T, server *env.Server, keys []string) {
				server.Do(t, "PEXPIRE", keys[0], fmt.Sprint(short.Milliseconds()))
			}},
			"one of a set": {[]string{"one", "of", "a set"}, func(t *testing.T, server *env.Server, keys []string) {
				server.Do(t, "PEXPIRE", keys[1], fmt.Sprint(short.Milliseconds()))
			}},
			"twice": {[]string{"twice"}, func(t *testing.T, server *env.Server, keys []string) {
				server.Do(t, "PEXPIRE", keys[0], fmt.Sprint(short.Milliseconds()))
				env.Soon(t, func() bool { return leftOn(t, server, keys[0]) > ttl/2 }, "it is extended")
				server.AwaitTracked(t, 1) // anew
				server.Do(t, "PEXPIRE", keys[0], fmt.Sprint(short.Milliseconds()))
			}},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := e.Start(t)
				locker := env.OpenLocker(t, server.Option(), rlock.WithTTL(ttl), rlock.WithFence(false))
				lock, err := locker.AcquireAll(t.Context(), test.keys, rlock.WithToken("mine"),
					rlock.WithAutoExtend(true))
				require.NoError(t, err)
				server.AwaitTracked(t, len(test.keys))
				test.shorten(t, server, test.keys)
				time.Sleep(short + 500*time.Millisecond)
				for _, key := range test.keys {
					require.Greater(t, leftOn(t, server, key), ttl/2, key)
				}
				require.NoError(t, lock.Err())
				require.Greater(t, time.Until(lock.Deadline()), ttl/2)
			})
		}
	})
}

// A lock that is not extended ends with the lease that the server has for it, not with
// the longer one that it was granted.
func TestShortenedLeaseBringsTheDeadlineNearer(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, ttl := range map[string]time.Duration{"fixed": time.Minute, "without an end": rlock.NoExpiry} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := e.Start(t)
				locker := env.OpenLocker(t, server.Option(), rlock.WithTTL(ttl))
				lock, err := locker.Acquire(t.Context(), name)
				require.NoError(t, err)
				ctx := lock.Context()
				server.AwaitTracked(t, 1)
				server.Do(t, "PEXPIRE", name, "4000")
				env.Soon(t, func() bool {
					end := lock.Deadline()
					return !end.IsZero() && time.Until(end) <= 4*time.Second
				}, "the deadline is the server's")
				env.Receive(t, ctx.Done())
				require.ErrorIs(t, context.Cause(ctx), rlock.ErrNotHeld)
				require.Error(t, lock.Err())
			})
		}
	})
}

// Handles of one token that extend it all the time, each by a lease of its own, do not
// set each other off: a lease that is longer than one's own is left alone.
func TestHandlesThatExtendDoNotStorm(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		var handles []*rlock.Lock
		for _, ttl := range []time.Duration{9 * time.Second, time.Minute, 9 * time.Second} {
			lock, err := env.OpenLocker(t, server.Option()).Acquire(t.Context(), "job", rlock.WithToken("mine"),
				rlock.WithTTL(ttl), rlock.WithAutoExtend(true), rlock.WithFence(false))
			require.NoError(t, err)
			handles = append(handles, lock)
		}
		time.Sleep(2 * time.Second)
		before := server.CommandStats(t)
		time.Sleep(6 * time.Second)
		after := server.CommandStats(t)
		scripts, reads := after["evalsha"]-before["evalsha"], after["client|caching"]-before["client|caching"]
		t.Logf("%d scripts and %d reads in 6 s", scripts, reads)
		// The short ones extend every three seconds, the long one repairs after each of them;
		// every extension is read and measured by the two others.
		require.LessOrEqual(t, scripts, int64(80))
		require.LessOrEqual(t, reads, int64(80))
		for _, lock := range handles {
			require.NoError(t, lock.Err())
		}
	})
}

// A stranger who changes the key all the time, without harm, is answered ever more
// slowly; a loss is still noticed.
func TestHarmlessChangesAreReadMoreSlowly(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker := env.OpenLocker(t, server.Option(), rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		server.AwaitTracked(t, 1)
		before, changes := server.CommandStats(t), 0
		for start := time.Now(); time.Since(start) < 3*time.Second; changes++ {
			server.Do(t, "PEXPIRE", "job", "120000")
			time.Sleep(time.Millisecond)
		}
		after := server.CommandStats(t)
		reads, scripts := after["client|caching"]-before["client|caching"], after["evalsha"]-before["evalsha"]
		t.Logf("%d changes, %d reads, %d scripts", changes, reads, scripts)
		require.LessOrEqual(t, reads, int64(20))
		require.LessOrEqual(t, scripts, int64(20))
		server.Do(t, "DEL", "job")
		env.AwaitEnd(t, lock, rlock.ErrLost)
	})
}

// Where the server forgets what it tracks all the time, held locks are read no more than
// now and then, and their loss is noticed within about a second.
func TestServerForgetsWhoHolds(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		const locks = 300
		server := e.Start(t)
		server.Do(t, "CONFIG", "SET", "tracking-table-max-keys", "10")
		require.NoError(t, gen.New().Load(t.Context(), server.Client(t)))
		locker := env.OpenLocker(t, server.Option(), rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
		held := make([]*rlock.Lock, locks)
		for i := range held {
			var err error
			held[i], err = locker.Acquire(t.Context(), fmt.Sprint("job:", i))
			require.NoError(t, err)
		}
		time.Sleep(3 * time.Second)
		before := looks(t, server)
		time.Sleep(3 * time.Second)
		reads := looks(t, server) - before
		t.Logf("%d reads in 3 s", reads)
		require.LessOrEqual(t, reads, int64(100))
		require.Len(t, locker.Locks(), locks)
		server.Do(t, "DEL", "job:7")
		env.AwaitEnd(t, held[7], rlock.ErrLost)
	})
}
