package generator

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// rule returns the words of the rule that PRODUCTION.md gives for a user.
func rule(t *testing.T, user string) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "PRODUCTION.md"))
	require.NoError(t, err)
	rule := regexp.MustCompile("(?s)ACL SETUSER " + user + " (.*?)```").FindSubmatch(page)
	require.NotNil(t, rule)
	return strings.Fields(string(rule[1]))
}

// allow makes a user of a server with the words of a rule, and with no other right.
func allow(t *testing.T, server *env.Server, user string, words ...string) {
	t.Helper()
	server.Do(t, append([]string{"ACL", "SETUSER", user, "reset"}, words...)...)
}

// The rule that PRODUCTION.md gives is enough, and every word of it is needed. Without one,
// an error says that it is a right that is missing, or Probe does: of what goes wrong
// between MULTI and EXEC the client does not tell, and of a stale answer nobody.
func TestRuleIsEnoughAndMinimal(t *testing.T) {
	t.Parallel()
	words := rule(t, "app")
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		require.NoError(t, everything(t, server, words))
		for i, word := range words {
			if !strings.ContainsAny(word[:1], "+~&") || word == "+ping" {
				continue // without ping a dead connection is noticed late
			}
			failed := everything(t, server, slices.Delete(slices.Clone(words), i, i+1))
			if word != "+client|caching" {
				require.Error(t, failed, "%s is not needed", word)
			}
			if failed == nil || !env.NoPermission.MatchString(failed.Error()) {
				report, err := env.OpenLocker(t, asApp(server), rlock.WithPrefix("app:")).Probe(t.Context())
				require.NoError(t, err)
				require.Equal(t, rlock.ProbeFault, env.Worst(t, report)["cache"], "%s: %v: %s", word, failed, report)
			}
		}
	})
}

// So is the short rule, for shared locks, leaders and Probe too, on one server and on a cluster.
func TestShortRule(t *testing.T) {
	t.Parallel()
	words := rule(t, "shop")
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		require.NoError(t, everything(t, server, words))
		useAll(t, server.Client(t, asUser), []*env.Server{server})
		cluster := e.StartCluster(t)
		for _, node := range cluster.Nodes {
			allow(t, node, "app", words...)
		}
		useAll(t, cluster.Client(t, asUser), cluster.Nodes)
	})
}

// So are both behind Sentinel, where the client asks each server whether it is the primary, and where the
// sentinels have a rule of their own: before a failover and after it.
func TestRulesBehindSentinel(t *testing.T) {
	t.Parallel()
	shared := []string{"~rlock:holders:{*}:app:*", "+pexpireat", "+pexpiretime", "+role", "~rlock:probe:*",
		"~rlock:queue:{*}:rlock:probe:*", "~rlock:holders:{*}:rlock:probe:*", "+info"}
	watch := rule(t, "watch")
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		s := e.StartSentinel(t)
		for _, sentinel := range s.Sentinels {
			allow(t, sentinel, "watch", watch...)
			sentinel.Do(t, "ACL", "LOG", "RESET")
		}
		servers := []*env.Server{s.Primary, s.Replica}
		as := func(words []string) rueidis.Client {
			for _, server := range servers {
				allow(t, server, "app", words...)
			}
			return s.Client(t, asUser, func(o *rueidis.ClientOption) {
				o.Sentinel.Username,
					o.Sentinel.Password = "watch", "secret"
			})
		}
		useAll(t, as(rule(t, "shop")), servers)
		least := as(append(rule(t, "app"), shared...))
		useAll(t, least, servers)
		s.Failover(t)
		env.Soon(t, func() bool { return least.Do(t.Context(), least.B().Ping().Build()).Error() == nil },
			"the client finds the new primary")
		useAll(t, least, []*env.Server{s.Replica})
		for _, sentinel := range s.Sentinels {
			require.Empty(t, refused(t, sentinel))
		}
	})
}

// asUser has a client be the user app.
func asUser(o *rueidis.ClientOption) { o.Username, o.Password = "app", "secret" }

