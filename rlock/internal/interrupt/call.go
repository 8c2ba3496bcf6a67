package interrupt

import (
	"context"
	"runtime"
	"sync/atomic"
	"time"

	"github.com/redis/rueidis"
)

type kind uint8

const (
	do kind = iota
	doCache
	doMulti
)

// call is a call that has a goroutine. The Client uses it again, unless its caller has left.
type call struct {
	*Client
	caller    context.Context
	kind      kind
	command   rueidis.Completed
	cacheable rueidis.Cacheable
	ttl       time.Duration
	commands  []rueidis.Completed

	outlasting outlasting

	lane    *lane
	state   atomic.Uint32
	stay    chan struct{} // closed when the call must end, some time after its caller has left
	done    chan struct{} // receives once the call has returned, if its caller has not left
	result  rueidis.RedisResult
	results []rueidis.RedisResult
	ended   bool // the client has returned
	told    bool // the call is or may be told to end, so the Client does not use it again
	cause   any  // of a panic; nil: none

	start func() // make; stored once, because a go statement with a method would allocate
}

const (
	underway uint32 = iota
	returned
	left // the caller left before the call returned
)

func (c *Client) take(ctx context.Context) *call {
	one, _ := c.spare.Get().(*call)
	if one == nil {
		one = &call{Client: c, stay: make(chan struct{}), done: make(chan struct{}, 1)}
		one.start = one.make
	}
	one.caller = ctx
	return one
}

// put takes back a call that has returned. It does not if something may still use the context of the call,
// or end it. A context derived from that context ends with the caller's context.
func (c *Client) put(one *call) {
	switch derived := one.outlasting.derived.Load(); {
	case one.told:
		return
	case derived:
		stay := one.stay
		context.AfterFunc(settled(one.caller), func() { close(stay) })
		return
	case one.keeps:
		return
	}
	one.caller, one.outlasting.caller, one.lane = nil, nil, nil
	one.command, one.cacheable, one.commands = rueidis.Completed{}, rueidis.Cacheable{}, nil
	one.result, one.results = rueidis.RedisResult{}, nil
	one.ended = false
	one.state.Store(underway)
	c.spare.Put(one)
}

// run returns nil when the call has returned. It returns the error of the caller's context if that ends
// first. If user code in the client panics or ends the goroutine of the call, the same happens to the
// goroutine of the caller.
func (one *call) run(l *lane) error {
	ctx := one.caller
	if err := l.enter(ctx); err != nil {
		return err
	}
	one.lane = l
	go one.start()
	select {
	case <-one.done:
	case <-ctx.Done():
		one.abandoned.add(one)
		if one.state.CompareAndSwap(underway, left) {
			one.health.miss(1)
			return ctx.Err()
		}
		one.abandoned.remove(one)
		<-one.done
		one.told = true
	}
	switch {
	case one.cause != nil:
		panic(one.cause)
	case !one.ended:
		runtime.Goexit()
	}
	return nil
}

func (one *call) make() {
	defer func() {
		if !one.ended {
			one.cause = recover()
		}
		if one.state.CompareAndSwap(underway, returned) {
			one.done <- struct{}{}
		} else {
			one.abandoned.remove(one)
		}
	}()
	var ctx context.Context = &one.outlasting
	if one.outlasts > 0 {
		one.outlasting.begin(one.caller, one.stay)
	} else {
		ctx = settled(one.caller)
	}
	switch one.kind {
	case do:
		one.result = one.Client.Client.Do(ctx, one.command)
	case doCache:
		one.result = one.Client.Client.DoCache(ctx, one.cacheable, one.ttl)
	case doMulti:
		one.results = one.Client.Client.DoMulti(ctx, one.commands...)
	}
	one.ended = true
}
