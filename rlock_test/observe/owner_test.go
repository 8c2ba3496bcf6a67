package observe

import (
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// ownerOf returns what Inspect says of a key's holder.
func ownerOf(t testing.TB, locker *rlock.Locker, key string) string {
	t.Helper()
	state := env.HolderOf(t, locker, key)
	return state.Owner
}

// The text is in the token, with every lock however it was taken, and everybody who asks
// is told. It costs no key.
func TestOwner(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		const text = "web-3: importer  (ö)"
		locker, other := env.NewLocker(t, client, rlock.WithOwner(text)), env.NewLocker(t, client)
		for name, acquire := range map[string]func() (*rlock.Lock, error){
			"one": func() (*rlock.Lock, error) { return locker.Acquire(t.Context(), "job") },
			"unfenced": func() (*rlock.Lock, error) {
				return locker.Acquire(t.Context(), "job", rlock.WithFence(false))
			},
			"set":   func() (*rlock.Lock, error) { return locker.AcquireAll(t.Context(), []string{"job", "b", "c"}) },
			"batch": func() (*rlock.Lock, error) { return env.TakeEach(t, locker, []string{"job"})[0], nil },
		} {
			lock, err := acquire()
			require.NoError(t, err, name)
			require.Equal(t, text, lock.Token()[37:], name)
			for _, key := range lock.Keys() {
				require.Equal(t, lock.Token(), env.Get(t, client, key))
				require.Equal(t, text, ownerOf(t, other, key))
				checked, err := other.Check(t.Context(), key)
				require.NoError(t, err)
				require.Equal(t, text, checked.Owner)
			}
			require.NoError(t, lock.Verify(t.Context()))
			require.NoError(t, lock.Extend(t.Context(), time.Hour))
			require.NoError(t, lock.Release(t.Context()))
			require.Empty(t, ownerOf(t, other, "job"))
			keys, err := env.Do(t, client, "KEYS", "*").AsStrSlice()
			require.NoError(t, err)
			for _, key := range keys {
				require.True(t, strings.HasPrefix(key, "rlock:fence:"), key)
			}
		}
	})
}

// The text is there as soon as the lock is, and costs no command.
func TestOwnerCostsNothing(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		client := server.Client(t)
		require.NoError(t, gen.New().Load(t.Context(), client))
		locker := env.NewLocker(t, client)
		for name, opts := range map[string][]rlock.Option{"without": nil, "with": {rlock.WithOwner("web-3")}} {
			before := server.ScriptCalls(t)
			lock, err := locker.Acquire(t.Context(), "job", opts...)
			require.NoError(t, err)
			require.NoError(t, lock.Extend(t.Context(), time.Minute))
			require.NoError(t, lock.Release(t.Context()))
			require.Equal(t, int64(3), server.ScriptCalls(t)-before, name)
		}
	})
}

// Only a value of our exact form is taken apart.
func TestOwnerOfAForeignValue(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		const uuid = "b9a0a4c8-3c0e-4f5e-9c2b-0123456789ab"
		for value, owner := range map[string]string{
			uuid + " web-3":                       "web-3",
			uuid + "  two":                        " two",
			uuid:                                  "",
			uuid + " ":                            "",
			uuid + "-web-3":                       "",
			uuid + " line\nbreak":                 "",
			uuid + " \xff":                        "",
			uuid + " " + strings.Repeat("x", 257): "",
			"B9A0A4C8-3C0E-4F5E-9C2B-0123456789AB web-3":       "",
			"b9a0a4c8-3c0e-1f5e-9c2b-0123456789ab version 1":   "",
			"b9a0a4c8-3c0e-4f5e-cc2b-0123456789ab variant":     "",
			"b9a0a4c8 3c0e-4f5e-9c2b-0123456789ab web-3":       "",
			"g9a0a4c8-3c0e-4f5e-9c2b-0123456789ab web-3":       "",
			"x" + uuid + " web-3":                              "",
			"somebody else's token, with spaces, quite long. ": "",
			" web-3": "",
		} {
			require.NoError(t, env.Do(t, client, "SET", "job", value).Error())
			state := env.HolderOf(t, locker, "job")
			require.Equal(t, owner, state.Owner, "%q", value)
			require.Equal(t, value, state.Token(), "it is compared whole")
		}
	})
}

// A text for a whole Locker does not keep its callers from sharing a lease; two texts do,
// as each token says whose it is.
func TestOwnersShareALease(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		for name, test := range map[string]struct {
			opts  []rlock.Option // of the next
			calls int64
			owner string
		}{
			"one text":  {nil, 0, "web-3"},
			"two texts": {[]rlock.Option{rlock.WithOwner("web-4")}, 1, "web-4"},
		} {
			locker := env.NewLocker(t, server.Client(t), rlock.WithOwner("web-3"), rlock.WithFence(false),
				rlock.WithTTL(time.Hour), rlock.WithTurn(time.Hour))
			require.NoError(t, gen.New().Load(t.Context(), server.Client(t)))
			env.Soon(t, func() bool { // a lease that is handed on within 100 ms is handed on as it is
				lock, err := locker.Acquire(t.Context(), name)
				require.NoError(t, err)
				next := make(chan *rlock.Lock, 1)
				go func() {
					lock, err := locker.Acquire(t.Context(), name, test.opts...)
					if err != nil {
						t.Error(err)
					}
					next <- lock
				}()
				env.Soon(t, func() bool { return locker.Stats().Waiting == 1 }, "one waits")
				before := server.ScriptCalls(t)
				require.NoError(t, lock.Release(t.Context()))
				second := <-next
				calls := server.ScriptCalls(t) - before
				require.Equal(t, test.owner, ownerOf(t, locker, name))
				require.NoError(t, second.Release(t.Context()))
				return calls == test.calls
			}, name)
		}
	})
}

// The text stays with a lock that is carried on elsewhere, and lasts as long as the lock,
// on a cluster too.
func TestOwnerFollowsTheLock(t *testing.T) {
	t.Parallel()
	const lease = 4 * time.Second // on a busy machine, a cluster answers late
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.StartCluster(t).Client(t)
		locker := env.NewLocker(t, client, rlock.WithCrossSlot(true), rlock.WithTTL(lease),
			rlock.WithOwner(rlock.DefaultOwner()))
		one, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
		require.NoError(t, err)
		spread := []string{"a", "b", "c", "{a}2"} // of three nodes
		set, err := locker.AcquireAll(t.Context(), spread, rlock.WithAutoExtend(true))
		require.NoError(t, err)
		time.Sleep(lease + lease/4) // it is extended
		for _, key := range append([]string{"job"}, spread...) {
			require.Contains(t, ownerOf(t, locker, key), strconv.Itoa(os.Getpid()))
		}
		require.NoError(t, one.Extend(t.Context(), lease))
		require.Contains(t, ownerOf(t, locker, "job"), strconv.Itoa(os.Getpid()), "the next token has the text too")
		next, err := env.NewLocker(t, client).Attach(t.Context(), env.Detach(t, one), rlock.WithOwner("web-4"))
		require.NoError(t, err)
		require.Equal(t, "web-4", ownerOf(t, locker, "job"))
		require.NoError(t, next.Release(t.Context()))
		require.NoError(t, set.Release(t.Context()))
	})
}

// A token of a call goes before the text of its Locker.
func TestOwnerAndToken(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client, rlock.WithOwner("web-3"))
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithToken("mine"))
		require.NoError(t, err)
		require.Equal(t, "mine", env.Get(t, client, "job"))
		require.Empty(t, ownerOf(t, locker, "job"))
		require.NoError(t, lock.Release(t.Context()))
	})
}
