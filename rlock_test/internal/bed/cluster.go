package bed

import (
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

const (
	clusterSize    = 3
	clusterSlots   = 16384
	clusterTimeout = 20 * time.Second
)

// Cluster is a Redis Cluster of three primaries without replicas.
type Cluster struct {
	// Nodes are the primaries in the order of the slots they own, a third
	// each: 0 to 5460, 5461 to 10921 and 10922 to 16383.
	Nodes []*Server
}

// StartCluster starts a cluster and returns it once every node reports it as
// working. The nodes are servers like those of Engine.Start, and the cleanup
// of tb kills them. A cluster that does not work within twenty seconds ends
// the test with a failure.
func (e Engine) StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	c := &Cluster{}
	for range clusterSize {
		c.Nodes = append(c.Nodes, e.start(tb, freeClusterPort, []string{
			"--cluster-enabled", "yes",
			"--cluster-config-file", "nodes.conf",
			"--cluster-announce-ip", host,
		}))
	}
	c.assignSlots(tb)
	c.introduce(tb)
	c.await(tb)
	return c
}

// Addrs returns the addresses of the nodes in the order of Nodes.
func (c *Cluster) Addrs() []string {
	addrs := make([]string, 0, len(c.Nodes))
	for _, node := range c.Nodes {
		addrs = append(addrs, node.Addr())
	}
	return addrs
}

// Client returns a new client of the cluster with the addresses of all nodes
// and changed by opts in their order. The cleanup of tb closes the client.
func (c *Cluster) Client(tb testing.TB, opts ...func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return newClient(tb, rueidis.ClientOption{InitAddress: c.Addrs()}, opts)
}

// Nodes with the same epoch would have to settle a conflict first, and
// servers older than Redis 7 take slots only one by one.
func (c *Cluster) assignSlots(tb testing.TB) {
	tb.Helper()
	for i, node := range c.Nodes {
		node.Do(tb, "CLUSTER", "SET-CONFIG-EPOCH", strconv.Itoa(i+1))
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
	for i, node := range c.Nodes {
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
	for _, node := range c.Nodes {
		for !node.seesCluster(tb) {
			if time.Now().After(deadline) {
				reply := node.Do(tb, "CLUSTER", "NODES")
				tb.Fatalf("%s: the cluster does not work within %s: %s", node.Addr(), clusterTimeout, reply.String())
			}
			time.Sleep(pollInterval)
		}
	}
}

// A node that knows only itself and its own slots is not enough: a client
// that asks it would miss the others.
func (s *Server) seesCluster(tb testing.TB) bool {
	tb.Helper()
	reply := s.Do(tb, "CLUSTER", "INFO")
	text, err := reply.ToString()
	if err != nil {
		tb.Fatalf("%s: CLUSTER INFO: %v", s.addr, err)
	}
	fields, size := infoFields(text), strconv.Itoa(clusterSize)
	return fields["cluster_state"] == "ok" && fields["cluster_known_nodes"] == size && fields["cluster_size"] == size
}
