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

// A node of a cluster that does not say within maxLook whether it has a slot counts as silent.
const maxLook = time.Second

// maxHops bounds how often a node may name another one, while the nodes do not agree.
const maxHops = 4

// locator finds the node that has the slot of a channel. One goroutine uses it.
type locator struct {
	client  rueidis.Client
	channel string
	last    string // the address of the node that had the slot the last time
}

// locate returns the primary that has the slot, by what the nodes say. A replica confirms a
// subscription too, but hears nothing of what scripts publish, and scripts count nobody who
// subscribes there. So a node is asked for a write, which changes nothing: it removes a member of a
// set that nobody has. One that lets nobody write counts as silent, because it may be cut off from the
// others, which know who has the slot. If the user lacks a right on one node, locate asks no other:
// each node has rights of its own, but they should be the same, and the error names the right.
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

// owner asks a node, and returns the address of the one that has the slot by what it says; "": this
// one has it. A node that is giving the slot away has it until the end.
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

// learn has the client follow the cluster to a node that it does not know yet. A client looks at the
// cluster again when a node redirects it. It sends a command with a key to the node that had the slot,
// which may be silent for ever. So the command hides its key: the client picks any node, and another one
// the next time. The map of the client may have the node only at the next look.
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

// redirected sends such a command. One that is not redirected removes nothing: no set has the name of a
// channel, and a user without the right to write it is refused, which is an answer too.
func (l *locator) redirected(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maxLook/maxHops)
	defer cancel()
	return l.client.Do(ctx, l.client.B().Arbitrary("ZREM").Args(l.channel, "probe").Build()).Error()
}

// moved reports whether another node has the slot now.
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

// explainLocate says why no node was found.
func explainLocate(channel string, err error) error {
	if !lacksRight(err) {
		return fmt.Errorf("rlock: cannot find the node of the cluster that has %s: %w", channel, err)
	}
	return fmt.Errorf("rlock: cannot find the node of the cluster that has %s; that needs the rights +zrem and "+
		"~%[1]s: %[2]w", channel, err)
}
