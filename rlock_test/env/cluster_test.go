package env_test

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestClusterSpreadsKeysOverItsNodes(t *testing.T) {
	env.Each(t, func(t *testing.T, e env.Engine) {
		c := e.StartCluster(t)
		require.Len(t, c.Nodes, 3)
		client := c.Client(t)
		for i, end := range []int64{5461, 10922, 16384} {
			require.Equal(t, c.Nodes[i].Addr(), c.Addrs()[i])
			key := keyBelow(t, c.Nodes[i], end)
			require.NoError(t, client.Do(t.Context(), client.B().Set().Key(key).Value("v").Build()).Error())
			require.Equal(t, "v", text(t, c.Nodes[i].Do(t, "GET", key)))
		}
		for _, node := range c.Nodes {
			require.Equal(t, int64(1), number(t, node.Do(t, "DBSIZE")))
		}
	})
}

func TestClusterPromotesReplicas(t *testing.T) {
	env.Each(t, func(t *testing.T, e env.Engine) {
		c := e.StartReplicatedCluster(t)
		client := c.Client(t)
		set := func(value string) error {
			return client.Do(t.Context(), client.B().Set().Key("key").Value(value).Build()).Error()
		}
		require.NoError(t, set("before"))
		owner := int(number(t, c.Nodes[0].Do(t, "CLUSTER", "KEYSLOT", "key"))) / 5462
		c.Failover(t, owner)
		env.Soon(t, func() bool { return set("after") == nil }, "the client follows")
		require.Equal(t, "after", text(t, c.Replicas[owner].Do(t, "GET", "key")))
	})
}

// keyBelow returns a key of the third of the slots that ends before end.
func keyBelow(t *testing.T, node *env.Server, end int64) string {
	t.Helper()
	for i := range 1000 {
		key := "key" + strconv.Itoa(i)
		if slot := number(t, node.Do(t, "CLUSTER", "KEYSLOT", key)); slot < end && slot >= end-5461 {
			return key
		}
	}
	require.FailNow(t, "no key found")
	return ""
}
