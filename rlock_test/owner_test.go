package rlock_test

import (
	"context"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// notes returns the names of all notes on the server.
func notes(t testing.TB, client rueidis.Client) []string {
	t.Helper()
	var all []string
	for _, node := range client.Nodes() {
		keys, err := node.Do(t.Context(), node.B().Arbitrary("KEYS", "rlock:owner:*").Build()).AsStrSlice()
		require.NoError(t, err)
		all = append(all, keys...)
	}
	return all
}

// ownerOf returns what Inspect says of a key's holder.
func ownerOf(t testing.TB, locker *rlock.Locker, key string) string {
	t.Helper()
	state, err := locker.Inspect(t.Context(), key)
	require.NoError(t, err)
	return state.Owner
}

func TestOwner(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, client rueidis.Client) {
		locker, other := newLocker(t, client, rlock.WithOwner("web-3: importer")), newLocker(t, client)
		take := map[string]func() (*rlock.Lock, error){
			"one": func() (*rlock.Lock, error) {
				return locker.Acquire(t.Context(), "{x}y}:job", rlock.WithTTL(time.Minute))
			},
			"set": func() (*rlock.Lock, error) {
				return locker.AcquireAll(t.Context(), []string{"{x}y}:job", "b", "c"}, rlock.WithTTL(time.Minute))
			},
			"batch": func() (*rlock.Lock, error) {
				return takeEach(t, locker, []string{"{x}y}:job"}, rlock.WithTTL(time.Minute))[0], nil
			},
		}
		for name, acquire := range take {
			lock, err := acquire()
			require.NoError(t, err, name)
			require.Len(t, notes(t, client), len(lock.Keys()))
			for _, key := range lock.Keys() {
				require.Equal(t, "web-3: importer", ownerOf(t, other, key))
				require.Equal(t, lock.Token(), get(t, client, key), "the lock itself is the plain token")
			}
			state, err := lock.Check(t.Context())
			require.NoError(t, err)
			require.Equal(t, "web-3: importer", state.Owner)
			for _, note := range notes(t, client) {
				require.InDelta(t, time.Minute, left(t, client, note), float64(10*time.Second))
				name := note[strings.Index(note, "}:")+2:]
				require.Contains(t, lock.Keys(), name)
				require.Equal(t, gen.Slot(name), gen.Slot(note), "a note is in its lock's slot")
			}

			require.NoError(t, lock.Extend(t.Context(), time.Hour))
			require.NoError(t, locker.ExtendEach(t.Context(), []*rlock.Lock{lock}, 2*time.Hour)[0])
			for _, note := range notes(t, client) {
				require.InDelta(t, 2*time.Hour, left(t, client, note), float64(10*time.Second))
			}
			if name == "batch" {
				require.NoError(t, locker.ReleaseEach(t.Context(), []*rlock.Lock{lock})[0])
			} else {
				require.NoError(t, lock.Release(t.Context()))
			}
			require.Empty(t, notes(t, client))
			require.Empty(t, ownerOf(t, other, lock.Key()))
		}
	})
}

// A text is never shown for another holder.
func TestOwnerOfAnother(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, client rueidis.Client) {
		locker, other := newLocker(t, client, rlock.WithOwner("first")), newLocker(t, client)
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.NoError(t, do(t, client, "SET", "job", "thief").Error())
		require.Empty(t, ownerOf(t, other, "job"))
		state, err := lock.Check(t.Context())
		require.ErrorIs(t, err, rlock.ErrLost)
		require.Equal(t, "thief", state.Token)
		require.Empty(t, state.Owner)

		require.NoError(t, do(t, client, "DEL", "job").Error())
		second, err := locker.Acquire(t.Context(), "job", rlock.WithOwner("second"))
		require.NoError(t, err)
		require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
		require.Equal(t, "second", ownerOf(t, other, "job"), "the late release leaves it alone")
		s := gen.New()
		written, err := s.Note(t.Context(), client, gen.NoteParams{Keys: []string{"job", notes(t, client)[0]}, Token: lock.Token(), Text: "first"})
		require.NoError(t, err)
		require.Zero(t, written, "only the holder writes")
		require.Equal(t, "second", ownerOf(t, other, "job"))
		require.NoError(t, second.Release(t.Context()))
		require.Empty(t, notes(t, client))
	})
}

