package try

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// longest is the time limit of a call. With the values of a run, only an endless loop takes longer.
const longest = time.Second

// Errors of calls.
var (
	errHung    = errors.New("the script does not end")
	errCrashed = errors.New("the server has crashed")
)

// outcome is what a call did.
type outcome struct {
	before, after data
	reply         rueidis.RedisMessage
	err           error // from the server
	again         *outcome
}

// runner makes calls of one script.
type runner struct {
	*server
	script  *script.Script
	hints   hints
	space   *space
	granted []string // the rights of the user
	tried   int      // inputs
}

// run writes the data of an input, and makes its call. If again is set, it makes the call twice. It returns
// errors of the run itself, such as errHung.
func (r *runner) run(ctx context.Context, in input, client rueidis.Client, again bool) (*outcome, error) {
	if err := r.prepare(ctx, in); err != nil {
		return nil, err
	}
	plain := r.space.plain(in)
	for range in.earlier {
		if _, err := r.call(ctx, client, plain); err != nil {
			return nil, err
		}
	}
	keys := in.names()
	if r.own {
		keys = nil // all keys on the server
	}
	before, err := r.dump(ctx, keys)
	if err != nil {
		return nil, err
	}
	o, err := r.observe(ctx, client, in, keys, before)
	if err == nil && again && o.err == nil {
		o.again, err = r.observe(ctx, client, in, keys, o.after)
	}
	return o, err
}

// observe makes a call, and reads the data after it.
func (r *runner) observe(
	ctx context.Context, client rueidis.Client, in input, keys []string, before data,
) (*outcome, error) {
	o, err := r.call(ctx, client, in)
	if err != nil {
		return nil, err
	}
	o.before = before
	o.after, err = r.dump(ctx, keys)
	return o, err
}

// prepare removes the data of an earlier call, and writes the data before this call.
func (r *runner) prepare(ctx context.Context, in input) error {
	var commands rueidis.Commands
	if r.own {
		commands = append(commands, r.admin.B().Flushall().Build())
	} else if len(in.keys) > 0 {
		commands = append(commands, r.admin.B().Del().Key(in.names()...).Build())
	}
	fields := in.fields(r.hints)
	for _, k := range in.keys {
		for _, words := range k.commands(k.name, fields) {
			commands = append(commands, r.admin.B().Arbitrary(words...).Build())
		}
	}
	for _, reply := range r.admin.DoMulti(ctx, commands...) {
		if err := reply.Error(); err != nil {
			return err
		}
	}
	return nil
}

// clear removes all keys of the script, even after an interrupt.
func (r *runner) clear() error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if r.admin == nil || r.own {
		return nil
	}
	return r.prepare(ctx, input{keys: r.space.keys()})
}

// call makes one call, and stops it at the time limit.
func (r *runner) call(ctx context.Context, client rueidis.Client, in input) (*outcome, error) {
	limited, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	keys := in.names()
	command := client.B().Eval().Script(r.script.Source).Numkeys(int64(len(keys))).Key(keys...)
	m, err := client.Do(limited, command.Arg(in.words()...).Build()).ToMessage()
	var refused *rueidis.RedisError
	switch {
	case err == nil || rueidis.IsRedisNil(err):
		return &outcome{reply: m}, nil
	case errors.As(err, &refused):
		return &outcome{err: refused}, nil
	case ctx.Err() != nil: // either of the two may have ended the call
		return nil, ctx.Err()
	case errors.Is(err, context.DeadlineExceeded):
		return nil, r.stop(ctx)
	case r.program != nil && r.program.endsSoon():
		return nil, errors.Join(errCrashed, r.again(ctx))
	}
	return nil, err
}

// again restarts the program, with the user.
func (r *runner) again(ctx context.Context) error {
	if err := r.restart(ctx); err != nil {
		return err
	}
	return r.allow(ctx, r.granted)
}

// stop ends a script that takes too long. If the server works again, it returns errHung. A script that has
// written cannot be stopped. If the run started the server, stop kills the server.
func (r *runner) stop(ctx context.Context) error {
	switch {
	case r.program != nil:
		return cmp.Or(r.again(ctx), errHung)
	case r.local != nil:
		r.lost = true
		return fmt.Errorf("%v, and the embedded server cannot stop it; "+
			"name a program such as redis-server", errHung)
	}
	limited, cancel := context.WithTimeout(ctx, 10*time.Second) // a server lets scripts run for five seconds
	defer cancel()
	err := r.admin.Do(limited, r.admin.B().ScriptKill().Build()).Error()
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil && !strings.HasPrefix(err.Error(), "NOTBUSY"): // the script may have ended by itself
		return fmt.Errorf("%v, and the server cannot stop it: %w", errHung, err)
	}
	return errHung
}
