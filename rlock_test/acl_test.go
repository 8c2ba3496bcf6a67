package rlock_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// The rule that the README gives is enough, and every command in it is needed.
func TestReadmeRuleIsEnoughAndMinimal(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	require.NoError(t, err)
	rule := regexp.MustCompile("(?s)ACL SETUSER app (.*?)```").FindSubmatch(readme)
	require.NotNil(t, rule)
	words := strings.Fields(string(rule[1]))

	bed.Each(t, func(t *testing.T, e bed.Engine) {
		server := e.Start(t)
		require.NoError(t, everything(t, server, words))
		for i, word := range words {
			if !strings.HasPrefix(word, "+") || word == "+ping" || word == "+client|caching" {
				continue // without ping a dead connection, without caching a stale answer is noticed late
			}
			fewer := append(append([]string{}, words[:i]...), words[i+1:]...)
			require.Error(t, everything(t, server, fewer), "%s is not needed", word)
		}
	})
}

// everything does whatever a Locker can do, as a user with these rules.
func everything(t *testing.T, server *bed.Server, rules []string) error {
	t.Helper()
	server.Do(t, "FLUSHALL")
	server.Do(t, "SCRIPT", "FLUSH")
	server.Do(t, append([]string{"ACL", "SETUSER", "app", "reset"}, rules...)...)
	option := server.Option()
	option.Username, option.Password = "app", "secret"
	client, err := rueidis.NewClient(option)
	if err != nil {
		return err
	}
	defer client.Close()
	locker, err := rlock.New(client, rlock.WithPrefix("app:"))
	if err != nil {
		return err
	}
	defer locker.Close()
	ctx := t.Context()
	// What a Locker does by itself, so that no call of it would tell the error.
	if _, err := gen.New().Renew(ctx, client, gen.RenewParams{Locks: []string{"app:job"}, Tokens: []string{"mine"}, TTL: time.Second}); err != nil {
		return err
	}
	if _, err := locker.Check(ctx, "job"); err != nil {
		return err
	}
	if _, err := locker.Inspect(ctx, "job"); err != nil {
		return err
	}
	for range 2 { // by the text, then by the SHA1
		err := locker.DoAll(ctx, []string{"a", "b"}, func(context.Context, *rlock.Lock) error {
			lock, err := locker.Acquire(ctx, "job", rlock.WithTTL(time.Minute))
			if err != nil {
				return err
			}
			if _, err := lock.Check(ctx); err != nil {
				return err
			}
			if err := lock.Extend(ctx, time.Minute); err != nil {
				return err
			}
			if err := lock.Extend(ctx, rlock.NoExpiry); err != nil {
				return err
			}
			return lock.Release(ctx)
		})
		if err != nil {
			return err
		}
	}
	// A hand-over that is refused is made up for by a release.
	passes(t, locker, "job", 10)
	if locker.Stats().HandedOver == 0 {
		return errors.New("nothing was handed over")
	}
	return nil
}

// A user who may not use the fence counters can still lock without fences.
func TestNoCountersWithoutFence(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		server := e.Start(t)
		server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~app:*", "+@all")
		locker := newLocker(t, server.Client(t, func(o *rueidis.ClientOption) {
			o.Username, o.Password = "app", "secret"
		}), rlock.WithPrefix("app:"))
		_, err := locker.Acquire(t.Context(), "job")
		require.ErrorContains(t, err, "NOPERM")
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithFence(false))
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
	})
}
