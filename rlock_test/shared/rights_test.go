package shared

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
	"github.com/stretchr/testify/require"
)

// The rights that PRODUCTION.md names for shared locks are enough, and without those for the holders the
// error says what is missing, while the whole lock can be had.
func TestRightsForShares(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../PRODUCTION.md")
	require.NoError(t, err)
	rule := regexp.MustCompile("(?s)ACL SETUSER (app .*?)\n```").FindSubmatch(page)
	more := regexp.MustCompile("`AcquirePermit`\\) add `([^`]*)`").FindSubmatch(page)
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
		a := env.MustLock(t)(l.AcquirePermit(ctx, "k", 2))
		b := env.MustLock(t)(l.AcquirePermit(ctx, "k", 2))
		next := make(chan *rlock.Lock, 1)
		go func() { lock, _ := l.AcquirePermit(ctx, "k", 2); next <- lock }()
		queued(t, server.Client(t), "app:k", 1)
		require.NoError(t, a.Extend(ctx, rlock.DefaultTTL))
		require.NoError(t, a.Release(ctx))
		require.NoError(t, (<-next).Release(ctx))
		_, err = l.ChangeLimit(ctx, "k", 3)
		require.NoError(t, err)
		_, err = l.Inspect(ctx, "k")
		require.NoError(t, err)
		require.NoError(t, b.Release(ctx))
		share, err := env.MustLock(t)(l.Acquire(ctx, "k")).Downgrade(ctx)
		require.NoError(t, err)
		require.NoError(t, share.Release(ctx))
	})
}
