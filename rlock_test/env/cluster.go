package env

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

const (
	clusterSize    = 3
	clusterSlots   = 16384
	clusterTimeout = 20 * time.Second
)

// Cluster is a Redis Cluster of three primaries, with or without replicas.
type Cluster struct {
	// Nodes are the primaries in the order of their slots. Each owns a third: 0 to 5460, 5461 to 10921 and
	// 10922 to 16383.
	Nodes []*Server
	// Replicas has the replica of each of Nodes, or is empty.
	Replicas []*Server
}

// StartCluster starts a cluster, and returns it when every node reports that the cluster works. The nodes are
// servers as Engine.Start makes them. The cleanup of tb kills them. A cluster that does not work within
// twenty seconds ends the test with a failure.
func (e Engine) StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	c := &Cluster{Nodes: e.startNodes(tb)}
	c.assignSlots(tb)
	c.introduce(tb)
	c.await(tb)
	return c
}

// StartReplicatedCluster is StartCluster with a replica for each primary.
func (e Engine) StartReplicatedCluster(tb testing.TB) *Cluster {
	tb.Helper()
	c := &Cluster{Nodes: e.startNodes(tb), Replicas: e.startNodes(tb)}
	// The nodes must hear from each other, and a short timeout makes them talk often.
	c.setTimeout(tb, "4000")
	c.assignSlots(tb)
	c.introduce(tb)
	c.await(tb)
	for i, replica := range c.Replicas {
		c.replicate(tb, replica, c.Nodes[i])
	}
	for i, replica := range c.Replicas {
		c.awaitReplica(tb, replica, c.Nodes[i])
	}
	// From here on the timeout is long, so that a primary on a busy machine does not look dead.
	c.setTimeout(tb, "15000")
	return c
}

// AddReplica starts a replica of the primary i, which existing clients do not know. It returns the replica
// when the replica has the primary's data and each node has heard of the replica.
func (e Engine) AddReplica(tb testing.TB, c *Cluster, i int) *Server {
	tb.Helper()
	replica := e.StartNode(tb)
	c.Replicas = append(c.Replicas, replica)
	c.setTimeout(tb, "4000")
	c.introduce(tb)
	c.await(tb)
	c.replicate(tb, replica, c.Nodes[i])
	c.awaitReplica(tb, replica, c.Nodes[i])
	c.setTimeout(tb, "15000")
	return replica
}

func (c *Cluster) setTimeout(tb testing.TB, milliseconds string) {
	tb.Helper()
	for _, node := range c.servers() {
		node.Do(tb, "CONFIG", "SET", "cluster-node-timeout", milliseconds)
	}
}

// Failover kills the primary i. It returns when the replica has taken over and every other node says so. A
// test can call Failover once for each primary.
func (c *Cluster) Failover(tb testing.TB, i int) {
	tb.Helper()
	c.setTimeout(tb, "1000")
	c.Nodes[i].Kill()
	_, port := split(tb, c.Replicas[i].Addr())
	for _, node := range c.servers() {
		if !node.running() {
			continue
		}
		node.poll(tb, "the replica is not promoted", []string{"CLUSTER", "SLOTS"},
			func(reply rueidis.RedisMessage) bool {
				return ownsFrom(reply, firstSlot(i), port)
			})
	}
}

