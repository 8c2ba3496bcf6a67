package remote_test

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
)

// start returns a server, on which "mine" has the token "token" for a minute and "others" that
// of somebody else.
func start(t *testing.T) (*rlocktest.Server, rueidis.Client, *remote.Server) {
	t.Helper()
	embedded := rlocktest.Start(t)
	client, err := rueidis.NewClient(embedded.Option())
	require.NoError(t, err)
	t.Cleanup(client.Close)
	for key, token := range map[string]string{"mine": "token", "others": "another token"} {
		require.NoError(t, client.Do(t.Context(), client.B().Set().Key(key).Value(token).Ex(time.Minute).Build()).Error())
	}
	return embedded, client, remote.NewServer(client, gen.New(gen.WithoutRetry()))
}

func owner(t *testing.T, client rueidis.Client, key string) string {
	t.Helper()
	token, err := client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
	if rueidis.IsRedisNil(err) {
		return ""
	}
	require.NoError(t, err)
	return token
}

func TestRelease(t *testing.T) {
	t.Parallel()
	embedded, client, server := start(t)
	for _, key := range []string{"others", "nobody's"} {
		freed, err := server.Release(t.Context(), []string{key}, "token")
		require.NoError(t, err)
		require.False(t, freed, "of %s", key)
	}
	freed, err := server.Release(t.Context(), []string{"mine", "others"}, "token")
	require.NoError(t, err)
	require.False(t, freed, "only one of the two")
	require.Empty(t, owner(t, client, "mine"))
	require.Equal(t, "another token", owner(t, client, "others"))

	embedded.LoseReply(rlocktest.Script(gen.ReleaseSHA1))
	freed, err = server.Release(t.Context(), []string{"others"}, "another token")
	require.NoError(t, err)
	require.True(t, freed, "by the try without an answer")
	require.Empty(t, owner(t, client, "others"))

	embedded.FailNext(rlocktest.Script(gen.ReleaseSHA1), "NOPERM proxy refuses EVALSHA long-secret-token")
	_, err = server.Release(t.Context(), []string{"mine"}, "long-secret-token")
	require.ErrorContains(t, err, "NOPERM")
	require.NotContains(t, err.Error(), "secret")
}

func TestReleaseDetached(t *testing.T) {
	t.Parallel()
	_, client, server := start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := server.Release(ctx, []string{"mine"}, "token")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, "token", owner(t, client, "mine"))
	require.NoError(t, server.ReleaseDetached(ctx, []string{"mine"}, "token"))
	require.Empty(t, owner(t, client, "mine"))
}

func TestAttach(t *testing.T) {
	t.Parallel()
	embedded, client, server := start(t)
	a, err := server.Attach(t.Context(), []string{"mine", "others"}, "new", []string{"token"})
	require.NoError(t, err)
	require.Equal(t, "others", a.Lost)
	require.Equal(t, "token", owner(t, client, "mine"), "nothing has changed")

	embedded.LoseReply(rlocktest.Script(gen.AttachSHA1))
	before := clock.Now()
	a, err = server.Attach(t.Context(), []string{"mine"}, "new", []string{"token"})
	require.NoError(t, err)
	require.Empty(t, a.Lost, "the second try knows the new token")
	require.Greater(t, a.Sent, before.After(5*time.Millisecond), "the one that was answered")
	require.InDelta(t, time.Minute, a.Remaining, float64(20*time.Second))
	require.Equal(t, "new", owner(t, client, "mine"))

	require.NoError(t, client.Do(t.Context(), client.B().Persist().Key("mine").Build()).Error())
	a, err = server.Attach(t.Context(), []string{"mine"}, "newer", []string{"new"})
	require.NoError(t, err)
	require.Equal(t, clock.NoExpiry, a.Remaining)
}
