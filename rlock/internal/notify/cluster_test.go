package notify_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/notify"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// channelOf is the channel of a process for a key, in the key's slot.
func channelOf(key string) string { return "rlock:grant:{" + key + "}:p" }

// onCluster returns Grants of a client of a cluster.
func onCluster(t *testing.T, client rueidis.Client) *notify.Grants {
	t.Helper()
	g := notify.NewGrants(t.Context(), client, channelOf, new(strays).add)
	t.Cleanup(g.Close)
	return g
}

// keysOn returns keys of different slots of the second node.
func keysOn(c *env.Cluster, n int) (keys []string) {
	for i := 0; len(keys) < n; i++ {
		if key := fmt.Sprint("key", i); int(redislua.Slot(key))*len(c.Nodes)/16384 == 1 {
			keys = append(keys, key)
		}
	}
	return keys
}

// subscribed is how many channels have listeners on a node.
func subscribed(t *testing.T, node *env.Server) int {
	t.Helper()
	reply := node.Do(t, "PUBSUB", "SHARDCHANNELS")
	names, err := reply.AsStrSlice()
	require.NoError(t, err)
	return len(names)
}

func publish(t *testing.T, node *env.Server, key, token string) {
	t.Helper()
	node.Do(t, "SPUBLISH", channelOf(key), message(token, 7))
}

// The channels of a node's slots share a connection, and each hears what is said on it. Those that
// nobody uses any more end, and the connection with the last of them.
func TestListenOnACluster(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		c := e.StartCluster(t)
		g := onCluster(t, c.Client(t))
		g.KeepUnused(3 * time.Second)
		keys := keysOn(c, 20)
		require.NoError(t, env.Together(len(keys),
			func(i int) error { return g.Channel(keys[i]).Listen(t.Context()) }))
		require.Equal(t, 1, connections(t, c.Nodes[1]))
		require.Equal(t, len(keys), subscribed(t, c.Nodes[1]))
		require.Zero(t, connections(t, c.Nodes[0])+connections(t, c.Nodes[2]))
		for _, key := range keys {
			require.NoError(t, g.Channel(key).Listen(t.Context()))
			e := g.Channel(key).Expect("k", "token of "+key)
			publish(t, c.Nodes[1], key, "token of "+key)
			takes(t, e, grant("token of "+key, 7))
			e.Taken()
		}

		used := g.Channel(keys[0])
		kept := used.Expect("k", "t")
		for end := time.Now().Add(10 * time.Second); subscribed(t,
			c.Nodes[1]) != 1; time.Sleep(20 * time.Millisecond) {
			_, _ = kept.Take() // as whoever waits does now and then
			require.True(t, time.Now().Before(end), "channels that nobody uses do not end")
		}
		require.True(t, used.Listening())
		require.False(t, g.Channel(keys[1]).Listening())
		publish(t, c.Nodes[1], keys[0], "t")
		takes(t, kept, grant("t", 7))

		require.NoError(t, g.Channel(keys[1]).Listen(t.Context()), "a channel that has ended begins anew")
		again := g.Channel(keys[1]).Expect("k", "u")
		publish(t, c.Nodes[1], keys[1], "u")
		takes(t, again, grant("u", 7))
		env.Soon(t, func() bool { return connections(t, c.Nodes[1]) == 0 }, "nobody uses any")

		g.Close()
		require.ErrorIs(t, used.Listen(t.Context()), clock.ErrStopped)
		require.ErrorIs(t, g.Channel("another").Listen(t.Context()), clock.ErrStopped)
	})
}

// Callers that begin and end the use of a channel all the time always hear what is said while they use it.
func TestListenOnAndOff(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		c := e.StartCluster(t)
		g := onCluster(t, c.Client(t))
		const unused = 5 * time.Millisecond
		g.KeepUnused(unused)
		keys := keysOn(c, 4)
		for i := range 400 {
			key := keys[i%len(keys)]
			channel, began := g.Channel(key), time.Now()
			require.NoError(t, channel.Listen(t.Context()))
			e := channel.Expect("k", fmt.Sprint(i))
			counts := c.Nodes[1].Do(t, "PUBSUB", "SHARDNUMSUB", channelOf(key))
			list, err := counts.ToArray()
			require.NoError(t, err)
			if n, _ := list[1].ToInt64(); n == 0 {
				require.GreaterOrEqual(t, time.Since(began), unused, "it has ended before it was unused for so long")
			}
			e.Taken()
			time.Sleep(time.Duration(i%8) * time.Millisecond)
		}
	})
}

// Without the right to unsubscribe, a channel that begins anew hears all the same.
func TestListenWithoutTheRightToUnsubscribe(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		c := e.StartCluster(t)
		for _, node := range c.Nodes {
			node.Do(t, "ACL", "SETUSER", "u", "on", ">secret", "~*", "&*", "+@all", "-sunsubscribe")
		}
		g := onCluster(t, c.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "u", "secret" }))
		g.KeepUnused(50 * time.Millisecond)
		keys := keysOn(c, 2)
		for round := range 3 {
			for i, key := range keys {
				channel := g.Channel(key)
				require.NoError(t, channel.Listen(t.Context()))
				token := fmt.Sprint(round, i)
				e := channel.Expect("k", token)
				publish(t, c.Nodes[1], key, token)
				takes(t, e, grant(token, 7))
				e.Taken()
			}
			for range 10 {
				require.NoError(t, g.Channel(keys[0]).Listen(t.Context()))
				time.Sleep(20 * time.Millisecond)
			}
		}
	})
}

