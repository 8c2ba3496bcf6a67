package interrupt

import (
	"context"
	"errors"
	"reflect"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

// outlasting is the context of a call that has a goroutine. It ends some time after the caller's context,
// so that a dial goes on. Other calls may wait for the connection, and the next call needs it. rueidis asks
// Err before it sends a command, so it sends nothing for a caller who has left.
type outlasting struct {
	caller   context.Context
	stay     <-chan struct{}
	deadline time.Time // far off; zero: there is none

	derived atomic.Bool // a context was derived from it, which package context may keep for longer
}

// farOff is longer than a dial and its first answer take. rueidis asks Err before it says the first word,
// if a deadline comes before the time-out of the dialler (_newPipe). It would then close a connection whose
// caller has left.
const farOff = time.Hour

// begin asks the caller's context for its deadline. The client must not ask while the call is under way. If
// user code panicked then, rueidis would forever count a call that does not exist (pipe.Do).
func (c *outlasting) begin(caller context.Context, stay <-chan struct{}) {
	c.caller, c.stay, c.deadline = caller, stay, time.Time{}
	if deadline, limited := caller.Deadline(); limited {
		c.deadline = deadline.Add(farOff)
	}
}

func (c *outlasting) Deadline() (time.Time, bool) { return c.deadline, !c.deadline.IsZero() }

func (c *outlasting) Done() <-chan struct{} { return c.stay }
func (c *outlasting) Err() error            { return c.caller.Err() }

// Value asks the caller's context. To package context, which asks when it derives a context, Value says
// that it knows nothing of this one. Otherwise user code could panic in a goroutine of the client that lets
// go of the derived context.
func (c *outlasting) Value(key any) any {
	if key == derivationKey {
		c.derived.Store(true)
		return nil
	}
	return c.caller.Value(key)
}

// derivationKey is the key that package context asks for when it derives a context from a context of
// another package.
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

// owned returns result, except that an error about a context must be about the caller's own context. The
// error may come from another call, which has dialled, or whose connection or cached read this call has
// shared.
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

// othersError is the error of a call that ended because another call has ended. It matches the error of no
// context.
type othersError struct{ text string }

func (e *othersError) Error() string { return "another call of the client was given up: " + e.text }

// own are the types of package context whose methods call no other package.
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

// settled returns ctx. If Done or Deadline of ctx may call user code, it returns a context that has asked
// both already. So the client asks no user code while a command is under way. If Done panicked then,
// rueidis would never take the answer, and its connection would serve no further call.
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

// askedBefore is a context that has already been asked for its Done channel and its deadline.
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