// useAll takes locks and shares of keys that begin with app:, and asks whether anything is amiss. The
// servers must refuse nothing, except that Probe asks for settings in two ways.
func useAll(t *testing.T, client rueidis.Client, servers []*env.Server) {
	t.Helper()
	ctx := t.Context()
	for _, server := range servers {
		server.Do(t, "ACL", "LOG", "RESET")
	}
	locker := env.NewLocker(t, client, rlock.WithPrefix("app:"))
	nothing := func(context.Context, *rlock.Lock) error { return nil }
	require.NoError(t, locker.Do(ctx, "job", nothing))
	require.NoError(t, locker.DoAll(ctx, []string{"{set}:a", "{set}:b"}, nothing))
	require.NoError(t, locker.DoShared(ctx, "data", nothing))
	require.NoError(t, locker.DoPermits(ctx, "slots", 1, 2, nothing))
	require.NoError(t, locker.Lead(ctx, "leader", nothing))
	held, err := locker.Acquire(ctx, "waited for")
	require.NoError(t, err)
	next := env.NextInLine(t, locker, "waited for")
	require.NoError(t, held.Release(ctx))
	require.NoError(t, env.Receive(t, next).Release(ctx))
	_, err = locker.Check(ctx, "job")
	require.NoError(t, err)
	for _, server := range servers {
		require.Empty(t, refused(t, server))
	}
	report, err := locker.Probe(ctx)
	require.NoError(t, err)
	require.NoError(t, report.Err())
	for _, finding := range report {
		require.NotContains(t, finding.Text, "right", finding.String())
	}
}

// asApp returns the options of a client that is the user app.
func asApp(server *env.Server) rueidis.ClientOption {
	option := server.Option()
	option.Username, option.Password = "app", "secret"
	return option
}

