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

// SlotMove is a slot on its way from one node of a cluster to another. Begin, Carry and
// End are the three steps of the move, in this order.
type SlotMove struct {
	Cluster  *Cluster
	From, To *Server
	Slot     string // its number
}

// SplitSlot begins to move the slot of key, which must be one of the last node's, to the
// first node, and moves the key itself. Until Carry the slot's keys are on two nodes.
func SplitSlot(t testing.TB, c *Cluster, key string) *SlotMove {
	t.Helper()
	m := &SlotMove{Cluster: c, From: c.Nodes[2], To: c.Nodes[0], Slot: fmt.Sprint(redislua.Slot(key))}
	m.Begin(t)
	host, port := split(t, m.To.Addr())
	m.From.Do(t, "MIGRATE", host, port, key, "0", "5000")
	return m
}

// Begin has the old node send those who ask for keys that it does not have to the new
// one.
func (m *SlotMove) Begin(t testing.TB) {
	t.Helper()
	m.To.Do(t, "CLUSTER", "SETSLOT", m.Slot, "IMPORTING", nodeID(t, m.From))
	m.From.Do(t, "CLUSTER", "SETSLOT", m.Slot, "MIGRATING", nodeID(t, m.To))
}

// Carry moves the keys that the old node still has, at least one.
func (m *SlotMove) Carry(t testing.TB) {
	t.Helper()
	reply := m.From.Do(t, "CLUSTER", "GETKEYSINSLOT", m.Slot, "100")
	keys, err := reply.AsStrSlice()
	require.NoError(t, err)
	require.NotEmpty(t, keys)
	host, port := split(t, m.To.Addr())
	m.From.Do(t, append([]string{"MIGRATE", host, port, "", "0", "5000", "KEYS"}, keys...)...)
}

// CarryAll moves all keys of the slot, however many, also none. Scripts want all of their keys in one place,
// so few come to the old node meanwhile; those that do are moved too.
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

// End gives the slot to the new node, and returns when each node has heard with which epoch it owns it. A
// node that had not, and that the slot came back to soon, would own it with an older epoch. It would then
// give the slot up for a late message of the other, and delete its keys.
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

// epochIn reads the epoch of a node in CLUSTER NODES, of which a line has: id, address, flags, primary,
// ping, pong, epoch … It returns 0 for none.
func epochIn(nodes, id string) int {
	for line := range strings.Lines(nodes) {
		if fields := strings.Fields(line); len(fields) > 6 && fields[0] == id {
			epoch, _ := strconv.Atoi(fields[6])
			return epoch
		}
	}
	return 0
}

// FirstOwner returns which of the nodes of a cluster that has just started owns the slot of a key.
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
