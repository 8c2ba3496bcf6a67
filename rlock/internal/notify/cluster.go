package notify

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
)

// NewServer returns the Server that a client is connected to.
func NewServer(client rueidis.Client, scripts *gen.Scripts) Server {
	if client.Mode() == rueidis.ClientModeCluster {
		return Cluster{Client: client}
	}
	return Redis{Client: client, Scripts: scripts}
}

// Cluster is the Server of a client of a cluster. It asks for the keys of each slot apart: a
// client sends commands of one slot that go with one without keys to the slot's primary, also
// where it reads from replicas. An answer about all takes as long as the slowest node, for which
// the Monitor waits for readTimeout. So beside a silent node, a change may wait for the end of one
// round and be known at the end of the next.
type Cluster struct {
	Client rueidis.Client
}

var errUnasked = errors.New("rlock: a hook of the client has ended the goroutine that asked")

// Owners implements Server. It reads in a transaction, because a client that is redirected,
// as when the slot has moved, repeats the whole transaction at the other node. Of commands
// outside one, it would repeat only MGET, and the other node would not track the keys.
func (c Cluster) Owners(ctx context.Context, locks [][]string) []Answer[string] {
	return bySlot(locks, func(keys []string) Answer[string] {
		commands := append(rueidis.Commands{c.Client.B().Multi().Build().ToPipe()}, Track(c.Client, keys)...)
		replies := c.Client.DoMulti(ctx, append(commands, c.Client.B().Exec().Build().ToPipe())...)
		results, err := replies[len(replies)-1].ToArray()
		if err == nil && len(results) != 2 {
			err = errOtherKeys
		}
		if err != nil {
			return Answer[string]{Err: err}
		}
		values, err := results[1].ToArray()
		return ownersIn(len(keys), values, err)
	})
}

// Left implements Server.
func (c Cluster) Left(ctx context.Context, locks [][]string) []Answer[time.Duration] {
	return bySlot(locks, func(keys []string) (answer Answer[time.Duration]) {
		commands := rueidis.Commands{c.Client.B().Ping().Build()} // the command without keys
		for _, key := range keys {
			commands = append(commands, c.Client.B().Pttl().Key(key).Build())
		}
		for _, reply := range c.Client.DoMulti(ctx, commands...)[1:] {
			left, err := reply.AsInt64()
			if err != nil {
				return Answer[time.Duration]{Err: err}
			}
			answer.Keys = append(answer.Keys, leftOf(time.Duration(left)*time.Millisecond))
		}
		return answer
	})
}

// bySlot asks about the keys of each slot. An error about one slot is the answer to every lock
// with a key of that slot, but to no other. All slots are asked at once, so that none waits for
// one of a silent node. The client sends what goes to one node together.
func bySlot[T any](locks [][]string, ask func(keys []string) Answer[T]) []Answer[T] {
	type place struct{ lock, key int } // of a key
	of := map[uint16][]place{}
	answers := make([]Answer[T], len(locks))
	for lock, keys := range locks {
		answers[lock].Keys = make([]T, len(keys))
		for key := range keys {
			slot := gen.Slot(keys[key])
			of[slot] = append(of[slot], place{lock, key})
		}
	}
	var mu sync.Mutex // of answers
	var asked sync.WaitGroup
	for _, places := range of {
		for places := range slices.Chunk(places, readKeys) {
			asked.Go(func() {
				keys := make([]string, len(places))
				for i, p := range places {
					keys[i] = locks[p.lock][p.key]
				}
				answer := Answer[T]{Err: errUnasked} // unless ask returns
				defer func() {
					mu.Lock()
					defer mu.Unlock()
					for i, p := range places {
						if answer.Err != nil {
							answers[p.lock].Err = answer.Err
							continue
						}
						answers[p.lock].Keys[p.key] = answer.Keys[i]
					}
				}()
				answer = ask(keys)
			})
		}
	}
	asked.Wait()
	return answers
}