// The text lasts as long as automatic extensions do, on a cluster too, and goes with
// a lease that nobody extends.
func TestOwnerFollowsTheLease(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		client := e.StartCluster(t).Client(t)
		locker := newLocker(t, client, rlock.WithSlotGroups(), rlock.WithTTL(2*time.Second), rlock.WithOwner(rlock.DefaultOwner()))
		one, err := locker.Acquire(t.Context(), "job", rlock.WithAutoExtend(true))
		require.NoError(t, err)
		_, err = locker.Acquire(t.Context(), "left")
		require.NoError(t, err)
		set, err := locker.AcquireAll(t.Context(), spread, rlock.WithAutoExtend(true))
		require.NoError(t, err)
		require.Len(t, notes(t, client), 2+len(spread))
		time.Sleep(5 * time.Second)
		for _, key := range append([]string{"job"}, spread...) {
			owner := ownerOf(t, locker, key)
			require.Contains(t, owner, strconv.Itoa(os.Getpid()))
		}
		require.NoError(t, one.Release(t.Context()))
		require.NoError(t, set.Release(t.Context()))
		require.Empty(t, notes(t, client))
	})
}

func TestOwnerWithoutExpiry(t *testing.T) {
	t.Parallel()
	onEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := newLocker(t, client, rlock.WithTTL(rlock.NoExpiry), rlock.WithOwner("web-3"))
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.InDelta(t, 7*24*time.Hour, left(t, client, notes(t, client)[0]), float64(time.Minute))
		require.Equal(t, "web-3", ownerOf(t, locker, "job"))
		require.NoError(t, lock.Detach())
		next, err := newLocker(t, client, rlock.WithOwner("web-4")).Attach(t.Context(), lock.Token(), lock.Fence(), "job")
		require.NoError(t, err)
		require.Equal(t, "web-4", ownerOf(t, locker, "job"))
		require.NoError(t, next.Release(t.Context()))
		require.Empty(t, notes(t, client))
	})
}

// The lock is what matters: without the right to write texts, or an answer to it, it
// is acquired, extended and released all the same.
func TestOwnerIsBestEffort(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		cycle := func(t *testing.T, locker *rlock.Locker) {
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			require.Empty(t, ownerOf(t, locker, "job"))
			require.NoError(t, lock.Extend(t.Context(), time.Minute))
			require.NoError(t, lock.Release(t.Context()))
		}
		t.Run("not allowed", func(t *testing.T) {
			server := e.Start(t)
			server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~job", "~rlock:fence:*", "+@all")
			cycle(t, newLocker(t, server.Client(t, func(o *rueidis.ClientOption) {
				o.Username, o.Password = "app", "secret"
			}), rlock.WithOwner("web-3")))
		})
		t.Run("no answer", func(t *testing.T) {
			f, locker, _ := newFaulty(t, e, rlock.WithOwner("web-3"))
			f.when(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if is(words, gen.NoteSHA1) || is(words, gen.UnnoteSHA1) {
					return noReply()
				}
				return run()
			})
			cycle(t, locker)
		})
	})
}

// Only locks with a text pay for it, and releasing on a dead context removes it.
func TestOwnerCosts(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		server := e.Start(t)
		client := server.Client(t)
		require.NoError(t, gen.New().Load(t.Context(), client))
		locker := newLocker(t, client)
		for name, test := range map[string]struct {
			opts  []rlock.Option
			calls int64
		}{
			"without": {nil, 2},
			"with":    {[]rlock.Option{rlock.WithOwner("web-3")}, 4},
		} {
			before := scripts(t, server)
			lock, err := locker.Acquire(t.Context(), "job", test.opts...)
			require.NoError(t, err)
			ended, cancel := context.WithCancel(t.Context())
			cancel()
			require.NoError(t, lock.Release(ended))
			require.Equal(t, test.calls, scripts(t, server)-before, name)
			require.Empty(t, notes(t, client))
		}
	})
}