// Addrs returns the addresses of Nodes and then of Replicas, in their order.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, 0, len(c.Nodes))
	for _, node := range c.servers() {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

// Client returns a new client of the cluster with the addresses of all nodes. The opts change its options, in
// their order. The cleanup of tb closes the client.
func (c *Cluster) Client(tb testing.TB, opts ...func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return newClient(tb, rueidis.ClientOption{InitAddress: c.Addrs()}, opts)
}

func (c *Cluster) servers() []*Server { return slices.Concat(c.Nodes, c.Replicas) }

func (e Engine) startNodes(tb testing.TB) []*Server {
	tb.Helper()
	var nodes []*Server
	for range clusterSize {
		nodes = append(nodes, e.StartNode(tb))
	}
	return nodes
}

// StartNode starts a server as Engine.Start does. The server is a cluster of its own, without slots.
func (e Engine) StartNode(tb testing.TB) *Server {
	tb.Helper()
	return e.start(tb, freeClusterPort, []string{
		"--cluster-enabled", "yes",
		"--cluster-config-file", "nodes.conf",
		"--cluster-announce-ip", host,
		// A replica may lose its first elections on a busy machine. With 0, the replica tries again for ever.
		"--cluster-replica-validity-factor", "0",
		"--repl-diskless-sync-delay", "0",
	})
}

func (c *Cluster) replicate(tb testing.TB, replica, primary *Server) {
	tb.Helper()
	id := primary.Do(tb, "CLUSTER", "MYID")
	text, err := id.ToString()
	if err != nil {
		tb.Fatal(err)
	}
	replica.Do(tb, "CLUSTER", "REPLICATE", text)
}

// A replica is ready when it has its primary's data and every node has heard of the replica.
func (c *Cluster) awaitReplica(tb testing.TB, replica, primary *Server) {
	tb.Helper()
	host, port := split(tb, primary.Addr())
	replica.poll(tb, "the replica is not in sync", []string{"ROLE"}, func(reply rueidis.RedisMessage) bool {
		return startsWith(reply, "slave", host, port, "connected")
	})
	_, own := split(tb, replica.Addr())
	for _, node := range c.servers() {
		node.poll(tb, "the node does not know the replica", []string{"CLUSTER", "NODES"},
			func(reply rueidis.RedisMessage) bool {
				text, err := reply.ToString()
				return err == nil && isReplica(text, own)
			})
	}
}

// isReplica reads a line of CLUSTER NODES: id, address, flags …
func isReplica(nodes, port string) bool {
	for line := range strings.Lines(nodes) {
		if fields := strings.Fields(line); len(fields) > 2 && strings.Contains(fields[1], ":"+port+"@") {
			return strings.Contains(fields[2], "slave")
		}
	}
	return false
}

// ownsFrom reads a reply of CLUSTER SLOTS: first slot, last slot, primary (address, port …) …
func ownsFrom(slots rueidis.RedisMessage, first int, port string) bool {
	ranges, err := slots.ToArray()
	if err != nil {
		return false
	}
	for _, r := range ranges {
		fields, err := r.ToArray()
		if err != nil || len(fields) < 3 {
			return false
		}
		if start, err := fields[0].ToInt64(); err != nil || start != int64(first) {
			continue
		}
		primary, err := fields[2].ToArray()
		if err != nil || len(primary) < 2 {
			return false
		}
		n, err := primary[1].ToInt64()
		return err == nil && strconv.FormatInt(n, 10) == port
	}
	return false
}

// Nodes with the same epoch settle their conflict with a new epoch, and the other nodes hear of it later. If
// a replica takes over meanwhile with an older epoch, it must give its slots back. So each node begins with
// its own epoch. Servers older than Redis 7 take slots only one by one.
func (c *Cluster) assignSlots(tb testing.TB) {
	tb.Helper()
	for i, node := range c.servers() {
		node.Do(tb, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
	}
	for i, node := range c.Nodes {
		args := []string{"CLUSTER", "ADDSLOTS"}
		for slot := firstSlot(i); slot < firstSlot(i+1); slot++ {
			args = append(args, strconv.Itoa(slot))
		}
		node.Do(tb, args...)
	}
}

func firstSlot(node int) int { return node * clusterSlots / clusterSize }

// Each pair meets directly, because waiting for gossip takes longer.
func (c *Cluster) introduce(tb testing.TB) {
	tb.Helper()
	for i, node := range c.servers() {
		for _, addr := range c.Addrs()[i+1:] {
			ip, port, err := net.SplitHostPort(addr)
			if err != nil {
				tb.Fatal(err)
			}
			node.Do(tb, "CLUSTER", "MEET", ip, port)
		}
	}
}

func (c *Cluster) await(tb testing.TB) {
	tb.Helper()
	deadline := time.Now().Add(clusterTimeout)
	for _, node := range c.servers() {
		for !node.seesCluster(tb, len(c.servers())) {
			if time.Now().After(deadline) {
				reply := node.Do(tb, "CLUSTER", "NODES")
				tb.Fatalf("%s: the cluster does not work within %s: %s", node.Addr(), clusterTimeout, reply.String())
			}
			time.Sleep(pollInterval)
		}
	}
}

// A node must know all other nodes. If a client asks a node that knows only itself, the client misses the
// others.
func (s *Server) seesCluster(tb testing.TB, known int) bool {
	tb.Helper()
	reply := s.Do(tb, "CLUSTER", "INFO")
	text, err := reply.ToString()
	if err != nil {
		tb.Fatalf("%s: CLUSTER INFO: %v", s.addr, err)
	}
	fields := infoFields(text)
	return fields["cluster_state"] == "ok" && fields["cluster_known_nodes"] == strconv.Itoa(known) &&
		fields["cluster_size"] == strconv.Itoa(clusterSize)
}
