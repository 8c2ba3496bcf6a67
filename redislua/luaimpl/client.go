package luaimpl

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/redislua"
)

// What calls are sent with, and what comes back.
type (
	Client  = rueidis.Client
	Result  = rueidis.RedisResult  // of a call
	Message = rueidis.RedisMessage // a reply, or a value in it
)

// send sends a call: by the script's SHA1, or by its text.
func (s *Lua) send(ctx context.Context, c Client, call *Call, text bool) Result {
	return c.Do(ctx, s.command(c, call, text))
}

// sendAll sends some of the calls in one pipeline. It returns as many results, in the order of places.
func (s *Lua) sendAll(ctx context.Context, c Client, calls []Call, places []int, text bool) []Result {
	commands := make(rueidis.Commands, len(places))
	for i, place := range places {
		commands[i] = s.command(c, &calls[place], text)
	}
	return c.DoMulti(ctx, commands...)
}

func (s *Lua) command(c Client, call *Call, text bool) rueidis.Completed {
	var command rueidis.Completed
	keys, args, numkeys := call.keys(), call.args(), int64(call.numkeys)
	switch {
	case s.readOnly && text:
		return c.B().EvalRo().Script(s.source).Numkeys(numkeys).Key(keys...).Arg(args...).Build()
	case s.readOnly:
		return c.B().EvalshaRo().Sha1(s.sha1).Numkeys(numkeys).Key(keys...).Arg(args...).Build()
	case text:
		command = c.B().Eval().Script(s.source).Numkeys(numkeys).Key(keys...).Arg(args...).Build()
	default:
		command = c.B().Evalsha().Sha1(s.sha1).Numkeys(numkeys).Key(keys...).Arg(args...).Build()
	}
	if s.retryable {
		command = command.ToRetryable()
	}
	return command
}

// failed is the result of a call that was not sent.
func failed(_ context.Context, err error) Result { return rueidis.NewErrorResult(err) }

// isUnknown reports whether the server does not know the script.
func isUnknown(reply Result) bool {
	e, ok := rueidis.IsRedisErr(reply.Error())
	return ok && e.IsNoScript()
}

// receive returns the message of a reply, or its error. A nil reply is a message.
func receive(reply Result) (Message, error) {
	m, err := reply.ToMessage()
	if rueidis.IsRedisNil(err) {
		return m, nil
	}
	return m, err
}

// serverText returns the text of an error that the server replied with, without the ERR that a server
// puts before a code that stands alone; "" for any other error.
func serverText(err error) string {
	if e, ok := rueidis.IsRedisErr(err); ok {
		return e.Error()
	}
	return ""
}

// unfit returns why the client cannot send scripts, if it cannot.
func (s *Lua) unfit(Client) error { return nil }

// inSlots reports whether the client's keys are in the slots of a cluster.
func inSlots(c Client) bool { return c.Mode() == rueidis.ClientModeCluster }

// DecodeRaw takes any reply.
func DecodeRaw(m Message) (rueidis.RedisMessage, error) { return m, nil }

// load sends the script to every node.
func (s *Lua) load(ctx context.Context, c Client) error {
	var failed error
	for addr, node := range c.Nodes() {
		sha, err := node.Do(ctx, node.B().ScriptLoad().Script(s.source).Build()).ToString()
		failed = errors.Join(failed, s.loaded(addr, sha, err))
	}
	return failed
}

// Cached asks the client-side cache, and the server if the cache has no answer. It sends the text and not the
// SHA1, because rueidis would cache the error NOSCRIPT like an answer.
func (s *Lua) Cached(ctx context.Context, c Client, call *Call, ttl time.Duration) Result {
	if err := s.uncacheable(c, call, ttl); err != nil {
		return rueidis.NewErrorResult(err)
	}
	command := c.B().EvalRo().Script(s.source).Numkeys(1).Key(call.keys()...).Arg(call.args()...)
	return c.DoCache(ctx, command.Cache(), ttl)
}

// CachedGet does the work of Cached for a script that is only GET of its key. It sends GET, which has the
// same answer. The cache then need not compare a script's text.
func (s *Lua) CachedGet(ctx context.Context, c Client, call *Call, ttl time.Duration) Result {
	if err := s.uncacheable(c, call, ttl); err != nil {
		return rueidis.NewErrorResult(err)
	}
	return c.DoCache(ctx, c.B().Get().Key(call.keys()[0]).Cache(), ttl)
}

// uncacheable returns why a call is not sent. One reason is a time that is too short for the cache.
func (s *Lua) uncacheable(c Client, call *Call, ttl time.Duration) error {
	if ttl < time.Millisecond {
		call.refuse("ttl", fmt.Sprintf("%v is below 1ms, the shortest time for which an answer can be cached", ttl))
	}
	return s.refusal(c, call)
}

// DecodeCached reads a reply of Cached or CachedGet.
func DecodeCached[T any](
	s *Lua, reply Result, decode func(s *Lua, reply Result) (T, error),
) (redislua.Cached[T], error) {
	value, err := decode(s, reply)
	if err != nil {
		return redislua.Cached[T]{}, err
	}
	cached := redislua.Cached[T]{Value: value, Hit: reply.IsCacheHit()}
	if at := reply.CachePXAT(); at > 0 {
		cached.Until = time.UnixMilli(at)
	}
	return cached, nil
}
