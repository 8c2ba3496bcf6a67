package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// Reply is the outcome of one call of a batch.
type Reply[T any] struct {
	Value T     // the answer; the zero value when Err is set
	Err   error // nil when Value is an answer
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

// call is the words of one call.
type call struct{ keys, args []string }

// batch calls the script once for each of params, in one pipeline. If a server does not
// know the script, batch sends its text with the calls that this server refused.
func batch[P, R any](
	ctx context.Context, c client, s *luaScript, params []P,
	encode func(p P, keys, args []string) ([]string, []string, error),
	decode func(s *luaScript, reply result) (R, error),
) []Reply[R] {
	replies := make([]Reply[R], len(params))
	calls := make([]call, 0, len(params))
	places := make([]int, 0, len(params)) // of calls in params
	for i, p := range params {
		keys, args, err := encode(p, nil, nil)
		if err == nil {
			err = s.sameSlot(c, keys)
		}
		if err != nil {
			replies[i].Err = err
			continue
		}
		calls, places = append(calls, call{keys, args}), append(places, i)
	}
	for _, text := range []bool{false, true} {
		if len(calls) == 0 {
			break
		}
		unknown := 0
		for n, reply := range s.send(ctx, c, calls, text) {
			if !text && isUnknown(reply) {
				calls[unknown], places[unknown] = calls[n], places[n]
				unknown++
				continue
			}
			i := places[n]
			replies[i].Value, replies[i].Err = decode(s, reply)
		}
		calls, places = calls[:unknown], places[:unknown]
	}
	return replies
}

// loaded returns the error of a server that was sent the script, and answered with its SHA1.
func (s *luaScript) loaded(server, sha1 string, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%s: load %s on %s: %w", packageName, s.name, server, err)
	case sha1 != s.sha1:
		return fmt.Errorf("%s: load %s on %s: the server computes the SHA1 %s, the generator %s", packageName, s.name, server, sha1, s.sha1)
	}
	return nil
}

// message returns the message of a reply, or its error. A nil reply is a message.
func (s *luaScript) message(reply result) (message, error) {
	m, err := receive(reply)
	if err == nil {
		return m, nil
	}
	code, _, _ := strings.Cut(refusal(err), " ")
	if sentinel := s.errors[code]; sentinel != nil {
		return m, fmt.Errorf("%w: %s: %w", sentinel, s.name, err)
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
