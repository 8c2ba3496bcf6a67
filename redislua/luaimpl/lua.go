package luaimpl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/redislua"
)

// Bindings has what all scripts of one generated package share.
type Bindings struct {
	name string // of the package: it opens every error text
	once bool   // no call is sent again
}

// NewBindings returns the Bindings of a generated package with these options.
func NewBindings(name string, opts []redislua.Option) Bindings {
	return Bindings{name: name, once: slices.Contains(opts, redislua.WithoutRetry())}
}

// Lua is one script and the way to call it.
type Lua struct {
	pkg       string // of the bindings
	name      string
	sha1      string
	source    string
	errors    map[string]error // error code -> sentinel
	retryable bool             // the client may send a call again
	readOnly  bool             // the client may send a call to a replica
}

// Once returns a script. The client sends each of its calls once.
func (b Bindings) Once(name, sha1, source string, codes map[string]error) Lua {
	return Lua{pkg: b.name, name: name, sha1: sha1, source: source, errors: codes}
}

// Retryable returns a script. The client may send its calls again, unless the options forbid it.
func (b Bindings) Retryable(name, sha1, source string, codes map[string]error) Lua {
	s := b.Once(name, sha1, source, codes)
	s.retryable = !b.once
	return s
}

// Replicated is Retryable for a script whose calls the client may send to replicas.
func (b Bindings) Replicated(name, sha1, source string, codes map[string]error) Lua {
	s := b.Retryable(name, sha1, source, codes)
	s.readOnly = true
	return s
}

// Exec sends the script's SHA1, and its text if the server does not know the script. It uses EVALSHA_RO only
// for a Replicated script, because a client may send EVALSHA_RO to a replica.
func (s *Lua) Exec(ctx context.Context, c Client, call *Call) Result {
	if err := s.refusal(c, call); err != nil {
		return failed(ctx, err)
	}
	reply := s.send(ctx, c, call, false)
	if isUnknown(reply) {
		reply = s.send(ctx, c, call, true)
	}
	return reply
}

// Batch calls the script once for each of params, in one pipeline. If a server does not
// know the script, it sends the text with the calls that this server refused.
func Batch[P, R any](
	ctx context.Context, c Client, s *Lua, params []P,
	encode func(p P, call *Call), decode func(s *Lua, reply Result) (R, error),
) []redislua.Reply[R] {
	replies := make([]redislua.Reply[R], len(params))
	calls := make([]Call, len(params))
	places := make([]int, 0, len(params)) // of calls that are to be sent
	for i, p := range params {
		encode(p, &calls[i])
		if err := s.refusal(c, &calls[i]); err != nil {
			replies[i].Err = err
			continue
		}
		places = append(places, i)
	}
	for _, text := range []bool{false, true} {
		if len(places) == 0 {
			break
		}
		unknown := places[:0]
		for n, reply := range s.sendAll(ctx, c, calls, places, text) {
			i := places[n]
			if !text && isUnknown(reply) {
				unknown = append(unknown, i)
				continue
			}
			replies[i].Value, replies[i].Err = decode(s, reply)
		}
		places = unknown
	}
	return replies
}

// Load sends the scripts to every node of the client.
func Load(ctx context.Context, c Client, scripts ...*Lua) error {
	var failed error
	for _, s := range scripts {
		failed = errors.Join(failed, s.load(ctx, c))
	}
	return failed
}

// loaded returns the error of a server that was sent the script, and answered with its SHA1.
func (s *Lua) loaded(server, sha1 string, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("%s: load %s on %s: %w", s.pkg, s.name, server, err)
	case sha1 != s.sha1:
		return fmt.Errorf("%s: load %s on %s: the server computes the SHA1 %s, the generator %s",
			s.pkg, s.name, server, sha1, s.sha1)
	}
	return nil
}

// refusal returns why a call is not sent.
func (s *Lua) refusal(c Client, call *Call) error {
	if call.refused != nil {
		call.refused.Package, call.refused.Script = s.pkg, s.name
		return call.refused
	}
	if err := s.unfit(c); err != nil {
		return err
	}
	return s.sameSlot(c, call.keys())
}

// sameSlot returns an error if the keys are in different slots of a cluster, because no server
// has them all: rueidis would panic, and with another client the server would refuse the call.
func (s *Lua) sameSlot(c Client, keys []string) error {
	if len(keys) < 2 || !inSlots(c) {
		return nil
	}
	first := redislua.Slot(keys[0])
	for _, key := range keys[1:] {
		if slot := redislua.Slot(key); slot != first {
			return &redislua.CrossSlotError{
				Package: s.pkg, Script: s.name, Keys: [2]string{keys[0], key}, Slots: [2]uint16{first, slot},
			}
		}
	}
	return nil
}

// message returns the message of a reply, or its error. A nil reply is a message.
func (s *Lua) message(reply Result) (Message, error) {
	m, err := receive(reply)
	if err == nil {
		return m, nil
	}
	code, _, _ := strings.Cut(serverText(err), " ")
	if sentinel := s.errors[code]; sentinel != nil {
		return m, fmt.Errorf("%w: %s: %w", sentinel, s.name, err)
	}
	if own := new(redislua.ParamError); errors.As(err, &own) {
		return m, err
	}
	if own := new(redislua.CrossSlotError); errors.As(err, &own) {
		return m, err
	}
	return m, fmt.Errorf("%s: %s: %w", s.pkg, s.name, err)
}

// wrong turns a decoding error into one that names the script and the field.
func (s *Lua) wrong(err error) error {
	e := &redislua.ReplyError{Package: s.pkg, Script: s.name, Reason: err}
	if in, ok := err.(*fieldError); ok {
		e.Field, e.Reason = in.field, in.reason
	}
	return e
}
