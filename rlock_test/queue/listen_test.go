package queue

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// far returns a Locker whose commands take a while to arrive.
func far(t *testing.T, server *env.Server, delay time.Duration, opts ...rlock.LockerOption) *rlock.Locker {
	t.Helper()
	proxy := env.NewProxy(t, server.Addr())
	proxy.Delay(delay)
	option := server.Option()
	option.InitAddress = []string{proxy.Addr()}
	return env.OpenLocker(t, option, opts...)
}

// deaf returns a Locker whose client has no connection left on which to hear of grants.
func deaf(t *testing.T, server *env.Server) *rlock.Locker {
	t.Helper()
	option := server.Option()
	option.BlockingPoolSize = 1
	l := env.OpenLocker(t, option)
	_, release := l.Client().Dedicate()
	t.Cleanup(release)
	return l
}

// silent reports whether a waiter in the queue of a key would not be told of its grant.
func silent(t *testing.T, client rueidis.Client, key string) bool {
	t.Helper()
	for _, member := range queued(t, client, key) {
		if strings.Contains(member, "::") {
			return true
		}
	}
	return false
}

// passAround has processes pass a lock to each other, so that its key is never free, until stop.
func passAround(t *testing.T, key string, others ...*rlock.Locker) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var turns atomic.Int64
	done := make(chan struct{}, len(others))
	for _, l := range others {
		go func() {
			defer func() { done <- struct{}{} }()
			for ctx.Err() == nil {
				if lock, err := l.Acquire(ctx, key, rlock.WithTTL(10*time.Minute)); err == nil {
					time.Sleep(5 * time.Millisecond)
					_ = lock.Release(context.Background())
					turns.Add(1)
				}
			}
		}()
	}
	env.Soon(t, func() bool { return turns.Load() > 20 }, "they take turns")
	return func() {
		cancel()
		for range others {
			env.Receive(t, done)
		}
	}
}

// gets requires that a caller gets a lock that others pass around.
func gets(t *testing.T, l *rlock.Locker, key string, opts ...rlock.Option) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	lock, err := l.Acquire(ctx, key, opts...)
	require.NoError(t, err)
	require.NoError(t, lock.Release(t.Context()))
}

// A waiter whose process subscribes slowly takes its place before, and is told of its grant as soon as the
// process listens, however far away the server is.
func TestPlaceIsToldWhenTheProcessListens(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k", rlock.WithTTL(time.Minute)))
	got := waits(t, client, far(t, server, 100*time.Millisecond), "k")
	env.Soon(t, func() bool { return len(queued(t, client, "k")) == 1 && !silent(t, client, "k") }, "it is told")
	require.Len(t, channels(t, client), 1)
	passesOn(t, client, "k", held, got)
}

// At the end of a turn, the next caller of the process has a place before those who come later, although
// the process does not listen yet.
func TestEndOfATurnBeforeTheSubscription(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	a, b, c := far(t, server, 10*time.Millisecond, rlock.WithTurn(0)), env.OpenOn(t, server),
		env.OpenOn(t, server)
	held := env.MustLock(t)(a.Acquire(t.Context(), "k"))
	ofA := env.NextInLine(t, a, "k")
	ofB := waits(t, client, b, "k")
	require.NoError(t, held.Release(t.Context()))
	held = env.Taken(t, ofB)
	ofC := waits(t, client, c, "k")
	require.NoError(t, held.Release(t.Context()))
	passesOn(t, client, "k", env.Taken(t, ofA), ofC)
}

// A subscription that was refused while callers wait is there again soon after the right is.
func TestSubscriptionComesBack(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	server.Do(t, "ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", "&*", "+@all")
	option := server.Option()
	option.Username, option.Password = "u", "secret"
	held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k", rlock.WithTTL(time.Minute)))
	got := waits(t, client, env.OpenLocker(t, option), "k")
	refused := server.ErrorCount(t, "NOPERM")
	server.Do(t, "ACL", "SETUSER", "u", "-ssubscribe")
	server.Do(t, "CLIENT", "KILL", "TYPE", "pubsub")
	env.Soon(t, func() bool { return server.ErrorCount(t, "NOPERM") > refused }, "it is refused")
	server.Do(t, "ACL", "SETUSER", "u", "+ssubscribe")
	env.Soon(t, func() bool { return len(channels(t, client)) == 1 }, "it listens again")
	passesOn(t, client, "k", held, got)
}

