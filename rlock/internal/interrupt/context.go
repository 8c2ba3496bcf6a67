package interrupt

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// outlasting is the context of a call that has a goroutine. It ends some time after that of the caller, so
// that a dial goes on: others may wait for the connection, and the next call needs it. But rueidis asks Err
// before it sends a command, so nothing is sent for a caller who has left.
type outlasting struct {
	caller   context.Context
	stay     <-chan struct{}
	deadline time.Time // far off; zero: there is none

	derived atomic.Bool // a context was derived from it, which package context may look after for longer
}

// farOff is longer than a dial and its first answer take. Where a deadline is sooner than the time-out of the
// dialler when a connection was made, rueidis asks Err before it says the first word (_newPipe), and so would
// close a connection whose caller has left.
const farOff = time.Hour

// begin asks the caller's context for its deadline. While the call is under way the client must not do so: if
// code of the user's panicked then, rueidis would count a call for ever that nobody makes (pipe.Do).
func (c *outlasting) begin(caller context.Context, stay <-chan struct{}) {
	c.caller, c.stay, c.deadline = caller, stay, time.Time{}
	if deadline, limited := caller.Deadline(); limited {
		c.deadline = deadline.Add(farOff)
	}
}

func (c *outlasting) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

func (c *outlasting) Done() <-chan struct{} { return c.stay }
func (c *outlasting) Err() error            { return c.caller.Err() }

// Value is that of the caller, but package context, when it derives a context, is told that it knows nothing
// of this one: code of the user's must not panic in a goroutine of the client's, which lets go of the derived
// context.
func (c *outlasting) Value(key any) any {
	if key == derivationKey {
		c.derived.Store(true)
		return nil
	}
	return c.caller.Value(key)
}

// derivationKey is what package context asks a context of another package for when it derives one from it.
var derivationKey = func() any {
	asked := &asked{Context: context.Background(), done: make(chan struct{})}
	_, cancel := context.WithCancel(asked)
	defer cancel()
	return asked.key
}()

// asked keeps the last key that it was asked for.
type asked struct {
	context.Context
	done chan struct{}
	key  any
}

func (a *asked) Done() <-chan struct{} { return a.done }
func (a *asked) Value(key any) any     { a.key = key; return nil }

// owned returns a result, but one that says that a context has ended says so of the caller's. That of another
// call may have, which has dialled, or whose connection or cached read it was.
func owned(ctx context.Context, result rueidis.RedisResult) rueidis.RedisResult {
	err := result.NonRedisError()
	if err == nil || !errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, context.Canceled) {
		return result
	}
	if ended := ctx.Err(); ended != nil {
		return rueidis.NewErrorResult(ended)
	}
	if deadline, limited := ctx.Deadline(); limited && !time.Now().Before(deadline) {
		return rueidis.NewErrorResult(context.DeadlineExceeded) // the client has a timer of its own
	}
	return rueidis.NewErrorResult(&othersError{err.Error()})
}

func eachOwned(ctx context.Context, results []rueidis.RedisResult) []rueidis.RedisResult {
	for i, result := range results {
		results[i] = owned(ctx, result)
	}
	return results
}

// othersError is the error of a call for which that of another has ended. It matches no context's.
type othersError struct{ text string }

func (e *othersError) Error() string { return "another call of the client was given up: " + e.text }

// own are types of package context whose methods call nobody else's.
var own = func() (types []reflect.Type) {
	cancelled, cancel := context.WithCancel(context.Background())
	defer cancel()
	limited, stop := context.WithTimeout(context.Background(), time.Hour)
	defer stop()
	all := []context.Context{context.Background(), cancelled, limited, context.WithoutCancel(limited)}
	for _, ctx := range all {
		types = append(types, reflect.TypeOf(ctx))
	}
	return types
}()

// settled returns ctx, or a context with what it has if its Done or Deadline may call code of the user's:
// they are asked before a command is sent, and not while the command is under way. If Done panicked then,
// rueidis would never take the answer, and its connection would serve nobody any more.
func settled(ctx context.Context) context.Context {
	is := reflect.TypeOf(ctx)
	for _, t := range own {
		if is == t {
			return ctx
		}
	}
	asked := &askedBefore{Context: ctx, done: ctx.Done()}
	asked.deadline, asked.limited = ctx.Deadline()
	return asked
}

// askedBefore is a context that was asked for its Done channel and its deadline before.
type askedBefore struct {
	context.Context
	done     <-chan struct{}
	deadline time.Time
	limited  bool
}

func (c *askedBefore) Done() <-chan struct{}       { return c.done }
func (c *askedBefore) Deadline() (time.Time, bool) { return c.deadline, c.limited }

func (c *askedBefore) Value(key any) any {
	if key == derivationKey { // see outlasting
		return nil
	}
	return c.Context.Value(key)
}