// everything does whatever a Locker can do, as a user with these rules.
func everything(t *testing.T, server *env.Server, rules []string) error {
	t.Helper()
	server.Do(t, "FLUSHALL")
	server.Do(t, "SCRIPT", "FLUSH")
	allow(t, server, "app", rules...)
	server.Do(t, "ACL", "LOG", "RESET")
	client, err := rueidis.NewClient(asApp(server))
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
	if _, err := gen.New().Extend(
		ctx, client, gen.ExtendParams{Keys: []string{"app:job"}, Tokens: []string{"mine"}, TTL: time.Second},
	); err != nil {
		return err
	}
	if _, err := locker.Check(ctx, "job"); err != nil {
		return err
	}
	if _, err := env.Admin(locker).Inspect(ctx, "app:job"); err != nil {
		return err
	}
	for range 2 { // by the text, then by the SHA1
		err := locker.DoAll(ctx, []string{"a", "b"}, func(context.Context, *rlock.Lock) error {
			lock, err := locker.Acquire(ctx, "job", rlock.WithTTL(time.Minute))
			if err != nil {
				return err
			}
			if err := lock.Verify(ctx); err != nil {
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
	env.PassOn(t, locker, "job", 10)
	if err := passBetween(t, server, locker); err != nil {
		return err
	}
	if locker.Stats().HandedOver == 0 {
		return errors.New("nothing was handed over")
	}
	return nil
}

// passBetween has two processes pass a lock on. A Locker makes up for a refusal by working without
// the queue, so it is an error here.
func passBetween(t *testing.T, server *env.Server, locker *rlock.Locker) error {
	t.Helper()
	ctx := t.Context()
	rival := env.OpenLocker(t, asApp(server), rlock.WithPrefix("app:"))
	held, err := locker.Acquire(ctx, "job")
	if err != nil {
		return err
	}
	released := make(chan error, 1)
	go func() {
		lock, err := rival.Acquire(ctx, "job", rlock.WithTTL(2*time.Second))
		if err == nil {
			err = lock.Release(ctx)
		}
		released <- err
	}()
	// The rival tries, joins, and sends a heartbeat, unless it is refused. A command is counted when it
	// is sent, so only a second heartbeat shows that the server has seen the first.
	env.Soon(t, func() bool { return rival.Stats().Attempts >= 4 || forbidden(t, server) != "" }, "it waits")
	if err := errors.Join(held.Release(ctx), env.Receive(t, released)); err != nil {
		return err
	}
	rival.Close()
	if object := forbidden(t, server); object != "" {
		return errors.New("NOPERM: " + object)
	}
	return nil
}

// forbidden returns something that the server has refused somebody, but for what Probe finds.
func forbidden(t *testing.T, server *env.Server) string {
	t.Helper()
	for _, object := range refused(t, server) {
		if object != "client|caching" {
			return object
		}
	}
	return ""
}

// refused returns what the server has refused somebody, but for what a client tries when it
// connects: to give its name, and whether this is a cluster.
func refused(t *testing.T, server *env.Server) (objects []string) {
	t.Helper()
	reply := server.Do(t, "ACL", "LOG")
	refusals, err := reply.ToArray()
	require.NoError(t, err)
	for _, refusal := range refusals {
		facts, err := refusal.AsStrMap()
		require.NoError(t, err)
		if object := facts["object"]; !slices.Contains(
			[]string{"client|setinfo", "cluster|slots", "cluster|shards"}, object) {
			objects = append(objects, object)
		}
	}
	return objects
}

// A user who may not use the fence counters can still lock without fences.
func TestNoCountersWithoutFence(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~app:*", "+@all")
		locker := env.NewLocker(t, server.Client(t, func(o *rueidis.ClientOption) {
			o.Username, o.Password = "app", "secret"
		}), rlock.WithPrefix("app:"))
		_, err := locker.Acquire(t.Context(), "job")
		require.ErrorContains(t, err, "NOPERM")
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithFence(false))
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
	})
}

// With the rule of PRODUCTION.md the server refuses
// nothing that locks do by themselves or when they are asked to.
func TestRuleRefusesNothing(t *testing.T) {
	t.Parallel()
	words := rule(t, "app")
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		server.Do(t, append([]string{"ACL", "SETUSER", "app", "reset"}, words...)...)
		ctx := t.Context()
		prefix := rlock.WithPrefix("app:")
		locker, rival := env.OpenLocker(t, asApp(server), prefix), env.OpenLocker(t, asApp(server), prefix)

		for name, opts := range map[string][]rlock.Option{
			"fixed":    nil,
			"extended": {rlock.WithAutoExtend(true)},
			"for ever": {rlock.WithTTL(rlock.NoExpiry)},
			"unfenced": {rlock.WithFence(false)},
		} {
			env.PassOn(t, locker, name, 10, opts...)
			held, err := rival.Acquire(ctx, name, append(opts, rlock.WithOwner("web-3"))...)
			require.NoError(t, err)
			got := make(chan error, 1)
			go func() {
				lock, err := locker.Acquire(ctx, name, opts...)
				if err == nil {
					err = lock.Release(ctx)
				}
				got <- err
			}()
			env.AwaitWaiting(t, locker, 1)
			state := env.HolderOf(t, locker, "app:"+name)
			require.Equal(t, "web-3", state.Owner)
			require.NoError(t, held.Release(ctx))
			require.NoError(t, env.Receive(t, got))
		}
		require.Positive(t, locker.Stats().HandedOver)

		keys := []string{"a", "b", "c"}
		set, err := locker.AcquireAll(ctx, keys, rlock.WithTTL(time.Second), rlock.WithAutoExtend(true),
			rlock.WithOwner("web-3"))
		require.NoError(t, err)
		one, err := locker.Acquire(ctx, "one", rlock.WithTTL(time.Second), rlock.WithAutoExtend(true),
			rlock.WithOwner("web-3"))
		require.NoError(t, err)
		before := locker.Stats().Extended
		env.Soon(t, func() bool { return locker.Stats().Extended >= before+4 }, "they are extended")
		err = set.Verify(ctx)
		require.NoError(t, err)
		// One key more may be: a waiter of before may have looked at its key after that was released.
		env.Soon(t, func() bool { return server.TrackedKeys(t) >= 4 }, "the keys are tracked")
		server.Do(t, "DEL", "app:one")
		env.AwaitEnd(t, one, rlock.ErrLost)
		set, err = rival.Attach(ctx, env.Detach(t, set))
		require.NoError(t, err)
		require.NoError(t, env.Admin(rival).ForceRelease(ctx, "app:b", set.Token()))
		require.ErrorIs(t, set.Release(ctx), rlock.ErrLost)

		results, err := locker.TryAcquireEach(ctx, keys)
		require.NoError(t, err)
		var locks []*rlock.Lock
		for _, r := range results {
			require.NoError(t, r.Err)
			locks = append(locks, r.Lock)
		}
		require.NoError(t, errors.Join(locker.ExtendEach(ctx, locks, time.Minute)...))
		env.AwaitCached(t, locker, "a")
		require.NoError(t, errors.Join(locker.ReleaseEach(ctx, locks)...))
		require.NoError(t, locker.WaitFree(ctx, "a"))

		require.Zero(t, locker.Stats().ExtendFailed)
		require.Empty(t, refused(t, server))
		report, err := locker.Probe(ctx)
		require.NoError(t, err)
		require.NoError(t, report.Err())
	})
}

