package notify_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// A client that reads the keys of held locks is told of their next change.
func TestRedis(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	hub := notify.NewHub()
	client, err := rueidis.NewClient(
		rueidis.ClientOption{InitAddress: []string{s.Addr()}, ForceSingleClient: true,
			OnInvalidations: hub.OnInvalidations})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	do := func(command ...string) {
		t.Helper()
		require.NoError(t, client.Do(t.Context(), client.B().Arbitrary(command...).Build()).Error())
	}
	do("SET", "a", "token", "PX", "60000")
	do("SET", "b", "other")
	server := notify.Redis{Client: client, Scripts: gen.New()}

	lefts := server.Left(t.Context(), [][]string{{"a"}, {"b", "gone"}})
	require.Len(t, lefts, 2)
	require.NoError(t, lefts[0].Err)
	require.InDelta(t, time.Minute, lefts[0].Keys[0], float64(10*time.Second))
	require.Equal(t, notify.Answer[time.Duration]{Keys: []time.Duration{clock.NoExpiry, notify.Gone}}, lefts[1])

	w := hub.Listen().Watch("b")
	defer w.Leave()
	require.Equal(t, []notify.Answer[string]{{Keys: []string{"token"}}, {Keys: []string{"other", ""}}},
		server.Owners(t.Context(), [][]string{{"a"}, {"b", "gone"}}))
	do("DEL", "b")
	select {
	case <-w.Changed():
	case <-time.After(10 * time.Second):
		require.Fail(t, "nobody was told")
	}

	client.Close()
	require.Error(t, server.Owners(t.Context(), [][]string{{"a"}})[0].Err)
	require.Error(t, server.Left(t.Context(), [][]string{{"a"}})[0].Err)
}

// The answer about each of many locks is in its place, however many keys each has.
func TestRedisReadsManyLocks(t *testing.T) {
	t.Parallel()
	s := rlocktest.Start(t)
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{s.Addr()}, ForceSingleClient: true, DisableCache: true,
		ConnWriteTimeout: 5 * time.Minute, // a busy machine takes long for 14,000 keys, with the race detector
	})
	require.NoError(t, err)
	t.Cleanup(client.Close)
	var locks [][]string
	var owners []notify.Answer[string]
	var lefts []notify.Answer[time.Duration]
	for lock, kind := range map[string]struct{ locks, keys int }{"one": {150, 1}, "three": {50, 3},
		"most": {20, 99}, "full": {110, 100}, "more": {10, 130}} {
		for n := range kind.locks {
			keys, owned := make([]string, kind.keys), make([]string, kind.keys)
			set := client.B().Mset().KeyValue()
			for i := range keys {
				keys[i], owned[i] = fmt.Sprint(lock, ":", n, ":", i), fmt.Sprint("token", n, i)
				set = set.KeyValue(keys[i], owned[i])
			}
			require.NoError(t, client.Do(t.Context(), set.Build()).Error())
			locks = append(locks, keys)
			owners = append(owners, notify.Answer[string]{Keys: owned})
			lefts = append(lefts,
				notify.Answer[time.Duration]{Keys: slices.Repeat([]time.Duration{clock.NoExpiry}, kind.keys)})
		}
	}
	server := notify.Redis{Client: client, Scripts: gen.New()}
	require.Equal(t, owners, server.Owners(t.Context(), locks))
	require.Equal(t, lefts, server.Left(t.Context(), locks))
	require.Empty(t, server.Owners(t.Context(), nil))
}