// A user who may not find the node, or not listen there, learns which rights it needs.
func TestListenOnAClusterWithoutRights(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		c := e.StartCluster(t)
		for denied, needs := range map[string]string{
			"-zrem":           "+zrem and ~" + channelOf("key"),
			"-ssubscribe":     "+ssubscribe and &" + channelOf("key"),
			"resetkeys ~key*": "+zrem and ~" + channelOf("key"),
			"resetchannels":   "+ssubscribe and &" + channelOf("key"),
		} {
			for _, node := range c.Nodes {
				node.Do(t, append([]string{"ACL", "SETUSER", "u", "reset", "on", ">secret", "~*", "&*", "+@all"},
					strings.Fields(denied)...)...)
			}
			client := c.Client(t, func(o *rueidis.ClientOption) { o.Username, o.Password = "u", "secret" })
			g := onCluster(t, client)
			err := g.Channel("key").Listen(t.Context())
			require.ErrorContains(t, err, "NOPERM", denied)
			require.ErrorContains(t, err, needs, denied)
			g.Close()
		}
	})
}

// A node that does not know who has a slot, as one that is cut off from the others, keeps nobody from
// subscribing at the node that has it. Which node is asked first is random, so there are many channels.
func TestListenBesideANodeThatDoesNotKnow(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		c := e.StartCluster(t)
		g := onCluster(t, c.Client(t))
		owner := c.Nodes[1].Do(t, "CLUSTER", "MYID")
		id, err := owner.ToString()
		require.NoError(t, err)
		c.Nodes[2].Do(t, "CLUSTER", "FORGET", id)
		for _, key := range keysOn(c, 30) {
			require.NoError(t, g.Channel(key).Listen(t.Context()))
		}
		require.Equal(t, 30, subscribed(t, c.Nodes[1]))
	})
}

// A subscription that a server has not ended, although another node has the slot now, is found by
// Recheck, whether or not the client knows that node.
func TestRecheck(t *testing.T) {
	t.Parallel()
	quiet := func(o *rueidis.ClientOption) { o.Dialer.KeepAlive = time.Hour }
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		t.Run("a replica from the beginning", func(t *testing.T) {
			t.Parallel()
			c := e.StartReplicatedCluster(t)
			recheck(t, c, c.Client(t, quiet), c.Replicas[1])
		})
		t.Run("a replica that came later", func(t *testing.T) {
			t.Parallel()
			c := e.StartCluster(t)
			client := c.Client(t, quiet)
			recheck(t, c, client, e.AddReplica(t, c, 1))
		})
	})
}

// One call of Recheck is enough, also just after the subscription.
func TestRecheckOnce(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		c := e.StartCluster(t)
		g := onCluster(t, c.Client(t))
		key := keysOn(c, 1)[0]
		id := c.Nodes[0].Do(t, "CLUSTER", "MYID")
		owner, err := id.ToString()
		require.NoError(t, err)
		channel := g.Channel(key)
		require.NoError(t, channel.Listen(t.Context()))
		c.Nodes[1].Stop()
		defer c.Nodes[1].Cont()
		for _, node := range []*env.Server{c.Nodes[0], c.Nodes[2]} {
			node.Do(t, "CLUSTER", "SETSLOT", fmt.Sprint(redislua.Slot(key)), "NODE", owner)
		}
		channel.Recheck()
		env.Soon(t, func() bool { return subscribed(t, c.Nodes[0]) == 1 }, "it listens at the new owner")
	})
}

func recheck(t *testing.T, c *env.Cluster, client rueidis.Client, replica *env.Server) {
	g := onCluster(t, client)
	key := keysOn(c, 1)[0]
	// The client's connection to the node is up, so no failure to dial it has the client look around.
	require.NoError(t, client.Do(t.Context(), client.B().Del().Key(key).Build()).Error())
	channel := g.Channel(key)
	require.NoError(t, channel.Listen(t.Context()))
	expected := channel.Expect("k", "t")
	require.Equal(t, 1, subscribed(t, c.Nodes[1]))
	c.Nodes[1].Stop()
	defer c.Nodes[1].Cont()
	replica.Do(t, "CLUSTER", "FAILOVER", "TAKEOVER")
	require.True(t, channel.Listening(), "nobody has noticed it")
	defer func() {
		if t.Failed() {
			nodes := replica.Do(t, "CLUSTER", "NODES")
			t.Logf("the replica, %s, sees\n%s", replica.Addr(), nodes.String())
		}
	}()
	// A look takes seconds, as the node that is stopped and the client each have one to answer in.
	require.Eventually(t, func() bool {
		channel.Recheck()
		return subscribed(t, replica) == 1
	}, time.Minute, 2*time.Millisecond, "it listens at the new primary")
	publish(t, replica, key, "t")
	takes(t, expected, grant("t", 7))
}
