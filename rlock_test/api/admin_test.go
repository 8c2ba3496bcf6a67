package api

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlockadmin"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// List yields what is held of the keys that match, in their order, with who waits, and stops when its caller
// does or the server answers no more.
func TestList(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		l, other := env.NewLocker(t, client, rlock.WithOwner("web-3")), env.NewLocker(t, client)
		admin := env.Admin(l)
		list := func(pattern string) (keys []string) {
			t.Helper()
			for state, err := range admin.List(t.Context(), pattern) {
				require.NoError(t, err)
				require.NotEmpty(t, state.Holders)
				keys = append(keys, state.Key+" "+state.Mode.String()+" "+state.Holders[0].Owner)
			}
			return keys
		}
		require.Empty(t, list("*"))
		held := env.MustLock(t)(l.Acquire(t.Context(), "b"))
		env.MustLock(t)(l.AcquireShared(t.Context(), "c"))
		env.MustLock(t)(l.AcquirePermits(t.Context(), "a", 1, 2))
		env.MustLock(t)(l.Acquire(t.Context(), "d", rlock.WithToken("mine")))
		for _, command := range []string{"SET foreign x", "SET s rlock:readers", "LPUSH list x"} {
			require.NoError(t, env.Do(t, client, strings.Fields(command)...).Error())
		}
		require.Equal(t, []string{"a permits web-3", "b exclusive web-3", "c readers web-3"}, list("*"))
		require.Equal(t, []string{"b exclusive web-3"}, list("[bd]"))

		ctx, cancel := context.WithCancel(t.Context())
		waits := make(chan error, 1)
		go func() { waits <- env.ErrorOf(other.Acquire(ctx, "b", rlock.WithOwner("web-4"))) }()
		env.Soon(t, func() bool { return len(env.Inspect(t, l, "b").Waiters) == 1 }, "it waits")
		for state, err := range admin.List(t.Context(), "b") {
			require.NoError(t, err)
			require.Equal(t, "web-4", state.Waiters[0].Owner)
			require.Equal(t, rlockadmin.Exclusive, state.Waiters[0].Mode)
		}
		cancel()
		require.ErrorIs(t, env.Receive(t, waits), rlock.ErrGaveUp)

		for range admin.List(t.Context(), "*") {
			break
		}
		n := 0
		for _, err := range admin.List(ctx, "*") {
			require.ErrorIs(t, err, context.Canceled)
			n++
		}
		require.Equal(t, 1, n)
		require.NoError(t, held.Release(t.Context()))

		env.TakeEach(t, l, env.Keys(200))
		walk, stop := context.WithCancel(t.Context())
		defer stop()
		n = 0
		for _, err := range admin.List(walk, "*") {
			stop() // in the midst of it
			if err != nil {
				require.ErrorIs(t, err, context.Canceled)
				n++
			}
		}
		require.Equal(t, 1, n)
	})
}

// A key that is shared and has no holder left is freed by its value. Keys of rlock's own are no locks,
// whatever they have.
func TestSharedKeyWithoutHolders(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		l := env.NewLocker(t, client)
		for _, key := range []string{"rlock:fence:{0}", "rlock:queue:{k}:k"} {
			require.NoError(t, env.Do(t, client, "SET", key, "2cc1d4a2-2b0c-4b0b-9a7a-0a0a0a0a0a0a").Error())
		}
		for value, mode := range map[string]rlockadmin.Mode{
			"rlock:permits 7": rlockadmin.Permits, "rlock:readers 7": rlockadmin.Readers,
		} {
			require.NoError(t, env.Do(t, client, "SET", "k", value).Error())
			listed := 0
			for state, err := range env.Admin(l).List(t.Context(), "*") {
				require.NoError(t, err)
				require.Equal(t, "k", state.Key)
				require.Equal(t, mode, state.Mode)
				require.Empty(t, state.Holders)
				require.Equal(t, rlock.NoExpiry, state.Remaining)
				require.Equal(t, value, state.Token())
				require.NoError(t, env.Admin(l).ForceRelease(t.Context(), "k", state.Token()))
				listed++
			}
			require.Equal(t, 1, listed)
			require.NoError(t, env.MustLock(t)(l.TryAcquire(t.Context(), "k")).Release(t.Context()))
		}
	})
}

// A user without the rights to the queue learns who holds a lock.
func TestAdminWithFewRights(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	l := env.OpenOn(t, server, rlock.WithOwner("web-3"))
	env.MustLock(t)(l.Acquire(t.Context(), "app:k"))
	env.MustLock(t)(l.AcquireShared(t.Context(), "app:shared"))
	server.Do(t, "ACL", "SETUSER", "u", "reset", "on", ">secret", "resetkeys", "~app:*", "&*", "+@all")
	option := server.Option()
	option.Username, option.Password = "u", "secret"
	few := env.OpenLocker(t, option, rlock.WithQueue(false))
	require.Equal(t, "web-3", env.HolderOf(t, few, "app:k").Owner)
	shared := env.Inspect(t, few, "app:shared")
	require.Equal(t, rlockadmin.Readers, shared.Mode)
	require.Empty(t, shared.Holders, "the user may not read who they are")
	require.ErrorContains(t, env.ErrorOf(env.Admin(few).Inspect(t.Context(), "other")), "NOPERM")

	var keys []string
	for state, err := range env.Admin(few).List(t.Context(), "app:*") {
		require.NoError(t, err)
		keys = append(keys, state.Key)
	}
	require.Equal(t, []string{"app:k", "app:shared"}, keys)
}

