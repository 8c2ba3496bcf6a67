package failure

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// looks tells how often the server was asked for the values of keys.
func looks(t *testing.T, server *env.Server) int64 {
	t.Helper()
	return server.CommandStats(t)["client|caching"]
}

// The next extension of these locks is 20 seconds or more away.
func TestLossIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		for name, take := range map[string]func(locker *rlock.Locker, key string) (*rlock.Lock, error){
			"extended": func(locker *rlock.Locker, key string) (*rlock.Lock, error) {
				return locker.Acquire(t.Context(), key, rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
			},
			"with a context": func(locker *rlock.Locker, key string) (*rlock.Lock, error) {
				lock, err := locker.TryAcquire(t.Context(), key, rlock.WithTTL(time.Minute))
				if err == nil {
					lock.Context()
				}
				return lock, err
			},
			"without a lease": func(locker *rlock.Locker, key string) (*rlock.Lock, error) {
				lock, err := locker.Acquire(t.Context(), key, rlock.WithTTL(rlock.NoExpiry))
				if err == nil {
					lock.Context()
				}
				return lock, err
			},
			"attached": func(locker *rlock.Locker, key string) (*rlock.Lock, error) {
				first, err := locker.Acquire(t.Context(), key, rlock.WithTTL(time.Minute))
				if err != nil {
					return nil, err
				}
				lock, err := locker.Attach(t.Context(), env.Detach(t, first))
				if err == nil {
					lock.Context()
				}
				return lock, err
			},
			"one of a set": func(locker *rlock.Locker, key string) (*rlock.Lock, error) {
				return locker.AcquireAll(t.Context(), []string{key + ":before", key, key + ":behind"},
					rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
			},
		} {
			for does, command := range map[string][]string{
				"deleted":                 {"DEL"},
				"taken by another":        {"SET", "other"},
				"replaced by a list":      {"EVAL"},
				"expired":                 {"PEXPIRE", "1"},
				"renamed":                 {"RENAME", "elsewhere"},
				"prolonged by a stranger": {"PEXPIRE", "120000"},
			} {
				t.Run(name+"/"+does, func(t *testing.T) {
					t.Parallel()
					locker, key := env.OpenLocker(t, server.Option()), "job:"+name+":"+does
					lock, err := take(locker, key)
					require.NoError(t, err)
					// Before the server is asked to tell, and while it does.
					if len(does)%2 == 0 {
						time.Sleep(100 * time.Millisecond)
					}
					words := append([]string{command[0], key}, command[1:]...)
					if command[0] == "EVAL" {
						words = []string{"EVAL", "redis.call('DEL', KEYS[1]) return redis.call('LPUSH', KEYS[1], 'x')", "1",
							key}
					}
					server.Do(t, words...)
					if does == "prolonged by a stranger" {
						time.Sleep(200 * time.Millisecond)
						require.NoError(t, lock.Err(), "a message is a hint")
						server.Do(t, "DEL", key)
					}
					env.AwaitEnd(t, lock, rlock.ErrLost)
				})
			}
		}
	})
}

func TestLossOfAllIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker := env.OpenLocker(t, server.Option(), rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
		var locks []*rlock.Lock
		for i := range 1000 {
			lock, err := locker.Acquire(t.Context(), fmt.Sprint("job:", i))
			require.NoError(t, err)
			locks = append(locks, lock)
		}
		server.AwaitTracked(t, len(locks))
		before := looks(t, server)
		server.Do(t, "FLUSHALL")
		for _, lock := range locks {
			env.AwaitEnd(t, lock, rlock.ErrLost)
		}
		require.LessOrEqual(t, looks(t, server)-before, int64(30), "they are read together")
		require.Empty(t, locker.Locks())
	})
}