// A user who may not use the queues does not subscribe: nobody would grant it anything.
func TestNoSubscriptionWithoutTheQueue(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	server.Do(t, "ACL", "SETUSER", "u", "reset", "on", ">secret", "resetkeys", "~k", "~rlock:fence:*", "&*",
		"+@all")
	option := server.Option()
	option.Username, option.Password = "u", "secret"
	l := env.OpenLocker(t, option, rlock.WithTurn(0))
	held := env.MustLock(t)(l.Acquire(t.Context(), "k"))
	for range 5 {
		next := env.NextInLine(t, l, "k")
		require.NoError(t, held.Release(t.Context()))
		held = env.Taken(t, next)
	}
	require.NoError(t, held.Release(t.Context()))
	require.Zero(t, server.CommandStats(t)["ssubscribe"])
}

// A waiter whose policy asks often has a place too before its process listens.
func TestPlaceOfAnImpatientWaiter(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k"))
	l := deaf(t, server)
	first := waits(t, client, l, "k", rlock.WithRetry(rlock.Fixed(100*time.Millisecond)))
	second := waits(t, client, env.OpenOn(t, server), "k")
	require.NoError(t, held.Release(t.Context()))
	passesOn(t, client, "k", env.Taken(t, first), second)
}

// A waiter that nobody can tell looks for its grant before the lease that it has asked for is over.
func TestShortLeaseOfASilentWaiter(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	server.Do(t, "ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", "&*", "+@all", "-ssubscribe")
	option := server.Option()
	option.Username, option.Password = "u", "secret"
	defer passAround(t, "k", env.OpenOn(t, server), env.OpenOn(t, server))()
	gets(t, env.OpenLocker(t, option), "k", rlock.WithTTL(1500*time.Millisecond))
}

// A waiter that nobody can tell has the lease that it has asked for as soon as it knows of its grant. If its
// process is dead, the others wait two seconds for it, however long that lease is.
func TestLeaseOfASilentWaiter(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	l := env.OpenOn(t, server)
	held := env.MustLock(t)(l.Acquire(t.Context(), "k", rlock.WithTTL(time.Hour)))
	got := waits(t, client, deaf(t, server), "k", rlock.WithTTL(time.Hour))
	require.NoError(t, held.Release(t.Context()))
	held = env.Taken(t, got)
	require.Greater(t, time.Until(held.Deadline()), time.Minute)
	require.Greater(t, env.TTL(t, client, "k"), time.Minute)

	got = waits(t, client, l, "k")
	stands(t, client, queueOf(t, client, "k"), "1", "3600000::dead")
	require.NoError(t, held.Release(t.Context()))
	require.Equal(t, "dead", env.Get(t, client, "k"))
	require.LessOrEqual(t, env.TTL(t, client, "k"), 2*time.Second)
	require.NoError(t, env.Taken(t, got).Release(t.Context()))
	idle(t, client, "k")
}

// A place that cannot be given up, because the user has lost a right, costs the others nothing but the time
// in which its process gives the lock back.
func TestPlaceThatCannotBeGivenUp(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	server.Do(t, "ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", "&*", "+@all")
	option := server.Option()
	option.Username, option.Password = "u", "secret"
	held := env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k", rlock.WithTTL(time.Hour)))
	l := env.OpenLocker(t, option)
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() { left <- env.ErrorOf(l.Acquire(ctx, "k", rlock.WithTTL(time.Hour))) }()
	env.Soon(t, func() bool { return len(queued(t, client, "k")) == 1 && !silent(t, client, "k") }, "it waits")
	refused := server.ErrorCount(t, "NOPERM")
	server.Do(t, "ACL", "SETUSER", "u", "resetkeys", "~k", "~rlock:fence:*")
	leave()
	require.ErrorIs(t, env.Receive(t, left), context.Canceled)
	env.Soon(t, func() bool { return server.ErrorCount(t, "NOPERM") > refused }, "it is refused")
	require.NoError(t, held.Release(t.Context()))
	require.NoError(t, env.MustLock(t)(env.OpenOn(t, server).Acquire(t.Context(), "k")).Release(t.Context()))
	idle(t, client, "k")
}

