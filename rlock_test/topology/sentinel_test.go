package topology

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestSentinel(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		s := e.StartSentinel(t)
		direct := s.Primary.Client(t)
		for name, locker := range map[string]*rlock.Locker{
			"pushed": env.OpenLocker(t, s.Option()),
			"polled": env.NewLocker(t, s.Client(t)),
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				key := "job:" + name
				t.Run("one key", func(t *testing.T) {
					lock, err := locker.Acquire(t.Context(), key)
					require.NoError(t, err)
					require.NotZero(t, lock.Fence())
					_, err = locker.TryAcquire(t.Context(), key)
					require.ErrorIs(t, err, rlock.ErrHeld)
					require.NoError(t, lock.Extend(t.Context(), time.Minute))
					require.Greater(t, env.TTL(t, direct, key), 30*time.Second)
					require.NoError(t, lock.Verify(t.Context()))
					require.Equal(t, lock.Token(), env.HolderOf(t, locker, key).Token())
					env.Soon(t, func() bool {
						state, err := locker.Check(t.Context(), key)
						require.NoError(t, err)
						return state.Token() == lock.Token() && state.Cached
					}, "the holder reaches the cache")
					require.NoError(t, lock.Release(t.Context()))
					require.Empty(t, env.Get(t, direct, key))
				})
				t.Run("a set", func(t *testing.T) {
					keys := []string{key + ":a", key + ":b", key + ":c"}
					err := locker.DoAll(t.Context(), keys, func(_ context.Context, lock *rlock.Lock) error {
						for _, held := range keys {
							require.Equal(t, lock.Token(), env.Get(t, direct, held))
						}
						return nil
					})
					require.NoError(t, err)
					for _, freed := range keys {
						require.Empty(t, env.Get(t, direct, freed))
					}
				})
				t.Run("a stranger", func(t *testing.T) {
					require.NoError(t, env.Do(t, direct, "SET", key, "other").Error())
					acquired := make(chan error, 1)
					go func() {
						acquired <- locker.Do(t.Context(), key, func(context.Context, *rlock.Lock) error { return nil })
					}()
					env.Soon(t, func() bool { return locker.Stats().Waiting == 1 }, "it waits")
					require.NoError(t, env.Do(t, direct, "DEL", key).Error())
					require.NoError(t, env.Receive(t, acquired))
				})
			})
		}
	})
}

// A client of Sentinel finds the next primary. So who waits waits out that the server is a replica, and all
// other calls say so at once.
func TestPrimaryOfSentinelIsDemoted(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		s := e.StartSentinel(t)
		locker := env.OpenLocker(t, s.Option())
		held, err := locker.Acquire(t.Context(), "held", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		host, port, err := net.SplitHostPort(s.Replica.Addr())
		require.NoError(t, err)
		s.Primary.Do(t, "REPLICAOF", host, port)
		env.Surfaces(t, "READONLY", func(ctx context.Context) error {
			return env.ErrorOf(locker.TryAcquire(ctx, "a"))
		})
		env.Surfaces(t, "READONLY", func(ctx context.Context) error { return held.Extend(ctx, time.Hour) })
		got := make(chan *rlock.Lock, 3)
		before := locker.Stats().Attempts
		for _, keys := range [][]string{{"a"}, {"b", "c"}, {"d"}} {
			go func() { got <- env.MustLock(t)(locker.AcquireAll(t.Context(), keys)) }()
		}
		env.Soon(t, func() bool { return locker.Stats().Attempts >= before+9 }, "they ask again and again")
		require.Empty(t, got)
		s.Primary.Do(t, "REPLICAOF", "NO", "ONE")
		for range cap(got) {
			require.NoError(t, env.Receive(t, got).Release(t.Context()))
		}
		require.NoError(t, held.Extend(t.Context(), time.Hour))
	})
}

