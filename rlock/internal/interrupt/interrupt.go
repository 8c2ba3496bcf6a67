// Package interrupt has contexts end the calls of a rueidis client, also where the client does not heed them.
//
// A rueidis client keeps a call for longer than its context lasts
//
//   - while another call dials the connection (mux._pipe),
//   - while more calls have no answer than its ring has room for (ring.PutOne),
//   - where a call has a connection to itself and its context is cancelled (pipe.syncDo).
//
// And a context that ends while its call dials ends the dial for all who wait for it: where a dial takes
// longer than contexts last, no connection would ever come up.
//
// So a call has a goroutine of its own, and a context that ends no dial; its caller leaves when its own
// context ends. With a client of Open for one server, calls spare the goroutine while no call has to dial and
// the rings have room. And calls that follow each other, and are alone, have a connection to themselves, see
// Lone: all but cached reads and those of very many commands.
//
// The package never knows what a command does, nor what its answer means.
package interrupt

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Client is a client of which Do, DoMulti and DoCache return when their context ends. What they have sent has
// no answer then, and may be done all the same.
type Client struct {
	rueidis.Client
	health    *Health       // nil: every call has a goroutine
	lone      *Lone         // nil: no call has a connection to itself
	outlasts  time.Duration // how long a dial goes on when the caller has left; 0: it ends
	keeps     bool          // it is not known that nothing in the client keeps a context
	lanes     []lane        // of one server, or of the slots of a cluster
	abandoned abandoned
	hits      hits
	spare     *sync.Pool // of calls
}

func newClient(c rueidis.Client, outlasts time.Duration, most int64) *Client {
	return &Client{
		Client: c, outlasts: outlasts, keeps: !plain(c), lanes: newLanes(c.Mode(), most),
		abandoned: abandoned{calls: map[*call]*time.Timer{}}, spare: new(sync.Pool),
	}
}

// plain reports whether a client is one of rueidis, which no hook wraps.
func plain(c rueidis.Client) bool {
	t := reflect.TypeOf(c)
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == reflect.TypeFor[rueidis.ClientOption]().PkgPath()
}

// Of returns a Client for one of the user's. Nobody knows when that dials, so every call has a goroutine.
func Of(c rueidis.Client) *Client {
	return newClient(c, rueidis.DefaultDialTimeout, mostOfOthers)
}

// Opened returns a Client for one that was built with the option.
func Opened(c rueidis.Client, option *rueidis.ClientOption, health *Health) *Client {
	if option.DisableAutoPipelining { // each call dials for itself
		return newClient(c, 0, mostOfOpen)
	}
	timeOut := option.Dialer.Timeout
	if timeOut <= 0 {
		timeOut = rueidis.DefaultDialTimeout
	}
	own := newClient(c, timeOut, mostOfOpen)
	if c.Mode() == rueidis.ClientModeStandalone { // others dial another server when a call needs it
		own.health = health
	}
	return own
}

// WithLone gives calls that are alone a connection of their own, if c knows the Health of its client.
func (c *Client) WithLone(l *Lone) *Client {
	if c.health != nil {
		c.lone = l
	}
	return c
}

// Do makes a call with one command.
func (c *Client) Do(ctx context.Context, command rueidis.Completed) rueidis.RedisResult {
	if !piped(command) {
		if direct := c.lone.enter(ctx); direct != nil {
			return owned(ctx, c.lone.do(ctx, direct, command))
		}
		defer c.lone.leave()
	}
	switch {
	case ctx.Done() == nil:
		return owned(ctx, c.Client.Do(ctx, command))
	case c.health.enter():
		defer c.health.leave()
		result := c.Client.Do(settled(ctx), command)
		c.health.see(result)
		return owned(ctx, result)
	}
	one := c.take(ctx)
	one.kind, one.command = do, command
	return c.resultOf(one, command.Slot())
}

// DoCache makes a call with a command whose answer may be in the client's cache.
func (c *Client) DoCache(
	ctx context.Context, command rueidis.Cacheable, ttl time.Duration,
) rueidis.RedisResult {
	c.lone.Company()
	switch {
	case ctx.Done() == nil:
		return owned(ctx, c.Client.DoCache(ctx, command, ttl))
	case c.health.enter():
		defer c.health.leave()
		result := c.Client.DoCache(settled(ctx), command, ttl)
		c.health.see(result)
		return owned(ctx, result)
	case c.health == nil && c.hits.enter():
		defer c.hits.leave()
		result := c.Client.DoCache(settled(ctx), command, ttl)
		c.hits.see(result)
		return owned(ctx, result)
	}
	one := c.take(ctx)
	one.kind, one.cacheable, one.ttl = doCache, command, ttl
	completed := rueidis.Completed(command)
	result := c.resultOf(one, completed.Slot())
	c.hits.see(result)
	return result
}

// piped reports whether a command is to go over a shared connection: what the server notes for that one, such
// as the keys that it tracks, counts.
func piped(command rueidis.Completed) bool { return command.IsPipe() }

// DoMulti makes a call with several commands.
func (c *Client) DoMulti(ctx context.Context, commands ...rueidis.Completed) []rueidis.RedisResult {
	n := len(commands)
	if n > 0 && n <= mostCommands && !slices.ContainsFunc(commands, piped) {
		if direct := c.lone.enter(ctx); direct != nil {
			return eachOwned(ctx, c.lone.doMulti(ctx, direct, commands))
		}
		defer c.lone.leave()
	}
	switch {
	case n == 0 || ctx.Done() == nil:
		return eachOwned(ctx, c.Client.DoMulti(ctx, commands...))
	case c.health.enter():
		defer c.health.leave()
		results := c.Client.DoMulti(settled(ctx), commands...)
		if i := slices.IndexFunc(results, unanswered); i >= 0 {
			c.health.see(results[i])
		}
		return eachOwned(ctx, results)
	}
	slot := commands[0].Slot()
	all := c.take(ctx)
	all.kind, all.commands = doMulti, commands
	if err := all.run(c.laneOf(slot)); err != nil {
		results := make([]rueidis.RedisResult, n)
		for i := range results {
			results[i] = rueidis.NewErrorResult(err)
		}
		return results
	}
	results := all.results
	c.put(all)
	return eachOwned(ctx, results)
}

// resultOf makes a call that has one result.
func (c *Client) resultOf(one *call, slot uint16) rueidis.RedisResult {
	ctx := one.caller
	if err := one.run(c.laneOf(slot)); err != nil {
		return rueidis.NewErrorResult(err)
	}
	result := one.result
	c.put(one)
	return owned(ctx, result)
}
