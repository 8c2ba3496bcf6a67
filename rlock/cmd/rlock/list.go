package main

import (
	"cmp"
	"context"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
)

// Bounds of a walk through the keys of a server.
const (
	scanCount  = 1000 // keys that the server looks at in one step
	longest    = 400  // bytes that are read of a value: more than a token of rlock has
	concurrent = 64   // questions under way at once, which the client sends together
)

// listCommand is rlock ls.
func (p *program) listCommand(args []string) error {
	a := p.arguments("ls")
	operands, err := a.operands(args, 1, 1, "one PATTERN, quoted: rlock ls 'job:*'")
	if err != nil {
		return err
	}
	ctx, locker, done, err := p.locker()
	if err != nil {
		return err
	}
	defer done()
	keys, err := locks(ctx, locker.Client(), operands[0])
	if err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return failure(exitFailed, "list %s: %w", quote(operands[0]), err)
	}
	flush := p.columns()
	err = each(keys, func(key string) (rlock.State, error) { return inspect(ctx, locker, key) },
		func(state rlock.State) error {
			if !state.Held { // released meanwhile
				return nil
			}
			who := state.Owner
			if state.Shared != nil {
				who = sharers(state.Shared)
			}
			return p.result(quote(state.Key)+"\t"+left(state.Remaining())+"\t"+who+"\n", held(state).withKey(state.Key))
		})
	return cmp.Or(err, flush())
}

// locks returns the keys that match the pattern and have a token of rlock, in order.
func locks(ctx context.Context, client rueidis.Client, pattern string) ([]string, error) {
	found := map[string]struct{}{}
	for _, node := range client.Nodes() {
		if isReplica(ctx, node) {
			continue
		}
		for cursor := uint64(0); ; {
			step, cancel := context.WithTimeout(ctx, answerTimeout)
			entry, err := node.Do(step, node.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Type("string").Build()).AsScanEntry()
			if err == nil {
				err = addLocks(step, client, entry.Elements, found)
			}
			cancel()
			if err != nil {
				return nil, err
			}
			if cursor = entry.Cursor; cursor == 0 {
				break
			}
		}
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// isReplica tells whether a server has nothing but copies. If the server does not tell, it is
// walked through too, which costs time and finds nothing new.
func isReplica(ctx context.Context, node rueidis.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	role, err := node.Do(ctx, node.B().Role().Build()).ToArray()
	if err != nil || len(role) == 0 {
		return false
	}
	name, err := role[0].ToString()
	return err == nil && name == "slave"
}

// token is the form of the values that rlock gives keys: a version 4 UUID, and behind a space what the
// holder says about itself; that of one who wants a share, to whom the lock has just been passed; or
// that of a lock which is shared.
var token = regexp.MustCompile(
	`^(rlock:share:\d+:\d+:)?[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}( .+)?$` +
		`|^rlock:(readers|permits) \d+$`,
)

// addLocks adds the keys whose values are tokens. It asks for the beginning of each value only,
// because the strings of others may be of any size.
func addLocks(ctx context.Context, client rueidis.Client, keys []string, found map[string]struct{}) error {
	if len(keys) == 0 {
		return nil
	}
	commands := make([]rueidis.Completed, len(keys))
	for i, key := range keys {
		commands[i] = client.B().Getrange().Key(key).Start(0).End(longest - 1).Build()
	}
	for i, reply := range client.DoMulti(ctx, commands...) {
		value, err := reply.ToString()
		if refused, is := rueidis.IsRedisErr(err); is && strings.HasPrefix(refused.Error(), "WRONGTYPE") {
			continue // it is another key by now
		}
		if err != nil {
			return err
		}
		if len(value) < longest && token.MatchString(value) {
			found[keys[i]] = struct{}{}
		}
	}
	return nil
}

// each asks about every key, several at a time, and tells of the answers in the order of the keys.
func each(keys []string, ask func(key string) (rlock.State, error), tell func(rlock.State) error) error {
	for part := range slices.Chunk(keys, concurrent) {
		states, errs := make([]rlock.State, len(part)), make([]error, len(part))
		var group sync.WaitGroup
		for i, key := range part {
			group.Go(func() { states[i], errs[i] = ask(key) })
		}
		group.Wait()
		for i := range part {
			if errs[i] != nil {
				return errs[i]
			}
			if err := tell(states[i]); err != nil {
				return err
			}
		}
	}
	return nil
}