// Every handle of a key is told, also when another has stopped listening.
func TestLossIsNoticedByEveryHandle(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker := env.OpenLocker(t, server.Option(), rlock.WithTTL(time.Minute))
		var handles []*rlock.Lock
		for range 4 {
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithToken("mine"))
			require.NoError(t, err)
			lock.Context()
			handles = append(handles, lock)
		}
		time.Sleep(200 * time.Millisecond) // all have been read once
		env.Detach(t, handles[0])
		env.Detach(t, handles[2])
		server.Do(t, "DEL", "job")
		env.AwaitEnd(t, handles[1], rlock.ErrLost)
		env.AwaitEnd(t, handles[3], rlock.ErrLost)
		require.ErrorIs(t, context.Cause(handles[0].Context()), rlock.ErrDetached)
	})
}

// A broken connection tracks nothing any more. The next one does.
func TestLossIsNoticedAfterALostConnection(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker := env.OpenLocker(t, server.Option(), rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		server.AwaitTracked(t, 1)
		server.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		server.AwaitTracked(t, 1)
		require.NoError(t, lock.Err())
		server.Do(t, "DEL", "job")
		env.AwaitEnd(t, lock, rlock.ErrLost)
	})
}

// A read that fails is tried again.
func TestLossIsNoticedAfterRefusals(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "-mget")
		hook := rlock.NewInvalidations()
		locker := env.NewLocker(t, server.Client(t, func(o *rueidis.ClientOption) {
			o.Username, o.Password, o.OnInvalidations = "app", "secret", hook.OnInvalidations
		}), rlock.WithInvalidations(hook), rlock.WithTTL(time.Minute))
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		lock.Context()
		server.Do(t, "DEL", "job")
		time.Sleep(300 * time.Millisecond)
		require.NoError(t, lock.Err(), "nobody can know")
		server.Do(t, "ACL", "SETUSER", "app", "+mget")
		env.AwaitEnd(t, lock, rlock.ErrLost)
	})
}

// Without messages of the server, the next extension notices.
func TestLossIsNoticedByTheExtension(t *testing.T) {
	t.Parallel()
	lost := func(t *testing.T, locker *rlock.Locker, client rueidis.Client) {
		t.Helper()
		keys := map[string]*rlock.Lock{}
		for _, key := range []string{"kept", "deleted", "taken", "list", "{set}1"} {
			names := []string{key}
			if key == "{set}1" {
				names = []string{"{set}0", key, "{set}2"}
			}
			lock, err := locker.AcquireAll(t.Context(), names, rlock.WithTTL(6*time.Second),
				rlock.WithAutoExtend(true))
			require.NoError(t, err)
			keys[key] = lock
		}
		require.NoError(t, env.Do(t, client, "DEL", "deleted").Error())
		require.NoError(t, env.Do(t, client, "DEL", "{set}1").Error())
		require.NoError(t, env.Do(t, client, "SET", "taken", "other").Error())
		require.NoError(t, env.Do(t, client, "DEL", "list").Error())
		require.NoError(t, env.Do(t, client, "RPUSH", "list", "x").Error())
		for _, key := range []string{"deleted", "taken", "list", "{set}1"} {
			env.AwaitEnd(t, keys[key], rlock.ErrLost)
		}
		time.Sleep(6 * time.Second)
		require.NoError(t, keys["kept"].Err(), "the loss of others is not its own")
		require.Equal(t, "other", env.Get(t, client, "taken"))
		env.SameLocks(t, []*rlock.Lock{keys["kept"]}, locker.Locks())
	}
	t.Run("one server", func(t *testing.T) {
		env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
			lost(t, env.NewLocker(t, client), client)
		})
	})
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Run("cluster", func(t *testing.T) {
			t.Parallel()
			cluster := e.StartCluster(t)
			locker, err := rlock.Open(rueidis.ClientOption{InitAddress: cluster.Addrs()})
			require.NoError(t, err)
			defer locker.Close()
			lost(t, locker, cluster.Client(t))
		})
	})
}

