package notify

import (
	"context"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
)

// NewServer returns the Server for the servers of a client.
func NewServer(client rueidis.Client, scripts *gen.Scripts) Server {
	if client.Mode() == rueidis.ClientModeCluster {
		return Cluster{Client: client}
	}
	return Redis{Client: client, Scripts: scripts}
}

// Cluster is the Server of a client of a cluster. If a pipeline has commands of one slot and a command
// without keys, the client sends all of them to the primary of the slot. It does so even if it reads from
// replicas.
type Cluster struct {
	Client rueidis.Client
}

// Slot implements Server.
func (Cluster) Slot(key string) uint16 { return redislua.Slot(key) }

// Owners implements Server. It reads in a transaction. A node that no longer has the slot redirects the
// client, and the client repeats a whole transaction at the other node. Outside a transaction it would
// repeat only MGET, and the other node would not track the keys.
func (c Cluster) Owners(ctx context.Context, locks [][]string) []Answer[string] {
	return together(locks, eachRead(func(keys []string) Answer[string] {
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
	}))
}

// Left implements Server.
func (c Cluster) Left(ctx context.Context, locks [][]string) []Answer[time.Duration] {
	return together(locks, eachRead(func(keys []string) (answer Answer[time.Duration]) {
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
	}))
}

// eachRead makes one read after the other. The client repeats a redirected read as a whole.
func eachRead[T any](ask func(keys []string) Answer[T]) func(reads [][]string) []Answer[T] {
	return func(reads [][]string) []Answer[T] {
		answers := make([]Answer[T], len(reads))
		for i, keys := range reads {
			answers[i] = ask(keys)
		}
		return answers
	}
}
