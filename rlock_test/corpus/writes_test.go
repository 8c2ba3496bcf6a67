package corpus_test

import (
	"context"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/corpus/bindings"
)

func lock(t *testing.T, e target, name string) *rlock.Lock {
	t.Helper()
	locker, err := rlock.New(e.client)
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	held, err := locker.Acquire(t.Context(), e.key(name))
	require.NoError(t, err)
	return held
}

// A holder that has lost its lock writes nothing, whatever it believes.
func guardedPut(t *testing.T, e target) {
	held := lock(t, e, "lock")
	p := bindings.GuardedPutParams{Lock: held, Value: e.key("value"), Text: "first"}
	tell(t, e, e.GuardedPut, p)

	e.set(t, "DEL", held.Key())
	p.Text = "second"
	require.ErrorIs(t, e.GuardedPut(t.Context(), e.client, p), bindings.ErrNotHeld, "the lock is gone")
	p.Lock = lock(t, e, "lock")
	tell(t, e, e.GuardedPut, p)
	p.Lock, p.Text = held, "third"
	require.ErrorIs(t, e.GuardedPut(t.Context(), e.client, p), bindings.ErrNotHeld, "another holds the lock")
	require.Equal(t, "second", e.text(t, "GET", p.Value))

	p.Lock = nil
	var wrong *redislua.ParamError
	require.ErrorAs(t, e.GuardedPut(t.Context(), e.client, p), &wrong)
}

// A reader writes as long as readers have the lock with whom it got its share, and nobody else does.
func sharedPut(t *testing.T, e target) {
	ctx := t.Context()
	locker, err := rlock.New(e.client)
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	key, p := e.key("shared"), bindings.SharedPutParams{Copy: e.key("copy"), Text: "copy"}
	refused := func(lock redislua.Held, why string) {
		t.Helper()
		p.Lock = lock
		require.ErrorIs(t, e.SharedPut(ctx, e.client, p), bindings.ErrNotShared, why)
	}
	unsent := func(lock redislua.Held) {
		t.Helper()
		p.Lock = lock
		require.ErrorAs(t, e.SharedPut(ctx, e.client, p), new(*redislua.ParamError))
	}
	reader, err := locker.AcquireShared(ctx, key)
	require.NoError(t, err)
	readers := reader.Readers()
	p.Lock = readers
	tell(t, e, e.SharedPut, p)
	guarded := bindings.GuardedPutParams{Lock: reader, Value: e.key("value")}
	require.ErrorIs(t, e.GuardedPut(ctx, e.client, guarded), bindings.ErrNotHeld,
		"a reader does not have the whole lock")

	other, err := locker.AcquireShared(ctx, key)
	require.NoError(t, err)
	require.NoError(t, reader.Release(ctx))
	tell(t, e, e.SharedPut, p) // no writer has come
	require.NoError(t, other.Release(ctx))
	refused(readers, "all readers have gone")

	writer, err := locker.Acquire(ctx, key)
	require.NoError(t, err)
	refused(readers, "a writer has the lock")
	refused(writer, "a writer is no reader")
	unsent(writer.Readers())
	require.NoError(t, writer.Release(ctx))
	share, err := locker.AcquireShared(ctx, key)
	require.NoError(t, err)
	refused(readers, "others read than those with whom it did")
	p.Lock, p.Text = share.Readers(), "newer"
	tell(t, e, e.SharedPut, p)
	require.NoError(t, share.Release(ctx))

	permit, err := locker.AcquirePermits(ctx, key, 1, 2)
	require.NoError(t, err)
	refused(permit, "somebody else may have its permit")
	unsent(permit.Readers())
	require.NoError(t, permit.Release(ctx))
	require.Equal(t, "newer", e.text(t, "GET", p.Copy))

	unsent(nil)
	unsent((*rlock.Lock)(nil).Readers())
}

// Once a later holder has written, an earlier one cannot, even where nothing is
// known of locks.
func fencedPut(t *testing.T, e target) {
	old := lock(t, e, "lock")
	require.NoError(t, old.Release(t.Context()))
	young := lock(t, e, "lock")
	require.Greater(t, young.Fence(), old.Fence())

	p := bindings.FencedPutParams{Entry: e.key("entry"), Text: "old", Fence: old}
	tell(t, e, e.FencedPut, p)
	p.Text, p.Fence = "young", young
	tell(t, e, e.FencedPut, p)
	tell(t, e, e.FencedPut, p)
	require.NoError(t, young.Release(t.Context()))
	p.Text, p.Fence = "late", old
	require.ErrorIs(t, e.FencedPut(t.Context(), e.client, p), bindings.ErrStaleFence)
	require.Equal(t, "young", e.text(t, "HGET", p.Entry, "value"))
	require.Equal(t, strconv.FormatUint(young.Fence(), 10), e.text(t, "HGET", p.Entry, "fence"))

	p.Fence = nil
	var wrong *redislua.ParamError
	require.ErrorAs(t, e.FencedPut(t.Context(), e.client, p), &wrong)
}

// Several values come into being together, or not at all.
func setMany(t *testing.T, e target) {
	p := bindings.SetManyParams{Values: e.keys("a", "b"), Content: [][]byte{{1}, {2}}}
	require.True(t, ask(t, e, e.SetMany, p))
	require.Equal(t, int64(-1), e.number(t, "PTTL", e.key("a")))
	require.Equal(t, "\x02", e.text(t, "GET", e.key("b")))
	p.Values, p.Keep = e.keys("c", "b"), time.Hour
	require.False(t, ask(t, e, e.SetMany, p))
	require.Equal(t, int64(0), e.number(t, "EXISTS", e.key("c")))
	p.Values = e.keys("c", "d")
	require.True(t, ask(t, e, e.SetMany, p))
	require.Positive(t, e.number(t, "PTTL", e.key("d")))
}

