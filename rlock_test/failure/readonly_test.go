package failure

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// swap makes the replica of a pair the primary, and the primary its replica, without
// losing anything.
func swap(t *testing.T, pair *env.Pair) {
	t.Helper()
	host, port, err := net.SplitHostPort(pair.Replica.Addr())
	require.NoError(t, err)
	// A replica that is in sync has still to tell its primary so.
	env.Soon(t, func() bool {
		reply := pair.Primary.Do(t, "INFO", "replication")
		text, err := reply.ToString()
		return err == nil && strings.Contains(text, "state=online")
	}, "the replica is online")
	pair.Primary.Do(t, "FAILOVER", "TO", host, port)
	env.Soon(t, func() bool {
		reply := pair.Primary.Do(t, "ROLE")
		role, err := reply.ToArray()
		if err != nil || len(role) < 4 {
			return false
		}
		name, _ := role[0].ToString()
		state, _ := role[3].ToString()
		return name == "slave" && state == "connected"
	}, "the roles are swapped")
}

// A client that stays with a primary that is none any more can read and not write.
func TestDemotedPrimary(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		pair := e.StartPair(t)
		stays, follows := env.OpenOn(t, pair.Primary), env.NewLocker(t, pair.Replica.Client(t))
		extended, err := stays.Acquire(t.Context(), "extended", rlock.WithTTL(9*time.Second),
			rlock.WithAutoExtend(true))
		require.NoError(t, err)
		released, err := stays.Acquire(t.Context(), "released", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		foreign, err := env.NewLocker(t, pair.Primary.Client(t)).Acquire(t.Context(), "foreign",
			rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		env.Soon(t, func() bool {
			state, err := stays.Check(t.Context(), "foreign")
			return err == nil && state.Held && state.Cached
		}, "the holder reaches the cache")
		waited := make(chan error, 1)
		go func() {
			_, err := stays.Acquire(t.Context(), "foreign")
			waited <- err
		}()
		env.Soon(t, func() bool { return stays.Stats().Waiting == 1 }, "it waits")
		swap(t, pair)

		env.Surfaces(t, "READONLY", func(ctx context.Context) error {
			_, err := stays.Acquire(ctx, "job")
			return err
		})
		env.Surfaces(t, "READONLY", func(ctx context.Context) error {
			_, err := stays.AcquireAll(ctx, []string{"a", "b"})
			return err
		})
		env.Surfaces(t, "READONLY", func(ctx context.Context) error { return released.Release(ctx) })
		require.Error(t, released.Err())
		_, err = follows.TryAcquire(t.Context(), "released")
		require.ErrorIs(t, err, rlock.ErrHeld, "its lease goes on")

		// Who reads and waits is served by what the new primary passes on.
		state, err := stays.Check(t.Context(), "foreign")
		require.NoError(t, err)
		require.Equal(t, foreign.Token(), state.Token())
		require.NoError(t, env.Admin(follows).ForceRelease(t.Context(), "foreign", foreign.Token()))
		env.Surfaces(t, "READONLY", func(context.Context) error { return env.Receive(t, waited) })
		env.Soon(t, func() bool {
			state, err := stays.Check(t.Context(), "foreign")
			return err == nil && !state.Held
		}, "the cache follows")

		// An extension is tried until the lease ends, and the new primary keeps it that long.
		next, err := follows.Acquire(t.Context(), "extended", rlock.WithRetry(rlock.Fixed(10*time.Millisecond)))
		require.NoError(t, err)
		require.Error(t, extended.Err(), "two holders")
		require.Greater(t, next.Fence(), extended.Fence())
		env.AwaitEnd(t, extended, rlock.ErrNotHeld)
		require.Greater(t, stays.Stats().ExtendFailed, uint64(1), "it was tried again")
	})
}

// A server that refuses for a while costs no lock that is extended automatically. One
// that goes on refusing costs it at the end of its lease, and not before.
func TestAutoExtendOutlastsRefusals(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, refusal := range map[string]string{
			"demoted": "READONLY You can't write against a read only replica.",
			"loading": "LOADING Redis is loading the dataset in memory",
			"down":    "CLUSTERDOWN The cluster is down",
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				f, locker, direct := env.NewFaulty(t, e, rlock.WithTTL(15*time.Second), rlock.WithAutoExtend(true))
				f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
					if env.Calls(words, gen.ExtendSHA1) {
						return f.Refuse(refusal)
					}
					return run()
				})
				brief, err := locker.Acquire(t.Context(), "brief", rlock.WithTTL(5*time.Second))
				require.NoError(t, err)
				deadline := brief.Deadline()
				one, err := locker.Acquire(t.Context(), "one")
				require.NoError(t, err)
				set, err := locker.AcquireAll(t.Context(), []string{"x", "y"})
				require.NoError(t, err)
				env.AwaitEnd(t, brief, rlock.ErrExpired)
				require.False(t, time.Now().Before(deadline))
				failed := locker.Stats().ExtendFailed
				require.Positive(t, failed)

				env.Soon(t, func() bool { return locker.Stats().ExtendFailed >= failed+4 }, "both are tried again")
				f.When(nil)
				env.Soon(t, func() bool { return locker.Stats().Extended >= 2 }, "both are extended")
				for _, lock := range []*rlock.Lock{one, set} {
					require.NoError(t, lock.Err())
					require.Positive(t, env.TTL(t, direct, lock.Key()))
				}
			})
		}
	})
}
