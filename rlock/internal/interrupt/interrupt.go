// Package interrupt has contexts end the calls of a rueidis client, also where the client does not heed them.
//
// Where a call has a connection to itself, a rueidis client writes and reads on the goroutine of its caller. It
// then heeds the deadline of a context, but not that the context is cancelled: the caller of a silent server
// waits for the deadline or for ConnWriteTimeout (pipe.syncDo in rueidis).
//
// It never knows what a command does, nor what its answer means.
package interrupt

import (
	"context"
	"errors"
	"sync"

	"github.com/redis/rueidis"
)

// errEnded is the error of a call whose goroutine the user's code in the client has ended.
var errEnded = errors.New("the client has called runtime.Goexit")

// NewClient is that of rueidis, but Do and DoMulti return when their context ends. What they have sent has no
// answer then, and may be done all the same.
func NewClient(option rueidis.ClientOption) (rueidis.Client, error) {
	c, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	return wrap(c, &option), nil
}

// wrap returns c itself if it heeds all contexts, because a goroutine for each call costs few callers 5 to 9 %.
func wrap(c rueidis.Client, option *rueidis.ClientOption) rueidis.Client {
	pipelines := option.OnInvalidations != nil || option.AlwaysPipelining // from the start; others, once calls go at the same time
	if pipelines && !option.DisableAutoPipelining {
		return c
	}
	return &client{c, option.DisableAutoPipelining, new(sync.Pool)}
}

// client is a client of which Do and DoMulti return when the context ends.
type client struct {
	rueidis.Client
	deaf  bool       // no call heeds that its context is cancelled; otherwise those without a deadline do
	spare *sync.Pool // of calls
}

// heeds reports whether a call returns when ctx ends, as far as ctx can end.
func (c *client) heeds(ctx context.Context) bool {
	if ctx.Done() == nil {
		return true
	}
	_, limited := ctx.Deadline()
	return !c.deaf && !limited
}

// Do makes a call that does not heed ctx in a goroutine of its own, which costs no allocation.
func (c *client) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if c.heeds(ctx) {
		return c.Client.Do(ctx, command)
	}
	one := c.begin(ctx)
	one.command = command
	go one.start()
	if err := one.wait(); err != nil {
		return rueidis.NewErrorResult(err)
	}
	result := one.result
	c.end(one)
	return result
}

// DoMulti is Do of several commands.
func (c *client) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	if c.heeds(ctx) {
		return c.Client.DoMulti(ctx, commands...)
	}
	all, n := c.begin(ctx), len(commands)
	all.commands = commands
	go all.start()
	if err := all.wait(); err != nil {
		results := make([]rueidis.RedisResult, n)
		for i := range results {
			results[i] = rueidis.NewErrorResult(err)
		}
		return results
	}
	results := all.results
	c.end(all)
	return results
}

// call is one call of Do or DoMulti.
type call struct {
	client   rueidis.Client
	ctx      context.Context
	command  rueidis.Completed
	commands []rueidis.Completed // nil: the call is one of Do

	done    chan struct{} // receives one when the call has ended
	result  rueidis.RedisResult
	results []rueidis.RedisResult
	ended   bool // it has returned
	cause   any  // of a panic, if not nil

	start func() // run; made once, because a go statement with a method would allocate
}

func (c *client) begin(ctx context.Context) *call {
	one, _ := c.spare.Get().(*call)
	if one == nil {
		one = &call{client: c.Client, done: make(chan struct{}, 1)}
		one.start = one.run
	}
	one.ctx = ctx
	return one
}

// end takes back a call that has returned.
func (c *client) end(one *call) {
	*one = call{client: one.client, done: one.done, start: one.start}
	c.spare.Put(one)
}

// run makes the call. Nobody waits for it any more if its context has ended: done has room.
func (one *call) run() {
	defer func() {
		if !one.ended {
			one.cause = recover()
		}
		one.done <- struct{}{}
	}()
	if one.commands == nil {
		one.result = one.client.Do(one.ctx, one.command)
	} else {
		one.results = one.client.DoMulti(one.ctx, one.commands...)
	}
	one.ended = true
}

// wait returns nil if the call has returned, and why ctx has ended if that comes first. A panic of the call
// becomes one of the caller.
func (one *call) wait() error {
	select {
	case <-one.done:
	case <-one.ctx.Done():
		return one.ctx.Err()
	}
	switch {
	case one.cause != nil:
		panic(one.cause)
	case !one.ended:
		return errEnded
	}
	return nil
}