// A key that the user has no rights on is refused at once, whatever is asked of it, in
// words that say so. Others are not touched by that, in a set either.
func TestForeignKeysAreRefused(t *testing.T) {
	t.Parallel()
	words := rule(t, "app")
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		server.Do(t, append([]string{"ACL", "SETUSER", "app", "reset"}, words...)...)
		locker := env.OpenLocker(t, asApp(server))
		server.Do(t, "SET", "secret", "theirs")
		for name, call := range map[string]func(ctx context.Context) error{
			"acquire": func(ctx context.Context) error { return env.ErrorOf(locker.Acquire(ctx, "secret")) },
			"try":     func(ctx context.Context) error { return env.ErrorOf(locker.TryAcquire(ctx, "secret")) },
			"set": func(ctx context.Context) error {
				return env.ErrorOf(locker.AcquireAll(ctx, []string{"app:a", "secret"}))
			},
			"check": func(ctx context.Context) error { return env.ErrorOf(locker.Check(ctx, "secret")) },
			"inspect": func(ctx context.Context) error {
				return env.ErrorOf(
					env.Admin(locker).Inspect(ctx, "secret"))
			},
			"wait": func(ctx context.Context) error { return locker.WaitFree(ctx, "secret") },
			"attach": func(ctx context.Context) error {
				return env.ErrorOf(locker.Attach(ctx, env.NewHandoff(t, "theirs", 1, "secret")))
			},
			"force release": func(ctx context.Context) error {
				return env.Admin(locker).ForceRelease(ctx, "secret",
					"theirs")
			},
		} {
			env.Surfaces(t, "NOPERM", call)
			reply := server.Do(t, "KEYS", "*")
			keys, err := reply.AsStrSlice()
			require.NoError(t, err)
			require.Equal(t, []string{"secret"}, keys, name)
		}
		results, err := locker.TryAcquireEach(t.Context(), []string{"app:a", "secret", "app:b"})
		require.NoError(t, err)
		require.NoError(t, results[0].Err)
		require.ErrorContains(t, results[1].Err, "NOPERM")
		require.NoError(t, results[2].Err)

		// A right that is missing inside a script is told in other words, which differ.
		server.Do(t, "ACL", "SETUSER", "app", "-get", "-mget", "-set")
		for _, call := range []func(ctx context.Context) error{
			func(ctx context.Context) error { return env.ErrorOf(locker.Acquire(ctx, "app:c")) },
			func(ctx context.Context) error { return results[0].Lock.Extend(ctx, time.Minute) },
			func(ctx context.Context) error { return results[0].Lock.Release(ctx) },
		} {
			env.Surfaces(t, "", func(ctx context.Context) error {
				err := call(ctx)
				require.Regexp(t, env.NoPermission, err.Error())
				return err
			})
		}
	})
}
