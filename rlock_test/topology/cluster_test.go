package topology

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestCluster(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		client := cluster.Client(t)
		locker := env.NewLocker(t, client)

		t.Run("keys of many slots, one by one", func(t *testing.T) {
			for i := range 50 {
				key := fmt.Sprintf("job:%d", i)
				err := locker.Do(t.Context(), key, func(ctx context.Context, lock *rlock.Lock) error {
					if lock.Fence() == 0 {
						return errors.New("no fence")
					}
					_, err := locker.TryAcquire(t.Context(), key)
					if !errors.Is(err, rlock.ErrHeld) {
						return fmt.Errorf("a held key was acquired: %w", err)
					}
					return lock.Extend(ctx, time.Minute)
				})
				require.NoError(t, err)
				require.Empty(t, env.Get(t, client, key))
			}
		})
		t.Run("a set of one slot", func(t *testing.T) {
			lock, err := locker.AcquireAll(t.Context(), []string{"{a}1", "{a}2", "{a}3"})
			require.NoError(t, err)
			require.NotZero(t, lock.Fence())
			require.NoError(t, lock.Verify(t.Context()))
			require.NoError(t, lock.Extend(t.Context(), time.Minute))
			require.NoError(t, lock.Release(t.Context()))
		})
		t.Run("a set of two slots", func(t *testing.T) {
			var err error
			require.NotPanics(t, func() { _, err = locker.AcquireAll(t.Context(), []string{"a", "b"}) })
			require.ErrorIs(t, err, rlock.ErrCrossSlot)
			require.ErrorIs(t, err, rlock.ErrInvalid)
			var facts *rlock.ArgumentError
			require.ErrorAs(t, err, &facts)
			require.Equal(t, "keys", facts.Argument)
			require.EqualError(t, err,
				`rlock: keys: "a" (slot 15495) and "b" (slot 3300) are in different slots of the cluster; give them the same {hash tag}, or see WithCrossSlot`)
			require.Empty(t, env.Get(t, client, "a"))
		})
		t.Run("a client that does not know of the cluster", func(t *testing.T) {
			single := cluster.Nodes[2].Client(t, func(o *rueidis.ClientOption) { o.ForceSingleClient = true })
			locker := env.NewLocker(t, single)
			env.Surfaces(t, "CROSSSLOT", func(ctx context.Context) error {
				_, err := locker.AcquireAll(ctx, []string{"a", "b"})
				return err
			})
		})
		t.Run("bindings refuse two slots", func(t *testing.T) {
			var err error
			require.NotPanics(t, func() {
				_, err = gen.New().Extend(
					t.Context(), client, gen.ExtendParams{Keys: []string{"a", "b"}, Tokens: []string{"t"}},
				)
			})
			var facts *redislua.CrossSlotError
			require.ErrorAs(t, err, &facts)
			require.Equal(t, [2]string{"a", "b"}, facts.Keys)
			_, err = gen.New().Extend(
				t.Context(), client,
				gen.ExtendParams{Keys: []string{"a", strings.Repeat("job", 1<<16/3)}, Tokens: []string{"t"}},
			)
			require.ErrorAs(t, err, &facts)
			require.Less(t, len(err.Error()), 1000)
		})
		t.Run("extended in one pipeline", func(t *testing.T) {
			var locks []*rlock.Lock
			for i := range 30 {
				lock, err := locker.Acquire(t.Context(), fmt.Sprintf("held:%d", i), rlock.WithTTL(3*time.Second),
					rlock.WithAutoExtend(true))
				require.NoError(t, err)
				locks = append(locks, lock)
			}
			time.Sleep(7 * time.Second)
			for _, lock := range locks {
				require.NoError(t, lock.Err())
				require.NoError(t, lock.Release(t.Context()))
			}
		})
		t.Run("check", func(t *testing.T) {
			state, err := locker.Check(t.Context(), "job:1")
			require.NoError(t, err)
			require.False(t, state.Held)
			lock, err := locker.Acquire(t.Context(), "job:1")
			require.NoError(t, err)
			env.Soon(t, func() bool {
				state, err = locker.Check(t.Context(), "job:1")
				require.NoError(t, err)
				return state.Token() == lock.Token() && state.Cached
			}, "an acquisition reaches the cache")
			require.NoError(t, lock.Release(t.Context()))
		})
	})
}

// The slots are those that the server counts.
func TestSlots(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.StartCluster(t).Client(t)
		keys := []string{
			"a", "foo", "123456789", "{a}b", "a{b}c", "{}a", "{", "}", "}{a}", "{a", "a}", "{a}{b}", "{{a}}",
			"\x00\xff", "ключ",
			"rlock:fence:{0}", "rlock:fence:{16383}",
		}
		for range 1000 {
			key := make([]byte, 1+rand.IntN(8))
			for i := range key {
				key[i] = "{}{}ab\x00\xff"[rand.IntN(8)]
			}
			keys = append(keys, string(key))
		}
		for _, key := range keys {
			slot, err := env.Do(t, client, "CLUSTER", "KEYSLOT", key).ToInt64()
			require.NoError(t, err)
			require.Equal(t, uint16(slot), redislua.Slot(key), "%q", key)
		}
	})
}

// A node that is silent costs the locks on the other nodes nothing, although their leases
// are due together with those of its own.
func TestSilentNodeCostsOthersNothing(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		c := e.StartCluster(t)
		locker := env.NewLocker(t, c.Client(t), rlock.WithTTL(4*time.Second), rlock.WithAutoExtend(true))
		single, err := locker.Acquire(t.Context(), keyOn(t, c, 0))
		require.NoError(t, err)
		silent, err := locker.Acquire(t.Context(), keyOn(t, c, 1))
		require.NoError(t, err)
		tag := "{" + keyOn(t, c, 0) + "}"
		set, err := locker.AcquireAll(t.Context(), []string{tag + "1", tag + "2"})
		require.NoError(t, err)
		silentSet, err := locker.AcquireAll(t.Context(),
			[]string{"{" + silent.Key() + "}1", "{" + silent.Key() + "}2"})
		require.NoError(t, err)
		c.Nodes[1].Stop()
		defer c.Nodes[1].Cont()
		for _, lock := range []*rlock.Lock{silent, silentSet} {
			env.Receive(t, lock.Context().Done())
		}
		for range 40 { // two leases more; after 15 s the others would call the node dead
			require.NoError(t, single.Err())
			require.NoError(t, set.Err())
			time.Sleep(200 * time.Millisecond)
		}
	})
}

// keyOn returns a key whose slot the node i has.
func keyOn(t *testing.T, c *env.Cluster, i int) string {
	t.Helper()
	return keyFrom(c, i, 0)
}

// keyFrom is keyOn for another key for most values of n.
func keyFrom(c *env.Cluster, i, n int) string {
	for ; ; n++ {
		key := fmt.Sprint("key", n)
		if int(redislua.Slot(key))*len(c.Nodes)/16384 == i {
			return key
		}
	}
}
