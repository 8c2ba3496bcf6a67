package shared

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// The rights that PRODUCTION.md names for shared locks are enough, and without those for the holders the
// error says what is missing, while the whole lock can be had.
func TestRightsForShares(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/PRODUCTION.md")
	require.NoError(t, err)
	rule := regexp.MustCompile("(?s)ACL SETUSER (app .*?)\n```").FindSubmatch(page)
	more := regexp.MustCompile("`AcquirePermits`\\) add `([^`]*)`").FindSubmatch(page)
	require.NotNil(t, rule)
	require.NotNil(t, more)
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		server.Do(t, append([]string{"ACL", "SETUSER"}, strings.Fields(string(rule[1]))...)...)
		option := server.Option()
		option.Username, option.Password = "app", "secret"
		ctx := t.Context()
		l := env.OpenLocker(t, option, rlock.WithPrefix("app:"))
		_, err := l.AcquireShared(ctx, "k")
		require.Error(t, err)
		require.Regexp(t, env.NoPermission, err.Error())
		require.NoError(t, env.MustLock(t)(l.Acquire(ctx, "k")).Release(ctx))

		server.Do(t, append([]string{"ACL", "SETUSER", "app"}, strings.Fields(string(more[1]))...)...)
		a := env.MustLock(t)(l.AcquirePermits(ctx, "k", 1, 2))
		b := env.MustLock(t)(l.AcquirePermits(ctx, "k", 1, 2))
		next := make(chan *rlock.Lock, 1)
		go func() { lock, _ := l.AcquirePermits(ctx, "k", 1, 2); next <- lock }()
		queued(t, server.Client(t), "app:k", 1)
		require.NoError(t, a.Extend(ctx, rlock.DefaultTTL))
		require.NoError(t, a.Release(ctx))
		require.NoError(t, env.Receive(t, next).Release(ctx))
		require.Equal(t, 1, env.Inspect(t, l, "app:k").Permits)
		require.NoError(t, b.Release(ctx))
		require.NoError(t, env.MustLock(t)(l.Acquire(ctx, "k")).Release(ctx))
	})
}

// untold returns the option of a client whose user may not ask who listens, so that nobody is told of a
// grant.
func untold(t *testing.T, server *env.Server) rueidis.ClientOption {
	t.Helper()
	server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-pubsub|shardnumsub")
	option := server.Option()
	option.Username, option.Password = "app", "secret"
	return option
}

// Where nobody can be told, a waiter takes the share that is free itself, past those of whom nobody knows
// whether they are alive. One who wants the whole lock, or more permits than are free, stops it as always.
func TestScriptNobodyCanBeTold(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		option := untold(t, server)
		client := server.Client(t, func(o *rueidis.ClientOption) { *o = option })
		r := raw{t, client, gen.New(), "p"}
		one := func(name string) string { return share(2, 1, name) }
		r.takes(one("a"), minute)
		r.takes(one("b"), minute)
		r.joins(one("dead"))
		r.joins(one("c"))
		require.False(t, r.beats(one("c")), "no permit is free")
		require.True(t, r.release(one("a")))
		require.True(t, r.beats(one("c")))
		require.Len(t, r.inspect().Members, 2)
		require.False(t, r.beats(one("dead")))
		require.True(t, r.release(one("b")))
		require.True(t, r.beats(one("dead")), "it was not dead, and is the first")
		require.Len(t, r.inspect().Members, 2)
		r.joins(one("d"))
		require.True(t, r.release(one("c")))
		require.True(t, r.ask(gen.WaitHowTry, one("e"), minute).Granted)
		for _, name := range []string{"d", "e", "dead"} {
			r.release(one(name))
		}
		r.nothingLeft()

		for i := range 3 {
			r.takes(share(4, 1, fmt.Sprint(i)), minute)
		}
		r.joins(share(4, 2, "two"))
		r.joins(share(4, 1, "one"))
		require.False(t, r.beats(share(4, 1, "one")))
		r.refused(share(4, 1, "new"))
		r.do("FLUSHALL")

		r.takes(reader("a"), minute)
		require.NotZero(t, r.write(gen.WaitHowJoin, "w").Score)
		r.joins(reader("b"))
		require.False(t, r.beats(reader("b")))
		r.refused(reader("c"))
		require.False(t, r.release("w"))
		require.True(t, r.beats(reader("b")))
	})
}

// Those who wait for permits get what is given up by their heartbeats, while others keep theirs.
func TestPermitsWhereNobodyCanBeTold(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		option := untold(t, server)
		open := func() *rlock.Locker { return env.OpenLocker(t, option, rlock.WithTTL(time.Hour)) }
		l := open()
		a := env.MustLock(t)(l.AcquirePermits(t.Context(), "k", 1, 2, rlock.WithUniqueToken(true)))
		b := env.MustLock(t)(l.AcquirePermits(t.Context(), "k", 1, 2, rlock.WithUniqueToken(true)))
		got := make(chan acquired, 2)
		for n := range int64(cap(got)) {
			waiting := open()
			go func() { lock, err := waiting.AcquirePermits(t.Context(), "k", 1, 2); got <- acquired{lock, err} }()
			queued(t, server.Client(t), "k", n+1)
		}
		for _, lock := range []*rlock.Lock{a, b} {
			require.NoError(t, lock.Release(t.Context()))
			next := comes(t, got)
			require.NoError(t, next.err)
			require.NoError(t, next.lock.Verify(t.Context()))
		}
	})
}
