package luaimpl

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/rlock-go/toolkit/redislua"
)

// What calls are sent with, and what comes back.
type (
	Client = redis.UniversalClient
	Result = *redis.Cmd // of a call
)

// send sends a call: by the script's SHA1, or by its text.
func (s *Lua) send(ctx context.Context, c Client, call *Call, text bool) Result {
	command, reply := s.command(ctx, call, text)
	if err := c.Process(ctx, command); err != nil && reply.Err() == nil { // of a client that is none of go-redis
		reply.SetErr(err)
	}
	return reply
}

// sendAll sends some of the calls in one pipeline. It returns as many results, in the order of places.
func (s *Lua) sendAll(ctx context.Context, c Client, calls []Call, places []int, text bool) []Result {
	replies := make([]Result, len(places))
	pipeline := c.Pipeline()
	for i, place := range places {
		var command redis.Cmder
		command, replies[i] = s.command(ctx, &calls[place], text)
		_ = pipeline.Process(ctx, command) // which only remembers it
	}
	if _, err := pipeline.Exec(ctx); err != nil {
		unanswered(replies, err)
	}
	return replies
}

// unanswered gives the error of a pipeline to its commands if none of them has one, as when a
// hook has refused the pipeline. Otherwise they would count as answered with nil.
func unanswered(replies []Result, err error) {
	for _, reply := range replies {
		if reply.Err() != nil {
			return
		}
	}
	for _, reply := range replies {
		reply.SetErr(err)
	}
}

// once is a command that go-redis must not send again after a network error, because it may
// have run.
type once struct{ *redis.Cmd }

func (once) NoRetry() bool { return true }

// A go-redis before v9.19 does not ask for it, and would repeat calls that write.
var _ = (*redis.Cmd).NoRetry

// command returns a command, and where its reply will be.
func (s *Lua) command(ctx context.Context, call *Call, text bool) (redis.Cmder, Result) {
	name, script := "evalsha", s.sha1
	if text {
		name, script = "eval", s.source
	}
	if s.readOnly {
		name += "_ro"
	}
	words := make([]any, 0, 3+call.n)
	words = append(words, name, script, call.numkeys)
	for _, word := range call.words() {
		words = append(words, word)
	}
	command := redis.NewCmd(ctx, words...)
	if call.numkeys > 0 {
		command.SetFirstKeyPos(3)
	}
	if !s.retryable {
		return once{command}, command
	}
	return command, command
}

// failed is the result of a call that was not sent.
func failed(ctx context.Context, err error) Result {
	reply := redis.NewCmd(ctx)
	reply.SetErr(err)
	return reply
}

// isUnknown reports whether the server does not know the script.
func isUnknown(reply Result) bool { return redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") }

// receive returns the message of a reply, or its error. A nil reply is a message.
func receive(reply Result) (Message, error) {
	value, err := reply.Result()
	if errors.Is(err, redis.Nil) {
		return Message{}, nil
	}
	return Message{value}, err
}

// serverText returns the text of an error that the server replied with; "" for any other error. It
// leaves out the ERR that a server puts before a code that stands alone, as rueidis does.
func serverText(err error) string {
	if own := redis.Error(nil); errors.As(err, &own) {
		return strings.TrimPrefix(own.Error(), "ERR ")
	}
	return ""
}

// inSlots reports whether the client's keys are in the slots of a cluster.
func inSlots(c Client) bool {
	_, cluster := c.(*redis.ClusterClient)
	return cluster
}

// unfit refuses a Ring: it would send a script to the server of the first key, and the script
// would make the other keys there, where nobody looks for them.
func (s *Lua) unfit(c Client) error {
	if _, ring := c.(*redis.Ring); ring {
		return &redislua.ParamError{
			Package: s.pkg, Script: s.name, Param: "client",
			Reason: "it is a *redis.Ring, which keeps the keys of one call on several servers; " +
				"give a *redis.Client or a *redis.ClusterClient",
		}
	}
	return nil
}

// load sends the script to every node.
func (s *Lua) load(ctx context.Context, c Client) error {
	if err := s.unfit(c); err != nil {
		return err
	}
	cluster, ok := c.(*redis.ClusterClient)
	if !ok {
		sha1, err := c.ScriptLoad(ctx, s.source).Result()
		return s.loaded("the server", sha1, err)
	}
	var mu sync.Mutex
	var failed error
	err := cluster.ForEachShard(ctx, func(ctx context.Context, node *redis.Client) error {
		sha1, err := node.ScriptLoad(ctx, s.source).Result()
		mu.Lock()
		defer mu.Unlock()
		failed = errors.Join(failed, s.loaded(node.Options().Addr, sha1, err))
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: load %s: %w", s.pkg, s.name, err)
	}
	return failed
}

// Message is a reply, or a value in it, as go-redis reads it: nil, a string, int64, float64,
// bool, *big.Int, []any, map[any]any, or an error in a list.
type Message struct{ value any }

func (m Message) IsNil() bool     { return m.value == nil }
func (m Message) IsInt64() bool   { return is[int64](m) }
func (m Message) IsString() bool  { return is[string](m) }
func (m Message) IsBool() bool    { return is[bool](m) }
func (m Message) IsFloat64() bool { return is[float64](m) }
func (m Message) IsArray() bool   { return is[[]any](m) }
func (m Message) IsMap() bool     { return is[map[any]any](m) }

func (m Message) ToInt64() (int64, error)     { return to[int64](m) }
func (m Message) ToString() (string, error)   { return to[string](m) }
func (m Message) ToBool() (bool, error)       { return to[bool](m) }
func (m Message) ToFloat64() (float64, error) { return to[float64](m) }

func (m Message) AsBytes() ([]byte, error) {
	text, err := to[string](m)
	return []byte(text), err
}

func (m Message) ToArray() ([]Message, error) {
	values, err := to[[]any](m)
	messages := make([]Message, len(values))
	for i, value := range values {
		messages[i].value = value
	}
	return messages, err
}

func (m Message) ToMap() (map[string]Message, error) {
	values, err := to[map[any]any](m)
	messages := make(map[string]Message, len(values))
	for key, value := range values {
		name, ok := key.(string)
		if !ok {
			return nil, fmt.Errorf("the key %v is no string", key)
		}
		messages[name] = Message{value}
	}
	return messages, err
}

// Error returns the error that the message is, if it is one.
func (m Message) Error() error {
	err, _ := m.value.(error)
	return err
}

func is[T any](m Message) bool {
	_, ok := m.value.(T)
	return ok
}

func to[T any](m Message) (T, error) {
	value, ok := m.value.(T)
	if !ok {
		return value, fmt.Errorf("is of the type %T", m.value)
	}
	return value, nil
}

// DecodeRaw takes any reply.
func DecodeRaw(m Message) (any, error) { return m.value, nil }
