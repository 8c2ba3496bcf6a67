package notify

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// maxLook is how long a node of a cluster may take to say whether it has a slot. After that it counts as
// silent.
const maxLook = time.Second

// maxHops bounds how often a node may name another node, while the nodes do not agree.
const maxHops = 4

// locator finds the node that has the slot of a channel. Only one goroutine uses it.
type locator struct {
	client  rueidis.Client
	channel string
	last    string // address of the node that last had the slot
}

// locate returns the primary that has the slot, by what the nodes say. It asks each node for a write that
// changes nothing: to remove a member of a set that does not exist. A replica would confirm a subscription
// too. But a replica hears nothing of what scripts publish, and scripts do not count its subscribers.
//
// A node that refuses all writes counts as silent. It may be cut off from the nodes that know who has the
// slot. If the user lacks a right on one node, locate asks no other node. Each node has rights of its own,
// but they should be the same, and the error names the right.
func (l *locator) locate(ctx context.Context) (address string, node rueidis.Client, err error) {
	nodes := l.client.Nodes()
	silent := map[string]bool{}
	for _, address := range append([]string{l.last}, slices.Collect(maps.Keys(nodes))...) {
		for range maxHops {
			if silent[address] {
				break
			}
			node := nodes[address]
			if node == nil {
				break
			}
			owner, failed := l.owner(ctx, node)
			switch {
			case failed == nil && owner == "":
				l.last = address
				return address, node, nil
			case failed != nil:
				if lacksRight(failed) || ctx.Err() != nil {
					return "", nil, failed
				}
				err, silent[address] = failed, true
			default:
				if nodes[owner] == nil {
					nodes = l.learn(ctx, nodes)
				}
				address = owner
			}
		}
	}
	if err == nil {
		err = errNoOwner
	}
	return "", nil, err
}

var errNoOwner = errors.New("the nodes of the cluster do not agree on who has the slot")

// owner asks a node who has the slot, and returns the address that the node says. "" means this node. A
// node that is giving the slot away still has it.
func (l *locator) owner(ctx context.Context, node rueidis.Client) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, maxLook)
	defer cancel()
	err := node.Do(ctx, node.B().Zrem().Key(l.channel).Member("probe").Build()).Error()
	refused := new(rueidis.RedisError)
	if errors.As(err, &refused) {
		if _, asks := refused.IsAsk(); asks {
			return "", nil
		}
		if address, moved := refused.IsMoved(); moved {
			return address, nil
		}
	}
	return "", err
}

// learn makes the client find a node that it does not know yet. A client looks at the cluster again when a
// node redirects it. A command with a key would go to the node that had the slot, which may be silent
// forever. So the command hides its key, and the client picks any node, and another one the next time. The
// client may know the new node only after its next look.
func (l *locator) learn(ctx context.Context, known map[string]rueidis.Client) map[string]rueidis.Client {
	for range maxHops {
		err := l.redirected(ctx)
		if refused := new(rueidis.RedisError); err == nil || errors.As(err, &refused) || ctx.Err() != nil {
			break
		}
	}
	for address, node := range l.client.Nodes() {
		known[address] = node
	}
	return known
}

// redirected sends the command of learn. If no node redirects the command, it removes nothing, since no set
// has the name of a channel. If the user lacks the right to write, the node refuses the command. That is an
// answer too.
func (l *locator) redirected(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxLook/maxHops)
	defer cancel()
	return l.client.Do(ctx, l.client.B().Arbitrary("ZREM").Args(l.channel, "probe").Build()).Error()
}

func (l *locator) moved(ctx context.Context) bool {
	before := l.last
	now, _, err := l.locate(ctx)
	return err == nil && now != before
}

// lacksRight reports whether a node has refused a command because the user lacks a right there.
func lacksRight(err error) bool {
	refused := new(rueidis.RedisError)
	return errors.As(err, &refused) && strings.HasPrefix(refused.Error(), "NOPERM")
}

func explainLocate(channel string, err error) error {
	if !lacksRight(err) {
		return fmt.Errorf("rlock: cannot find the node of the cluster that has %s: %w", channel, err)
	}
	return fmt.Errorf("rlock: cannot find the node of the cluster that has %s; for that, the user needs the "+
		"rights +zrem and ~%[1]s: %[2]w", channel, err)
}
