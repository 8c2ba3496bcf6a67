package rlock_test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// newListener returns a locker that hears from its server.
func newListener(t *testing.T, server *bed.Server, opts ...rlock.Option) *rlock.Locker {
	t.Helper()
	locker, err := rlock.Open(server.Option(), opts...)
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return locker
}

// ends waits for the end of a lock, which must come long before its next extension.
func ends(t *testing.T, lock *rlock.Lock, why error) {
	t.Helper()
	select {
	case <-lock.Context().Done():
		require.ErrorIs(t, context.Cause(lock.Context()), why)
		require.False(t, lock.Valid())
	case <-time.After(10 * time.Second):
		t.Fatalf("%q has not ended", lock.Keys())
	}
}

// looks tells how often the server was asked for the values of keys.
func looks(t *testing.T, server *bed.Server) int64 {
	t.Helper()
	return server.CommandStats(t)["client|caching"]
}

var trackedLine = regexp.MustCompile(`tracking_total_keys:(\d+)`)

func trackedKeys(t *testing.T, server *bed.Server) int {
	t.Helper()
	reply := server.Do(t, "INFO", "stats")
	text, err := reply.ToString()
	require.NoError(t, err)
	match := trackedLine.FindStringSubmatch(text)
	require.NotNil(t, match)
	n, err := strconv.Atoi(match[1])
	require.NoError(t, err)
	return n
}

// tracked waits until the server knows of so many keys that it has to tell of.
func tracked(t *testing.T, server *bed.Server, keys int) {
	t.Helper()
	soon(t, func() bool { return trackedKeys(t, server) == keys }, "the keys are tracked")
}

// The next extension of these locks is 20 seconds or more away.
func TestLossIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
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
				lock, err := locker.Attach(t.Context(), detach(t, first))
				if err == nil {
					lock.Context()
				}
				return lock, err
			},
			"one of a set": func(locker *rlock.Locker, key string) (*rlock.Lock, error) {
				return locker.AcquireAll(t.Context(), []string{key + ":before", key, key + ":behind"}, rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
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
					locker, key := newListener(t, server), "job:"+name+":"+does
					lock, err := take(locker, key)
					require.NoError(t, err)
					// Before the server is asked to tell, and while it does.
					if len(does)%2 == 0 {
						time.Sleep(100 * time.Millisecond)
					}
					words := append([]string{command[0], key}, command[1:]...)
					if command[0] == "EVAL" {
						words = []string{"EVAL", "redis.call('DEL', KEYS[1]) return redis.call('LPUSH', KEYS[1], 'x')", "1", key}
					}
					server.Do(t, words...)
					if does == "prolonged by a stranger" {
						time.Sleep(200 * time.Millisecond)
						require.True(t, lock.Valid(), "a message is a hint")
						server.Do(t, "DEL", key)
					}
					ends(t, lock, rlock.ErrLost)
				})
			}
		}
	})
}

func TestLossOfAllIsNoticedAtOnce(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		server := e.Start(t)
		locker := newListener(t, server, rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
		var locks []*rlock.Lock
		for i := range 1000 {
			lock, err := locker.Acquire(t.Context(), fmt.Sprint("job:", i))
			require.NoError(t, err)
			locks = append(locks, lock)
		}
		tracked(t, server, len(locks))
		before := looks(t, server)
		server.Do(t, "FLUSHALL")
		for _, lock := range locks {
			ends(t, lock, rlock.ErrLost)
		}
		require.LessOrEqual(t, looks(t, server)-before, int64(30), "they are read together")
		require.Empty(t, locker.Held())
	})
}

// Every handle of a key is told, also when another has stopped listening.
func TestLossIsNoticedByEveryHandle(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		server := e.Start(t)
		locker := newListener(t, server, rlock.WithTTL(time.Minute))
		var handles []*rlock.Lock
		for range 4 {
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithToken("mine"))
			require.NoError(t, err)
			lock.Context()
			handles = append(handles, lock)
		}
		time.Sleep(200 * time.Millisecond) // all have been read once
		detach(t, handles[0])
		detach(t, handles[2])
		server.Do(t, "DEL", "job")
		ends(t, handles[1], rlock.ErrLost)
		ends(t, handles[3], rlock.ErrLost)
		require.ErrorIs(t, context.Cause(handles[0].Context()), rlock.ErrDetached)
	})
}

// A broken connection tracks nothing any more. The next one does.
func TestLossIsNoticedAfterALostConnection(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		server := e.Start(t)
		locker := newListener(t, server, rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		tracked(t, server, 1)
		server.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		tracked(t, server, 1)
		require.True(t, lock.Valid())
		server.Do(t, "DEL", "job")
		ends(t, lock, rlock.ErrLost)
	})
}

// A read that fails is tried again.
func TestLossIsNoticedAfterRefusals(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		server := e.Start(t)
		server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "-mget")
		hook := rlock.NewHook()
		locker := newLocker(t, server.Client(t, func(o *rueidis.ClientOption) {
			o.Username, o.Password, o.OnInvalidations = "app", "secret", hook.OnInvalidations
		}), rlock.WithHook(hook), rlock.WithTTL(time.Minute))
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		lock.Context()
		server.Do(t, "DEL", "job")
		time.Sleep(300 * time.Millisecond)
		require.True(t, lock.Valid(), "nobody can know")
		server.Do(t, "ACL", "SETUSER", "app", "+mget")
		ends(t, lock, rlock.ErrLost)
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
			lock, err := locker.AcquireAll(t.Context(), names, rlock.WithTTL(3*time.Second), rlock.WithAutoExtend(true))
			require.NoError(t, err)
			keys[key] = lock
		}
		require.NoError(t, do(t, client, "DEL", "deleted").Error())
		require.NoError(t, do(t, client, "DEL", "{set}1").Error())
		require.NoError(t, do(t, client, "SET", "taken", "other").Error())
		require.NoError(t, do(t, client, "DEL", "list").Error())
		require.NoError(t, do(t, client, "RPUSH", "list", "x").Error())
		for _, key := range []string{"deleted", "taken", "list", "{set}1"} {
			ends(t, keys[key], rlock.ErrLost)
		}
		time.Sleep(4 * time.Second)
		require.True(t, keys["kept"].Valid(), "the loss of others is not its own")
		require.Equal(t, "other", get(t, client, "taken"))
		require.Equal(t, []*rlock.Lock{keys["kept"]}, locker.Held())
	}
	t.Run("one server", func(t *testing.T) {
		onEvery(t, func(t *testing.T, client rueidis.Client) {
			lost(t, newLocker(t, client), client)
		})
	})
	bed.Each(t, func(t *testing.T, e bed.Engine) {
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
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		t.Run("short", func(t *testing.T) {
			server := e.Start(t)
			locker := newListener(t, server)
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
			locker := newListener(t, server)
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			ctx := lock.Context()
			tracked(t, server, 1)
			for range 5 {
				before := looks(t, server)
				require.NoError(t, lock.Extend(ctx, time.Minute))
				soon(t, func() bool { return looks(t, server) > before }, "it is tracked again")
				tracked(t, server, 1)
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
			locker := newListener(t, server, rlock.WithTTL(3*time.Second), rlock.WithAutoExtend(true))
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
			require.Len(t, locker.Held(), 300)
		})
	})
}