// Who has a token gives its holder a new lease, be it of a lock or of a share, and never a shorter one.
func TestAdminExtends(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		l := env.NewLocker(t, client, rlock.WithTTL(time.Minute))
		admin := env.Admin(l)
		for key, lock := range map[string]*rlock.Lock{
			"whole":   env.MustLock(t)(l.Acquire(t.Context(), "whole")),
			"readers": env.MustLock(t)(l.AcquireShared(t.Context(), "readers")),
			"permits": env.MustLock(t)(l.AcquirePermits(t.Context(), "permits", 2, 3)),
		} {
			between := func(least, most time.Duration) {
				t.Helper()
				left := env.Inspect(t, l, key).Remaining
				require.Greater(t, left, least, key)
				require.LessOrEqual(t, left, most, key)
			}
			require.NoError(t, admin.Extend(t.Context(), key, lock.Token(), time.Hour), key)
			between(30*time.Minute, time.Hour)
			require.NoError(t, admin.Extend(t.Context(), key, lock.Token(), time.Second), key)
			between(30*time.Minute, time.Hour)
			require.NoError(t, lock.Extend(t.Context(), 2*time.Hour), "it is still the holder's")
			between(time.Hour, 2*time.Hour)
			for _, token := range []string{"another", env.MustLock(t)(l.Acquire(t.Context(), "other "+key)).Token()} {
				require.ErrorIs(t, admin.Extend(t.Context(), key, token, 3*time.Hour), rlock.ErrLost, key)
			}
			between(time.Hour, 2*time.Hour)
			require.NoError(t, admin.Extend(t.Context(), key, lock.Token(), rlock.NoExpiry), key)
			between(2*time.Hour, rlock.NoExpiry)
			require.Equal(t, rlock.NoExpiry, env.Inspect(t, l, key).Remaining)
			require.NoError(t, lock.Release(t.Context()))
			err := admin.Extend(t.Context(), key, lock.Token(), time.Hour)
			require.ErrorIs(t, err, rlock.ErrLost, "it is not taken again")
			require.Equal(t, rlockadmin.Free, env.Inspect(t, l, key).Mode)
		}
	})
}

// An answer that is lost costs nothing: Extend asks again.
func TestAdminExtendsAgain(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, l, _ := env.NewFaulty(t, e)
		lock := env.MustLock(t)(l.Acquire(t.Context(), "k", rlock.WithTTL(time.Minute)))
		lost := 0
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			reply := run()
			if env.IsExtend(words) && lost == 0 {
				lost++
				return env.NoReply()
			}
			return reply
		})
		require.NoError(t, env.Admin(l).Extend(t.Context(), "k", lock.Token(), time.Hour))
		require.Equal(t, 1, lost)
		require.Greater(t, env.HolderOf(t, l, "k").Remaining, 30*time.Minute)
	})
}

// What cannot be right is refused before anything is sent.
func TestAdminRefuses(t *testing.T) {
	t.Parallel()
	_, err := rlockadmin.New(nil)
	require.ErrorIs(t, err, rlock.ErrInvalid)
	f, l, _ := env.NewFaulty(t, env.Engines(t)[0])
	f.When(func(words []string, _ func() rueidis.RedisResult) rueidis.RedisResult {
		t.Error("it has sent", words)
		return env.NoReply()
	})
	var none context.Context
	var nothing *rlockadmin.Admin
	ended, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ended.Done()
	list := func(ctx context.Context, a *rlockadmin.Admin, pattern string) (failed error) {
		for _, err := range a.List(ctx, pattern) {
			failed = err
		}
		return failed
	}
	a := env.Admin(l)
	for name, err := range map[string]error{
		"no context":        env.ErrorOf(a.Inspect(none, "k")),
		"no key":            env.ErrorOf(a.Inspect(t.Context(), "")),
		"a key of rlock":    env.ErrorOf(a.Inspect(t.Context(), "rlock:queue:{k}:k")),
		"nil":               env.ErrorOf(nothing.Inspect(t.Context(), "k")),
		"zero":              env.ErrorOf(new(rlockadmin.Admin).Inspect(t.Context(), "k")),
		"force, no token":   a.ForceRelease(t.Context(), "k", ""),
		"force, no key":     a.ForceRelease(t.Context(), "", "t"),
		"force, no context": a.ForceRelease(none, "k", "t"),
		"extend, no token":  a.Extend(t.Context(), "k", "", time.Second),
		"extend, no key":    a.Extend(t.Context(), "", "t", time.Second),
		"extend, no lease":  a.Extend(t.Context(), "k", "t", 0),
		"extend, zero":      new(rlockadmin.Admin).Extend(t.Context(), "k", "t", time.Second),
		"list, no pattern":  list(t.Context(), a, ""),
		"list, no context":  list(none, a, "*"),
		"list, nil":         list(t.Context(), nothing, "*"),
	} {
		require.ErrorIs(t, err, rlock.ErrInvalid, name)
	}
	for name, err := range map[string]error{
		"inspect": env.ErrorOf(a.Inspect(ended, "k")),
		"force":   a.ForceRelease(ended, "k", "t"),
		"extend":  a.Extend(ended, "k", "t", time.Second),
		"list":    list(ended, a, "*"),
	} {
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
	}
}
