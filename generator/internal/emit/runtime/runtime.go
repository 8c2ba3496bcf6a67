package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"
)

// Reply is the outcome of one call of a batch.
type Reply[T any] struct {
	Value T     // the answer; the zero value when Err is set
	Err   error // nil when Value is an answer
}

// Cached is an answer that may come from the client-side cache.
type Cached[T any] struct {
	Value T
	Hit   bool      // true: it came from the cache, and no server was asked
	Until time.Time // until when the cache may serve it, by the clock of this machine: no longer than the key lasts; zero: the client has no cache
}

// cachedUntil returns until when the cache may serve the reply. It reads no clock.
func cachedUntil(reply rueidis.RedisResult) time.Time {
	if at := reply.CachePXAT(); at > 0 {
		return time.UnixMilli(at)
	}
	return time.Time{}
}

// Null is a value that may be absent, in the manner of sql.Null.
type Null[T any] struct {
	V     T
	Valid bool // false: the script answered nil, and V is the zero value
}

// ParamError reports an argument that a call refuses. Nothing was sent.
type ParamError struct {
	Script string
	Param  string // name in the script's header
	Reason string // what is wrong with it, and what would be right
}

func (e *ParamError) Error() string {
	return packageName + ": " + e.Script + ": " + e.Param + ": " + e.Reason
}

// CrossSlotError reports keys that a Redis Cluster keeps in different slots, so
// that no script can use them together. Nothing was sent.
type CrossSlotError struct {
	Script string
	Keys   [2]string
	Slots  [2]uint16
}

func (e *CrossSlotError) Error() string {
	return fmt.Sprintf("%s: %s: keys %.80q (slot %d) and %.80q (slot %d) are in different slots; give them the same {hash tag}",
		packageName, e.Script, e.Keys[0], e.Slots[0], e.Keys[1], e.Slots[1])
}

// ReplyError reports an answer that does not have the shape that the script's header
// declares. The script has run.
type ReplyError struct {
	Script string
	Field  string // name in the script's header; empty when the whole reply is meant
	Reason error
}

func (e *ReplyError) Error() string {
	if e.Field == "" {
		return packageName + ": " + e.Script + ": reply " + e.Reason.Error()
	}
	return packageName + ": " + e.Script + ": reply field " + e.Field + " " + e.Reason.Error()
}

func (e *ReplyError) Unwrap() error { return e.Reason }

// Option changes what [New] returns.
type Option func(*options)

type options struct {
	retry bool
	lua   []rueidis.LuaOption
}

func newOptions(opts []Option) options {
	o := options{retry: true}
	for _, set := range opts {
		if set != nil {
			set(&o)
		}
	}
	return o
}

// WithoutRetry makes the client send every call once, so that every error is returned at
// once. It is for callers that have retries of their own.
func WithoutRetry() Option { return func(o *options) { o.retry = false } }

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
func (s *luaScript) exec(ctx context.Context, c rueidis.Client, keys, args []string) rueidis.RedisResult {
	if err := s.sameSlot(c, keys); err != nil {
		return rueidis.NewErrorResult(err)
	}
	return s.lua.Exec(ctx, c, keys, args)
}

// cached asks the client-side cache, and the server if the cache has no answer. It sends
// the text and not the SHA1, because rueidis would cache the error NOSCRIPT like an answer.
func (s *luaScript) cached(ctx context.Context, c rueidis.Client, keys, args []string, ttl time.Duration) rueidis.RedisResult {
	if err := s.cacheable(ttl); err != nil {
		return rueidis.NewErrorResult(err)
	}
	return c.DoCache(ctx, c.B().EvalRo().Script(s.source).Numkeys(1).Key(keys...).Arg(args...).Cache(), ttl)
}