// What a lock's owner does to it is no loss, and costs at most one read that many
// locks share.
func TestOwnChangesAreNoLoss(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Run("short", func(t *testing.T) {
			server := e.Start(t)
			locker := env.OpenLocker(t, server.Option())
			before, start := looks(t, server), time.Now()
			for range 200 {
				require.NoError(t, locker.Do(t.Context(), "job", func(ctx context.Context, lock *rlock.Lock) error {
					return errors.Join(lock.Extend(ctx, time.Minute), ctx.Err())
				}))
			}
			// Every 20 ms the one that is held may be read, and once more when it is extended.
			rounds := int64(time.Since(start)/(20*time.Millisecond)) + 1
			require.LessOrEqual(t, looks(t, server)-before, 2*rounds)
		})
		t.Run("extended by hand", func(t *testing.T) {
			server := e.Start(t)
			locker := env.OpenLocker(t, server.Option())
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			ctx := lock.Context()
			server.AwaitTracked(t, 1)
			for range 5 {
				before := looks(t, server)
				require.NoError(t, lock.Extend(ctx, time.Minute))
				env.Soon(t, func() bool { return looks(t, server) > before }, "it is tracked again")
				server.AwaitTracked(t, 1)
				require.Equal(t, before+1, looks(t, server))
			}
			before := looks(t, server)
			require.NoError(t, lock.Release(t.Context()))
			time.Sleep(50 * time.Millisecond)
			require.Equal(t, before, looks(t, server), "a release needs no read")
			require.ErrorIs(t, context.Cause(ctx), rlock.ErrReleased)
		})
		t.Run("extended for long", func(t *testing.T) {
			server := e.Start(t)
			locker := env.OpenLocker(t, server.Option(), rlock.WithTTL(9*time.Second), rlock.WithAutoExtend(true))
			for i := range 300 {
				_, err := locker.Acquire(t.Context(), fmt.Sprint("job:", i))
				require.NoError(t, err)
			}
			time.Sleep(time.Second)
			calls, before := server.CommandStats(t)["evalsha"], looks(t, server)
			time.Sleep(5 * time.Second)
			calls, read := server.CommandStats(t)["evalsha"]-calls, looks(t, server)-before
			t.Logf("%d scripts, %d reads", calls, read)
			require.Positive(t, calls)
			require.LessOrEqual(t, read, 2*calls+3)
			require.Len(t, locker.Locks(), 300)
		})
	})
}

// nil from Do means that the lock was held throughout, whatever happened to the reply of the release. A
// release of a set alone cannot say so then: the first try may have freed the keys that the next one does
// not find.
func TestLossIsToldDespiteALostReply(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		lostOnce := func(sha string) func([]string, func() rueidis.RedisResult) rueidis.RedisResult {
			return env.Once(sha, func(func() rueidis.RedisResult) rueidis.RedisResult { return env.NoReply() })
		}
		t.Run("do", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e, rlock.WithTTL(3*time.Second))
			f.When(lostOnce(gen.ReleaseSHA1))
			err := locker.Do(t.Context(), "job", func(ctx context.Context, _ *rlock.Lock) error {
				require.NoError(t, env.Do(t, direct, "SET", "job", "thief").Error())
				<-ctx.Done()
				return nil
			})
			require.ErrorIs(t, err, rlock.ErrLost)
		})
		t.Run("a set", func(t *testing.T) {
			f, locker, direct := env.NewFaulty(t, e)
			lock, err := locker.AcquireAll(t.Context(), []string{"x", "y", "z"})
			require.NoError(t, err)
			require.NoError(t, env.Do(t, direct, "SET", "y", "thief").Error())
			f.When(lostOnce(gen.ReleaseManySHA1))
			require.NoError(t, lock.Release(t.Context()))
			require.Equal(t, "thief", env.Get(t, direct, "y"))
			require.Empty(t, env.Get(t, direct, "x"))
		})
	})
}
