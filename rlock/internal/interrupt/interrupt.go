// Package interrupt makes contexts end the calls of a rueidis client, even where the client ignores them.
// It does not know what a command does, or what its answer means.
package interrupt

import (
	"context"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/redis/rueidis"
)

// Client is a client whose Do, DoMulti and DoCache return when their context ends. Then the commands have
// no answer, and the server may run them all the same.
//
// A rueidis client keeps a call for longer than its context lasts in three cases:
//
//   - Another call dials the connection (mux._pipe).
//   - More calls have no answer than fit in the ring (ring.PutOne).
//   - A call has a connection to itself, and its context is cancelled (pipe.syncDo).
//
// A context that ends while its call dials also ends the dial for all waiting calls. If a dial takes longer
// than contexts last, no connection would ever come up.
//
// So each call has a goroutine, and a context that ends no dial. Its caller leaves when the caller's own
// context ends. With a client of Open for one server, calls need no goroutine while no call has to dial and
// the rings have room. Calls that follow each other, and are alone, have a connection to themselves: see
// Lone. That holds for all calls except cached reads and calls of very many commands.
type Client struct {
	rueidis.Client
	health    *Health       // nil: every call has a goroutine
	lone      *Lone         // nil: no call has a connection to itself
	outlasts  time.Duration // how long a dial goes on after the caller has left; 0: it ends
	keeps     bool          // something in the client may keep a context
	lanes     []lane        // of one server, or of the slots of a cluster
	abandoned abandoned
	hits      hits
	spare     *sync.Pool // spare calls
}

func newClient(c rueidis.Client, outlasts time.Duration, most int64) *Client {
	return &Client{
		Client: c, outlasts: outlasts, keeps: !plain(c), lanes: newLanes(c.Mode(), most),
		abandoned: abandoned{calls: map[*call]*time.Timer{}}, spare: new(sync.Pool),
	}
}

// plain reports whether a client is one of rueidis, without a hook around it.
func plain(c rueidis.Client) bool {
	t := reflect.TypeOf(c)
	return t.Kind() == reflect.Pointer && t.Elem().PkgPath() == reflect.TypeFor[rueidis.ClientOption]().PkgPath()
}

// Of returns a Client for a user's client. The dials of that client cannot be seen, so every call has a
// goroutine.
func Of(c rueidis.Client) *Client {
	return newClient(c, rueidis.DefaultDialTimeout, mostOfOthers)
}

// Opened returns a Client for a client that was built with the option.
func Opened(c rueidis.Client, option *rueidis.ClientOption, health *Health) *Client {
	if option.DisableAutoPipelining { // each call dials for itself
		return newClient(c, 0, mostOfOpen)
	}
	timeOut := option.Dialer.Timeout
	if timeOut <= 0 {
		timeOut = rueidis.DefaultDialTimeout
	}
	own := newClient(c, timeOut, mostOfOpen)
	if c.Mode() == rueidis.ClientModeStandalone { // other clients dial another server when a call needs it
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

// piped reports whether a command must go over a shared connection. The command is about state that the
// server keeps for that connection, for example its tracked keys.
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

func (c *Client) resultOf(one *call, slot uint16) rueidis.RedisResult {
	ctx := one.caller
	if err := one.run(c.laneOf(slot)); err != nil {
		return rueidis.NewErrorResult(err)
	}
	result := one.result
	c.put(one)
	return owned(ctx, result)
}