// A Locker that polls gets a lock that others pass around if they let it barge.
func TestPollingAmongThoseWhoQueue(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	barging := rlock.WithBarging(300 * time.Millisecond)
	open := func() *rlock.Locker { return env.OpenOn(t, server, barging) }
	defer passAround(t, "k", open(), open(), open())()
	gets(t, env.OpenOn(t, server, barging, rlock.WithQueue(false)), "k")
}

// A caller to whom the server refuses a place for a moment asks for one again, whatever its policy is. Its
// policy is not asked for that.
func TestPlaceAfterAMomentWithoutMemory(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	f := &env.Faulty{Client: server.Client(t)}
	l := env.NewLocker(t, f)
	defer passAround(t, "k", env.OpenOn(t, server), env.OpenOn(t, server), env.OpenOn(t, server))()
	oom := f.Refuse("OOM command not allowed when used memory > 'maxmemory'.")
	var refused, asked atomic.Int32
	f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		if env.Calls(words, gen.WaitSHA1) && slices.Contains(words, "join") && refused.Load() < 3 {
			refused.Add(1)
			return oom
		}
		return run()
	})
	gets(t, l, "k", rlock.WithRetry(rlock.RetryFunc(func(rlock.Attempt) (time.Duration, bool) {
		asked.Add(1)
		return time.Hour, true
	})))
	require.Equal(t, int32(3), refused.Load())
	require.LessOrEqual(t, asked.Load(), int32(2))
}

// arrives sends a call for a place, and has its answer say that there is one: the reaper may have taken it
// back by now.
func arrives(t *testing.T, client rueidis.Client, words []string) {
	t.Helper()
	answer, err := env.Do(t, client, words...).ToArray()
	require.NoError(t, err)
	score, err := answer[3].ToInt64()
	require.NoError(t, err)
	require.NotZero(t, score)
}

// A set waits for one key after the other, and the first call for a place in the queue of each got no answer.
// Copies of those calls, which arrive after the set was released, leave no place behind.
func TestLateCopiesOfTheCallsOfASet(t *testing.T) {
	t.Parallel()
	f, l, client := env.NewFaulty(t, env.Engines(t)[0])
	other := env.NewLocker(t, client)
	var held []*rlock.Lock
	keys := []string{"i", "j", "k"}
	for _, key := range keys {
		held = append(held, env.MustLock(t)(other.Acquire(t.Context(), key, rlock.WithTTL(time.Hour))))
	}
	var late sync.Map // the words of the first call for each key
	f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		if env.Calls(words, gen.WaitSHA1) && slices.Contains(words, "join") {
			if _, asked := late.LoadOrStore(words[3], words); !asked {
				return env.NoReply()
			}
		}
		return run()
	})
	got := acquiresAll(t, l, keys...)
	for i, key := range keys {
		env.Soon(t, func() bool { return len(queued(t, client, key)) == 1 }, "the set waits for "+key)
		require.NoError(t, held[i].Release(t.Context()))
	}
	require.NoError(t, env.Taken(t, got).Release(t.Context()))
	for i, key := range keys {
		held[i] = env.MustLock(t)(other.Acquire(t.Context(), key, rlock.WithTTL(time.Hour)))
		words, _ := late.Load(key)
		arrives(t, client, words.([]string))
	}
	for i, key := range keys {
		env.Soon(t, func() bool { return len(queued(t, client, key)) == 0 },
			"the late place for "+key+" is given up")
		require.NoError(t, held[i].Release(t.Context()))
		idle(t, client, key)
	}
}
