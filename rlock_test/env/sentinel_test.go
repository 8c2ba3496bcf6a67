package env_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestSentinelsPromoteTheReplica(t *testing.T) {
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		s := e.StartSentinel(t)
		require.Len(t, s.Sentinels, 3)
		client := s.Client(t)
		set := func(value string) error {
			return client.Do(t.Context(), client.B().Set().Key("k").Value(value).Build()).Error()
		}
		require.NoError(t, set("before"))
		require.Equal(t, "before", text(t, s.Primary.Do(t, "GET", "k")))
		env.Soon(t, func() bool {
			reply := s.Replica.Do(t, "GET", "k")
			return !reply.IsNil() && text(t, reply) == "before"
		}, "the replica has the key")

		s.Failover(t)
		require.Equal(t, "before", text(t, s.Replica.Do(t, "GET", "k")))
		env.Soon(t, func() bool { return set("after") == nil }, "the client follows")
		require.Equal(t, "after", text(t, s.Replica.Do(t, "GET", "k")))

		s.Replace(t)
		require.Equal(t, "after", text(t, s.Replica.Do(t, "GET", "k")))
		s.Failover(t)
		env.Soon(t, func() bool { return set("again") == nil }, "the client follows")
		require.Equal(t, "again", text(t, s.Replica.Do(t, "GET", "k")))
	})
}

func TestSentinelsEndWithTheTest(t *testing.T) {
	var addrs []string
	t.Run("inner", func(t *testing.T) {
		s := env.Engines(t)[0].StartSentinel(t)
		for _, server := range append(s.Sentinels, s.Primary, s.Replica) {
			addrs = append(addrs, server.Addr())
		}
	})
	require.Len(t, addrs, 5)
	for _, addr := range addrs {
		requireGone(t, addr)
	}
}
