package env

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
)

// SlotMove moves a slot from one node of a cluster to another. Begin, Carry and End are the three steps of
// the move, in this order.
type SlotMove struct {
	Cluster  *Cluster
	From, To *Server
	Slot     string // the number of the slot
}

// SplitSlot begins to move the slot of key from the last node to the first node, and moves the key itself.
// The last node must own the slot. Until Carry, the slot's keys are on two nodes.
func SplitSlot(t testing.TB, c *Cluster, key string) *SlotMove {
	t.Helper()
	m := &SlotMove{Cluster: c, From: c.Nodes[2], To: c.Nodes[0], Slot: fmt.Sprint(redislua.Slot(key))}
	m.Begin(t)
	host, port := split(t, m.To.Addr())
	m.From.Do(t, "MIGRATE", host, port, key, "0", "5000")
	return m
}

// Begin starts the move. The old node then sends a client that asks for a missing key to the new node.
func (m *SlotMove) Begin(t testing.TB) {
	t.Helper()
	m.To.Do(t, "CLUSTER", "SETSLOT", m.Slot, "IMPORTING", nodeID(t, m.From))
	m.From.Do(t, "CLUSTER", "SETSLOT", m.Slot, "MIGRATING", nodeID(t, m.To))
}

// Carry moves the keys that are left on the old node. There must be at least one.
func (m *SlotMove) Carry(t testing.TB) {
	t.Helper()
	reply := m.From.Do(t, "CLUSTER", "GETKEYSINSLOT", m.Slot, "100")
	keys, err := reply.AsStrSlice()
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	host, port := split(t, m.To.Addr())
	m.From.Do(t, append([]string{"MIGRATE", host, port, "", "0", "5000", "KEYS"}, keys...)...)
}

// CarryAll moves all keys of the slot, even if there are none. A script needs all its keys in one place, so
// few keys come to the old node meanwhile. CarryAll moves these too.
func (m *SlotMove) CarryAll(t testing.TB) {
	t.Helper()
	host, port := split(t, m.To.Addr())
	for {
		reply := m.From.Do(t, "CLUSTER", "GETKEYSINSLOT", m.Slot, "100")
		keys, err := reply.AsStrSlice()
		require.NoError(t, err)
		if len(keys) == 0 {
			return
		}
		m.From.Do(t, append([]string{"MIGRATE", host, port, "", "0", "5000", "KEYS"}, keys...)...)
	}
}

// End gives the slot to the new node. It returns when each node knows the epoch with which the new node owns
// the slot.
//
// A node that does not know the epoch is in danger if the slot soon moves back to it. The node then owns the
// slot with an older epoch. On a late message of the other node it gives the slot up, and deletes its keys.
func (m *SlotMove) End(t testing.TB) {
	t.Helper()
	id := nodeID(t, m.To)
	m.To.Do(t, "CLUSTER", "SETSLOT", m.Slot, "NODE", id)
	nodes := m.To.Do(t, "CLUSTER", "NODES")
	text, err := nodes.ToString()
	require.NoError(t, err)
	epoch := epochIn(text, id)
	require.Positive(t, epoch)
	for _, node := range m.Cluster.Nodes {
		node.poll(t, "the node does not know the new owner's epoch", []string{"CLUSTER", "NODES"},
			func(reply rueidis.RedisMessage) bool {
				text, err := reply.ToString()
				return err == nil && epochIn(text, id) >= epoch
			})
		node.Do(t, "CLUSTER", "SETSLOT", m.Slot, "NODE", id)
	}
}

// epochIn reads the epoch of a node in CLUSTER NODES. A line has: id, address, flags, primary, ping, pong,
// epoch … It returns 0 if the node is missing.
func epochIn(nodes, id string) int {
	for line := range strings.Lines(nodes) {
		if fields := strings.Fields(line); len(fields) > 6 && fields[0] == id {
			epoch, _ := strconv.Atoi(fields[6])
			return epoch
		}
	}
	return 0
}

// FirstOwner returns which node of a new cluster owns the slot of a key.
func FirstOwner(key string) int {
	slot, i := int(redislua.Slot(key)), 0
	for firstSlot(i+1) <= slot {
		i++
	}
	return i
}

func nodeID(t testing.TB, node *Server) string {
	t.Helper()
	reply := node.Do(t, "CLUSTER", "MYID")
	id, err := reply.ToString()
	require.NoError(t, err)
	return id
}
