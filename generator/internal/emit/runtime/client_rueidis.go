package runtime

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"
)

type (
	client  = rueidis.Client
	result  = rueidis.RedisResult  // of a call
	message = rueidis.RedisMessage // a reply, or a value in it
)

type options struct {
	retry bool
	lua   []rueidis.LuaOption
}

// WithLuaOptions passes options on to rueidis.
func WithLuaOptions(opts ...rueidis.LuaOption) Option {
	return func(o *options) { o.lua = append(o.lua, opts...) }
}

// luaScript is one script and the way to call it.
type luaScript struct {
	name      string
	sha1      string
	source    string
	retryable bool             // the client may send a call again
	readOnly  bool             // the client may send a call to a replica
	errors    map[string]error // error code -> sentinel
	lua       *rueidis.Lua
}

func newLuaScript(name, sha1, source string, retryable bool, codes map[string]error, opts []rueidis.LuaOption) luaScript {
	s := luaScript{name: name, sha1: sha1, source: source, retryable: retryable, errors: codes}
	if retryable {
		s.lua = rueidis.NewLuaScriptRetryable(source, opts...)
	} else {
		s.lua = rueidis.NewLuaScript(source, opts...)
	}
	return s
}

// newReadOnlyScript is newLuaScript for a script of which a client may send calls to replicas.
func newReadOnlyScript(name, sha1, source string, retryable bool, codes map[string]error, opts []rueidis.LuaOption) luaScript {
	return luaScript{
		name: name, sha1: sha1, source: source, retryable: retryable, readOnly: true, errors: codes,
		lua: rueidis.NewLuaScriptReadOnly(source, opts...),
	}
}

// exec sends the script's SHA1, and its text if the server does not know the script. Without
// newReadOnlyScript it uses EVALSHA for scripts that only read too, because a client may send
// EVALSHA_RO to a replica.
func (s *luaScript) exec(ctx context.Context, c client, keys, args []string) result {
	if err := s.sameSlot(c, keys); err != nil {
		return rueidis.NewErrorResult(err)
	}
	return s.lua.Exec(ctx, c, keys, args)
}

// send sends calls in one pipeline: by the script's SHA1, or by its text. It returns as many
// results, in the order of the calls.
func (s *luaScript) send(ctx context.Context, c client, calls []call, text bool) []result {
	commands := make(rueidis.Commands, len(calls))
	for i, call := range calls {
		commands[i] = s.command(c, call, text)
	}
	return c.DoMulti(ctx, commands...)
}

func (s *luaScript) command(c client, call call, text bool) rueidis.Completed {
	var command rueidis.Completed
	numkeys := int64(len(call.keys))
	switch {
	case s.readOnly && text:
		return c.B().EvalRo().Script(s.source).Numkeys(numkeys).Key(call.keys...).Arg(call.args...).Build()
	case s.readOnly:
		return c.B().EvalshaRo().Sha1(s.sha1).Numkeys(numkeys).Key(call.keys...).Arg(call.args...).Build()
	case text:
		command = c.B().Eval().Script(s.source).Numkeys(numkeys).Key(call.keys...).Arg(call.args...).Build()
	default:
		command = c.B().Evalsha().Sha1(s.sha1).Numkeys(numkeys).Key(call.keys...).Arg(call.args...).Build()
	}
	if s.retryable {
		command = command.ToRetryable()
	}
	return command
}

// isUnknown reports whether the server does not know the script.
func isUnknown(reply result) bool {
	e, ok := rueidis.IsRedisErr(reply.Error())
	return ok && e.IsNoScript()
}

// receive returns the message of a reply, or its error. A nil reply is a message.
func receive(reply result) (message, error) {
	m, err := reply.ToMessage()
	if rueidis.IsRedisNil(err) {
		return m, nil
	}
	return m, err
}

// refusal returns the text of an error that the server replied with, without the ERR that a server
// puts before a code that stands alone; "" for any other error.
func refusal(err error) string {
	if e, ok := rueidis.IsRedisErr(err); ok {
		return e.Error()
	}
	return ""
}

// inSlots reports whether the client's keys are in the slots of a cluster.
func inSlots(c client) bool { return c.Mode() == rueidis.ClientModeCluster }

// decodeRaw takes any reply.
func decodeRaw(m message) (rueidis.RedisMessage, error) { return m, nil }

// load sends the script to every node.
func (s *luaScript) load(ctx context.Context, c client) error {
	var failed error
	for addr, node := range c.Nodes() {
		sha, err := node.Do(ctx, node.B().ScriptLoad().Script(s.source).Build()).ToString()
		failed = errors.Join(failed, s.loaded(addr, sha, err))
	}
	return failed
}

// Cached is an answer that may come from the client-side cache.
type Cached[T any] struct {
	Value T
	Hit   bool      // true: it came from the cache, and no server was asked
	Until time.Time // until when the cache may serve it, by the clock of this machine: no longer than the key lasts; zero: the client has no cache
}

// cachedUntil returns until when the cache may serve the reply. It reads no clock.
func cachedUntil(reply result) time.Time {
	if at := reply.CachePXAT(); at > 0 {
		return time.UnixMilli(at)
	}
	return time.Time{}
}

// cached asks the client-side cache, and the server if the cache has no answer. It sends
// the text and not the SHA1, because rueidis would cache the error NOSCRIPT like an answer.
func (s *luaScript) cached(ctx context.Context, c client, keys, args []string, ttl time.Duration) result {
	if err := s.cacheable(ttl); err != nil {
		return rueidis.NewErrorResult(err)
	}
	return c.DoCache(ctx, c.B().EvalRo().Script(s.source).Numkeys(1).Key(keys...).Arg(args...).Cache(), ttl)
}

// cachedGet does the same for a script that does nothing but GET its key. It sends GET,
// which has the same answer, because the cache then need not compare a script's text.
func (s *luaScript) cachedGet(ctx context.Context, c client, key string, ttl time.Duration) result {
	if err := s.cacheable(ttl); err != nil {
		return rueidis.NewErrorResult(err)
	}
	return c.DoCache(ctx, c.B().Get().Key(key).Cache(), ttl)
}

// cacheable refuses a time that is too short for the cache.
func (s *luaScript) cacheable(ttl time.Duration) error {
	if ttl < time.Millisecond {
		return &ParamError{s.name, "ttl", fmt.Sprintf("%v is below 1ms, the shortest time for which an answer can be cached", ttl)}
	}
	return nil
}
