//go:build ignore

// This file takes the place of client_rueidis.go in bindings for go-redis. The module
// rlock_test/goredis compiles and tests it, because this module does not require go-redis.

package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

type (
	client = redis.UniversalClient
	result = *redis.Cmd // of a call
)

type options struct{ retry bool }

// luaScript is one script and the way to call it.
type luaScript struct {
	name      string
	sha1      string
	source    string
	retryable bool             // the client may send a call again
	readOnly  bool             // the client may send a call to a replica
	errors    map[string]error // error code -> sentinel
}

func newLuaScript(name, sha1, source string, retryable bool, codes map[string]error) luaScript {
	return luaScript{name: name, sha1: sha1, source: source, retryable: retryable, errors: codes}
}

// newReadOnlyScript is newLuaScript for a script of which a client may send calls to replicas.
func newReadOnlyScript(name, sha1, source string, retryable bool, codes map[string]error) luaScript {
	return luaScript{name: name, sha1: sha1, source: source, retryable: retryable, readOnly: true, errors: codes}
}

// exec sends the script's SHA1, and its text if the server does not know the script. Without
// newReadOnlyScript it uses EVALSHA for scripts that only read too, because a client may send
// EVALSHA_RO to a replica.
func (s *luaScript) exec(ctx context.Context, c client, keys, args []string) result {
	err := s.noRing(c)
	if err == nil {
		err = s.sameSlot(c, keys)
	}
	if err != nil {
		return failed(ctx, err)
	}
	reply := s.process(ctx, c, call{keys, args}, false)
	if isUnknown(reply) {
		reply = s.process(ctx, c, call{keys, args}, true)
	}
	return reply
}

// process sends one call.
func (s *luaScript) process(ctx context.Context, c client, call call, text bool) result {
	command, reply := s.command(ctx, call, text)
	if err := c.Process(ctx, command); err != nil && reply.Err() == nil { // of a client that is none of go-redis
		reply.SetErr(err)
	}
	return reply
}

// send sends calls in one pipeline: by the script's SHA1, or by its text. It returns as many
// results, in the order of the calls.
func (s *luaScript) send(ctx context.Context, c client, calls []call, text bool) []result {
	replies := make([]result, len(calls))
	if err := s.noRing(c); err != nil {
		for i := range replies {
			replies[i] = failed(ctx, err)
		}
		return replies
	}
	pipeline := c.Pipeline()
	for i, call := range calls {
		var command redis.Cmder
		command, replies[i] = s.command(ctx, call, text)
		_ = pipeline.Process(ctx, command) // which only remembers it
	}
	if _, err := pipeline.Exec(ctx); err != nil {
		unanswered(replies, err)
	}
	return replies
}

// unanswered gives the error of a pipeline to its commands if none of them has one, as when a
// hook has refused the pipeline. Otherwise they would count as answered with nil.
func unanswered(replies []result, err error) {
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
func (s *luaScript) command(ctx context.Context, call call, text bool) (redis.Cmder, result) {
	name, script := "evalsha", s.sha1
	if text {
		name, script = "eval", s.source
	}
	if s.readOnly {
		name += "_ro"
	}
	words := make([]any, 0, 3+len(call.keys)+len(call.args))
	words = append(words, name, script, len(call.keys))
	for _, key := range call.keys {
		words = append(words, key)
	}
	for _, arg := range call.args {
		words = append(words, arg)
	}
	command := redis.NewCmd(ctx, words...)
	if len(call.keys) > 0 {
		command.SetFirstKeyPos(3)
	}
	if !s.retryable {
		return once{command}, command
	}
	return command, command
}

// failed is the result of a call that was not sent.
func failed(ctx context.Context, err error) result {
	reply := redis.NewCmd(ctx)
	reply.SetErr(err)
	return reply
}

// isUnknown reports whether the server does not know the script.
func isUnknown(reply result) bool { return redis.HasErrorPrefix(reply.Err(), "NOSCRIPT") }

// receive returns the message of a reply, or its error. A nil reply is a message.
func receive(reply result) (message, error) {
	value, err := reply.Result()
	if errors.Is(err, redis.Nil) {
		return message{}, nil
	}
	return message{value}, err
}

// refusal returns the text of an error that the server replied with; "" for any other error. It
// leaves out the ERR that a server puts before a code that stands alone, as rueidis does.
func refusal(err error) string {
	if own := redis.Error(nil); errors.As(err, &own) {
		return strings.TrimPrefix(own.Error(), "ERR ")
	}
	return ""
}

// inSlots reports whether the client's keys are in the slots of a cluster.
func inSlots(c client) bool {
	_, cluster := c.(*redis.ClusterClient)
	return cluster
}

// noRing refuses a Ring: it would send a script to the server of the first key, and the script
// would make the other keys there, where nobody looks for them.
func (s *luaScript) noRing(c client) error {
	if _, ring := c.(*redis.Ring); ring {
		return &ParamError{s.name, "client", "it is a *redis.Ring, which keeps the keys of one call on several servers; give a *redis.Client or a *redis.ClusterClient"}
	}
	return nil
}

// load sends the script to every node.
func (s *luaScript) load(ctx context.Context, c client) error {
	if err := s.noRing(c); err != nil {
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
		return fmt.Errorf("%s: load %s: %w", packageName, s.name, err)
	}
	return failed
}

// message is a reply, or a value in it, as go-redis reads it: nil, a string, int64, float64,
// bool, *big.Int, []any, map[any]any, or an error in a list.
type message struct{ value any }

func (m message) IsNil() bool     { return m.value == nil }
func (m message) IsInt64() bool   { return is[int64](m) }
func (m message) IsString() bool  { return is[string](m) }
func (m message) IsBool() bool    { return is[bool](m) }
func (m message) IsFloat64() bool { return is[float64](m) }
func (m message) IsArray() bool   { return is[[]any](m) }
func (m message) IsMap() bool     { return is[map[any]any](m) }

func (m message) ToInt64() (int64, error)     { return to[int64](m) }
func (m message) ToString() (string, error)   { return to[string](m) }
func (m message) ToBool() (bool, error)       { return to[bool](m) }
func (m message) ToFloat64() (float64, error) { return to[float64](m) }

func (m message) AsBytes() ([]byte, error) {
	text, err := to[string](m)
	return []byte(text), err
}

func (m message) ToArray() ([]message, error) {
	values, err := to[[]any](m)
	messages := make([]message, len(values))
	for i, value := range values {
		messages[i].value = value
	}
	return messages, err
}

func (m message) ToMap() (map[string]message, error) {
	values, err := to[map[any]any](m)
	messages := make(map[string]message, len(values))
	for key, value := range values {
		name, ok := key.(string)
		if !ok {
			return nil, fmt.Errorf("the key %v is no string", key)
		}
		messages[name] = message{value}
	}
	return messages, err
}

// Error returns the error that the message is, if it is one.
func (m message) Error() error {
	err, _ := m.value.(error)
	return err
}

func is[T any](m message) bool {
	_, ok := m.value.(T)
	return ok
}

func to[T any](m message) (T, error) {
	value, ok := m.value.(T)
	if !ok {
		return value, fmt.Errorf("is of the type %T", m.value)
	}
	return value, nil
}

// decodeRaw takes any reply.
func decodeRaw(m message) (any, error) { return m.value, nil }
