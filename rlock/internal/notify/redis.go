package notify

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Redis is the Server of a client without a cluster.
type Redis struct {
	Client  rueidis.Client
	Scripts *gen.Scripts
}

// Slot implements Server: there are no slots.
func (Redis) Slot(string) uint16 { return 0 }

// Track returns the commands that read keys and make the server tell of the next change of these keys. The
// server tracks the keys of the command after CLIENT CACHING. It refuses CLIENT CACHING if it tracks all
// keys anyway. The commands ask for a shared connection, because a pooled one drops the server's messages.
func Track(client rueidis.Client, keys []string) rueidis.Commands {
	return rueidis.Commands{
		client.B().ClientCaching().Yes().Build().ToPipe(),
		client.B().Mget().Key(keys...).Build().ToPipe(),
	}
}

var errOtherKeys = errors.New("rlock: the answer is about another number of keys")

const (
	readKeys  = 100 // in one command
	readBatch = 100 // commands in one pipeline
)

// Owners implements Server.
func (r Redis) Owners(ctx context.Context, locks [][]string) []Answer[string] {
	return together(locks, func(reads [][]string) []Answer[string] {
		commands := make(rueidis.Commands, 0, 2*len(reads))
		for _, keys := range reads {
			commands = append(commands, Track(r.Client, keys)...)
		}
		replies := r.Client.DoMulti(ctx, commands...)
		answers := make([]Answer[string], len(reads))
		for i, keys := range reads {
			values, err := replies[2*i+1].ToArray()
			answers[i] = ownersIn(len(keys), values, err)
		}
		return answers
	})
}

// ownersIn returns the owners in an answer of MGET, which must be about so many keys.
func ownersIn(keys int, values []rueidis.RedisMessage, err error) (answer Answer[string]) {
	if err == nil && len(values) != keys {
		err = errOtherKeys
	}
	if err != nil {
		return Answer[string]{Err: err}
	}
	for _, value := range values {
		owner, _ := value.ToString() // a key that does not exist gives "": no owner
		answer.Keys = append(answer.Keys, owner)
	}
	return answer
}

// Left implements Server.
func (r Redis) Left(ctx context.Context, locks [][]string) []Answer[time.Duration] {
	return together(locks, func(reads [][]string) []Answer[time.Duration] {
		params := make([]gen.InspectParams, len(reads))
		for i, keys := range reads {
			params[i] = gen.InspectParams{Keys: keys, Waiters: -1}
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
				answers[i].Keys = append(answers[i].Keys, leftOf(left))
			}
		}
		return answers
	})
}

// leftOf converts an answer of PTTL.
func leftOf(pttl time.Duration) time.Duration {
	switch pttl {
	case -2 * time.Millisecond:
		return Gone
	case -time.Millisecond:
		return clock.NoExpiry
	}
	return pttl
}

// together reads the keys of many locks with few commands. If a command fails, each of its locks gets the
// error.
func together[T any](locks [][]string, ask func(reads [][]string) []Answer[T]) []Answer[T] {
	answers := make([]Answer[T], 0, len(locks))
	for len(locks) > 0 {
		reads, counts := [][]string{}, []int{} // the keys of each command, and the number of its locks
		for _, keys := range locks {
			if last := len(reads) - 1; last >= 0 && len(reads[last]) < readKeys {
				reads[last] = append(reads[last], keys...)
				counts[last]++
				continue
			}
			if len(reads) == readBatch {
				break
			}
			reads, counts = append(reads, slices.Clone(keys)), append(counts, 1)
		}
		for i, answer := range ask(reads) {
			for _, keys := range locks[:counts[i]] {
				if answer.Err != nil {
					answers = append(answers, Answer[T]{Err: answer.Err})
					continue
				}
				n := len(keys)
				answers = append(answers, Answer[T]{Keys: answer.Keys[:n:n]})
				answer.Keys = answer.Keys[n:]
			}
			locks = locks[counts[i]:]
		}
	}
	return answers
}
