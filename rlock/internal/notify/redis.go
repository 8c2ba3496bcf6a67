package notify

import (
	"context"
	"errors"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Redis is the Server that a client is connected to.
type Redis struct {
	Client  rueidis.Client
	Scripts *gen.Scripts
}

// Track returns the commands that read keys and have the server tell of their next change.
// The server tracks the keys that the command after CLIENT CACHING reads. It refuses CLIENT
// CACHING if it tracks all keys anyway. The commands ask for a shared connection, because a
// pooled one drops the server's messages.
func Track(client rueidis.Client, keys []string) rueidis.Commands {
	return rueidis.Commands{
		client.B().ClientCaching().Yes().Build().ToPipe(),
		client.B().Mget().Key(keys...).Build().ToPipe(),
	}
}

var errOtherKeys = errors.New("rlock: the answer is about another number of keys")

// Owners implements Server.
func (r Redis) Owners(ctx context.Context, reads [][]string) []Answer[string] {
	commands := make(rueidis.Commands, 0, 2*len(reads))
	for _, keys := range reads {
		commands = append(commands, Track(r.Client, keys)...)
	}
	replies := r.Client.DoMulti(ctx, commands...)
	answers := make([]Answer[string], len(reads))
	for i, keys := range reads {
		values, err := replies[2*i+1].ToArray()
		if err == nil && len(values) != len(keys) {
			err = errOtherKeys
		}
		if err != nil {
			answers[i].Err = err
			continue
		}
		for _, value := range values {
			owner, _ := value.ToString() // none is "", which is nobody's
			answers[i].Keys = append(answers[i].Keys, owner)
		}
	}
	return answers
}

// Left implements Server.
func (r Redis) Left(ctx context.Context, reads [][]string) []Answer[time.Duration] {
	params := make([]gen.InspectParams, len(reads))
	for i, keys := range reads {
		params[i].Locks = keys
	}
	answers := make([]Answer[time.Duration], len(reads))
	for i, reply := range r.Scripts.InspectBatch(ctx, r.Client, params) {
		left := reply.Value.Remaining
		if reply.Err == nil && len(left) != len(reads[i]) {
			reply.Err = errOtherKeys
		}
		if reply.Err != nil {
			answers[i].Err = reply.Err
			continue
		}
		for _, left := range left {
			switch left { // as PTTL answers
			case -2 * time.Millisecond:
				left = Gone
			case -time.Millisecond:
				left = clock.NoExpiry
			}
			answers[i].Keys = append(answers[i].Keys, left)
		}
	}
	return answers
}