// A key without a lease is polled four times a second where the server does not push.
func TestSentinelPushes(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		s := e.StartSentinel(t)
		locker, direct := env.OpenLocker(t, s.Option()), s.Primary.Client(t)
		require.NoError(t, env.Do(t, direct, "SET", "job", "other").Error())
		acquired := make(chan error, 1)
		go func() {
			_, err := locker.Acquire(t.Context(), "job")
			acquired <- err
		}()
		s.Primary.AwaitTracked(t, 1)
		before, start := locker.Stats().Attempts, time.Now()
		beats := func() uint64 { return uint64(time.Since(start)/(900*time.Millisecond)) + 1 } // one a second
		time.Sleep(time.Second)
		require.LessOrEqual(t, locker.Stats().Attempts, before+beats(), "it does not poll")
		require.NoError(t, env.Do(t, direct, "DEL", "job").Error())
		require.NoError(t, env.Receive(t, acquired))
		require.LessOrEqual(t, locker.Stats().Attempts, before+beats()+2)
	})
}

// What a failover does to those who hold and those who wait.
func TestFailover(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		s := e.StartSentinel(t)
		direct := s.Client(t)
		holder := env.OpenLocker(t, s.Option(), rlock.WithTTL(15*time.Second), rlock.WithAutoExtend(true))
		rival := env.NewLocker(t, s.Client(t))

		kept, err := holder.Acquire(t.Context(), "kept")
		require.NoError(t, err)
		lost, err := holder.Acquire(t.Context(), "lost")
		require.NoError(t, err)
		require.NoError(t, env.Do(t, direct, "SET", "foreign", "other").Error())
		waiters := map[string]<-chan *rlock.Lock{
			"kept":    outlives(t, rival, "kept"),
			"lost":    outlives(t, rival, "lost"),
			"foreign": outlives(t, holder, "foreign"),
		}
		env.Soon(t, func() bool { return rival.Stats().Waiting == 2 && holder.Stats().Waiting == 1 }, "all wait")
		forgets(t, s.Replica, map[string]string{"kept": kept.Token(), "lost": lost.Token(), "foreign": "other"})
		deadline := lost.Deadline()
		s.Failover(t)

		env.AwaitEnd(t, lost, rlock.ErrNotHeld)
		require.Less(t, time.Now(), deadline)
		next := env.Receive(t, waiters["lost"])
		require.Greater(t, next.Fence(), lost.Fence(), "the counter was lost")
		require.ErrorIs(t, lost.Release(t.Context()), rlock.ErrNotHeld)

		env.Soon(t, func() bool { return env.TTL(t, direct, "kept") > 14*time.Second },
			"it is extended on the new primary")
		require.NoError(t, kept.Err())
		require.NoError(t, kept.Release(t.Context()))
		require.Greater(t, env.Receive(t, waiters["kept"]).Fence(), kept.Fence())

		require.NoError(t, env.Do(t, direct, "DEL", "foreign").Error())
		require.Greater(t, env.Receive(t, waiters["foreign"]).Fence(), next.Fence())
	})
}

// outlives acquires a key, whatever happens to the server meanwhile.
func outlives(t *testing.T, locker *rlock.Locker, key string) <-chan *rlock.Lock {
	acquired := make(chan *rlock.Lock, 1)
	go func() {
		defer close(acquired)
		lock, err := locker.Acquire(t.Context(), key)
		if err != nil {
			t.Errorf("acquire %s: %v", key, err)
			return
		}
		acquired <- lock
	}()
	return acquired
}

// forgets waits until a replica has the keys, and makes it one that was not told in
// time of the lost lock and of any fence.
func forgets(t *testing.T, replica *env.Server, values map[string]string) {
	t.Helper()
	for key, value := range values {
		env.Soon(t, func() bool {
			reply := replica.Do(t, "GET", key)
			if reply.IsNil() {
				return false
			}
			got, err := reply.ToString()
			require.NoError(t, err)
			return got == value
		}, "the replica has "+key)
	}
	replica.Do(t, "CONFIG", "SET", "replica-read-only", "no")
	replica.Do(t, "DEL", "lost")
	counters := replica.Do(t, "KEYS", "rlock:fence:*")
	names, err := counters.AsStrSlice()
	require.NoError(t, err)
	require.NotEmpty(t, names)
	for _, name := range names {
		replica.Do(t, "SET", name, "1")
	}
}
