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
		"list, no pattern":  list(t.Context(), a, ""),
		"list, no context":  list(none, a, "*"),
		"list, nil":         list(t.Context(), nothing, "*"),
	} {
		require.ErrorIs(t, err, rlock.ErrInvalid, name)
	}
	for name, err := range map[string]error{
		"inspect": env.ErrorOf(a.Inspect(ended, "k")),
		"force":   a.ForceRelease(ended, "k", "t"),
		"list":    list(ended, a, "*"),
	} {
		require.ErrorIs(t, err, context.DeadlineExceeded, name)
	}
}