// Tags are counted once, and read by article.
func tags(t *testing.T, e target) {
	p := bindings.TagAllParams{Tags: e.key("a"), Members: []string{"x", "y", "x"}}
	require.Equal(t, int64(2), ask(t, e, e.TagAll, p))
	p.Members = []string{"z", "y"}
	require.Equal(t, int64(1), ask(t, e, e.TagAll, p))
	got := ask(t, e, e.TagsOf, bindings.TagsOfParams{Articles: e.keys("a", "none")})
	require.Equal(t, map[string][]string{e.key("a"): {"x", "y", "z"}}, got)
}

// Subscribers hear of a change, not of a repetition.
func setAndNotify(t *testing.T, e target) {
	p := bindings.SetAndNotifyParams{Value: e.key("value"), Text: "on", Channel: e.key("channel")}
	require.Equal(t, bindings.SetAndNotifyResult{Changed: true}, ask(t, e, e.SetAndNotify, p))
	require.Equal(t, bindings.SetAndNotifyResult{}, ask(t, e, e.SetAndNotify, p))

	heard := make(chan string, 1000)
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	var listener sync.WaitGroup
	listener.Go(func() {
		subscribe := e.client.B().Subscribe().Channel(p.Channel).Build()
		_ = e.client.Receive(ctx, subscribe, func(m rueidis.PubSubMessage) { heard <- m.Message })
	})
	defer listener.Wait()
	defer stop()
	for i := 0; len(heard) == 0; i++ {
		require.NoError(t, ctx.Err(), "nobody hears anything")
		p.Text = strconv.Itoa(i)
		require.True(t, ask(t, e, e.SetAndNotify, p).Changed)
		time.Sleep(time.Millisecond) // the subscription may take a while
	}
	require.Equal(t, p.Text, e.text(t, "GET", p.Value))
}

// A recorded change is applied as it stands; what is no command fails.
func applyChange(t *testing.T, e target) {
	tell(t, e, e.ApplyChange, bindings.ApplyChangeParams{Copy: e.key("set"), Verb: "SADD",
		Arguments: []string{"a", "b"}})
	require.Equal(t, int64(2), e.number(t, "SCARD", e.key("set")))
	tell(t, e, e.ApplyChange, bindings.ApplyChangeParams{Copy: e.key("set"), Verb: "DEL"})
	require.Equal(t, int64(0), e.number(t, "EXISTS", e.key("set")))
	require.Error(t, e.ApplyChange(t.Context(), e.client,
		bindings.ApplyChangeParams{Copy: e.key("set"), Verb: "NONSENSE"}))
}

// Flags are what the hash holds, all of them.
func flags(t *testing.T, e target) {
	p := bindings.ReadFlagsParams{Flags: e.key("flags")}
	require.Empty(t, ask(t, e, e.ReadFlags, p))
	e.set(t, "HSET", p.Flags, "dark", "on", "beta", "")
	require.Equal(t, map[string]string{"dark": "on", "beta": ""}, ask(t, e, e.ReadFlags, p))
	e.set(t, "SET", e.key("text"), "x")
	p.Flags = e.key("text")
	_, err := e.ReadFlags(t.Context(), e.client, p)
	require.ErrorContains(t, err, "WRONGTYPE")
}

// A second read asks no server, until the server says that the key has changed.
func cachedReads(t *testing.T, e target) {
	flag := bindings.ReadFlagParams{Flags: e.key("flags"), Flag: "dark"}
	require.Equal(t, redislua.Null[string]{}, ask(t, e, e.ReadFlag, flag))
	for i := range 2 {
		r, err := e.ReadFlagCached(t.Context(), e.client, flag, time.Minute)
		require.NoError(t, err)
		require.Equal(t, redislua.Null[string]{}, r.Value)
		require.Equal(t, e.caches && i > 0, r.Hit)
	}
	e.set(t, "HSET", flag.Flags, "dark", "on")
	require.Eventually(t, func() bool {
		r, err := e.ReadFlagCached(t.Context(), e.client, flag, time.Minute)
		return err == nil && r.Value == some("on")
	}, 5*time.Second, time.Millisecond)
	flag.Flag = "light"
	r, err := e.ReadFlagCached(t.Context(), e.client, flag, time.Minute)
	require.NoError(t, err)
	require.False(t, r.Value.Valid, "each flag is an answer of its own")

	profile := bindings.ReadProfileParams{Profile: e.key("profile")}
	require.False(t, ask(t, e, e.ReadProfile, profile).Valid)
	e.set(t, "SET", profile.Profile, `{"name":"Ann"}`)
	got, err := e.ReadProfileCached(t.Context(), e.client, profile, time.Minute)
	require.NoError(t, err)
	require.Equal(t, some(bindings.Profile{Name: "Ann"}), got.Value)
	e.set(t, "SET", e.key("broken"), `{"name":`)
	_, err = e.ReadProfileCached(t.Context(), e.client, bindings.ReadProfileParams{Profile: e.key("broken")},
		time.Minute)
	var wrong *redislua.ReplyError
	require.ErrorAs(t, err, &wrong)
}