// cachedGet does the same for a script that does nothing but GET its key. It sends GET,
// which has the same answer, because the cache then need not compare a script's text.
func (s *luaScript) cachedGet(ctx context.Context, c rueidis.Client, key string, ttl time.Duration) rueidis.RedisResult {
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

// batch calls the script once for each of params, in one pipeline. If a server does not
// know the script, batch sends its text with the calls that this server refused.
func batch[P, R any](
	ctx context.Context, c rueidis.Client, s *luaScript, params []P,
	encode func(p P, keys, args []string) ([]string, []string, error),
	decode func(s *luaScript, reply rueidis.RedisResult) (R, error),
) []Reply[R] {
	replies := make([]Reply[R], len(params))
	calls := make([]rueidis.LuaExec, len(params))
	pending := make([]int, 0, len(params)) // positions in params that are sent
	for i, p := range params {
		keys, args, err := encode(p, nil, nil)
		if err == nil {
			err = s.sameSlot(c, keys)
		}
		if err != nil {
			replies[i].Err = err
			continue
		}
		calls[i] = rueidis.LuaExec{Keys: keys, Args: args}
		pending = append(pending, i)
	}
	send := func(text bool) (unknown []int) {
		commands := make(rueidis.Commands, len(pending))
		for n, i := range pending {
			commands[n] = s.command(c, calls[i], text)
		}
		for n, reply := range c.DoMulti(ctx, commands...) {
			i := pending[n]
			if e, ok := rueidis.IsRedisErr(reply.Error()); ok && e.IsNoScript() && !text {
				unknown = append(unknown, i)
				continue
			}
			replies[i].Value, replies[i].Err = decode(s, reply)
		}
		return unknown
	}
	if len(pending) > 0 {
		pending = send(false)
	}
	if len(pending) > 0 {
		send(true)
	}
	return replies
}

func (s *luaScript) command(c rueidis.Client, call rueidis.LuaExec, text bool) rueidis.Completed {
	var command rueidis.Completed
	numkeys := int64(len(call.Keys))
	switch {
	case s.readOnly && text:
		return c.B().EvalRo().Script(s.source).Numkeys(numkeys).Key(call.Keys...).Arg(call.Args...).Build()
	case s.readOnly:
		return c.B().EvalshaRo().Sha1(s.sha1).Numkeys(numkeys).Key(call.Keys...).Arg(call.Args...).Build()
	case text:
		command = c.B().Eval().Script(s.source).Numkeys(numkeys).Key(call.Keys...).Arg(call.Args...).Build()
	default:
		command = c.B().Evalsha().Sha1(s.sha1).Numkeys(numkeys).Key(call.Keys...).Arg(call.Args...).Build()
	}
	if s.retryable {
		command = command.ToRetryable()
	}
	return command
}

// load sends the script to every node.
func (s *luaScript) load(ctx context.Context, c rueidis.Client) error {
	var failed error
	for addr, node := range c.Nodes() {
		sha, err := node.Do(ctx, node.B().ScriptLoad().Script(s.source).Build()).ToString()
		switch {
		case err != nil:
			failed = errors.Join(failed, fmt.Errorf("%s: load %s on %s: %w", packageName, s.name, addr, err))
		case sha != s.sha1:
			failed = errors.Join(failed, fmt.Errorf("%s: load %s on %s: the server computes the SHA1 %s, the generator %s", packageName, s.name, addr, sha, s.sha1))
		}
	}
	return failed
}

// message returns the message of a reply, or its error. A nil reply is a message.
func (s *luaScript) message(reply rueidis.RedisResult) (rueidis.RedisMessage, error) {
	m, err := reply.ToMessage()
	if err == nil || rueidis.IsRedisNil(err) {
		return m, nil
	}
	if e, ok := rueidis.IsRedisErr(err); ok {
		code, _, _ := strings.Cut(e.Error(), " ")
		if sentinel := s.errors[code]; sentinel != nil {
			return m, fmt.Errorf("%w: %s: %w", sentinel, s.name, err)
		}
	}
	if own := new(ParamError); errors.As(err, &own) {
		return m, err
	}
	if own := new(CrossSlotError); errors.As(err, &own) {
		return m, err
	}
	return m, fmt.Errorf("%s: %s: %w", packageName, s.name, err)
}

// wrong turns a decoding error into one that names the script and the field.
func (s *luaScript) wrong(err error) error {
	if in, ok := err.(*fieldError); ok {
		return &ReplyError{s.name, in.field, in.reason}
	}
	return &ReplyError{s.name, "", err}
}
