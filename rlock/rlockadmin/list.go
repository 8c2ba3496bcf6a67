package rlockadmin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/internal/argument"
)

// Bounds of a walk through the keys of a server.
const (
	scanCount  = 1000             // keys that the server looks at in one step
	longest    = 400              // bytes that are read of a value: more than a token of rlock has
	concurrent = 64               // questions under way at once, which the client sends together
	stepLimit  = 10 * time.Second // for the answers of one step: a client repeats what only reads for ever
)

// List yields the locks that are held and whose keys match pattern, in the order of their keys. A pattern is
// that of the command SCAN: * stands for any letters, ? for one, [ab] for one of these.
//
// It is no snapshot: a lock that is taken or released meanwhile may be in it or not. List walks through all
// keys of the server, a thousand at a time, on every primary of a cluster, and reads at most 400 bytes of
// the strings that match. It takes each string for a lock that looks like a token of rlock: a random UUID,
// perhaps with a text behind it. So a string of your own that is one is in it, and a lock of another library
// or WithToken is not: look at those with Inspect.
//
// An error is yielded with a State that has the Key which it is about, or no Key if a node could not be
// walked through, whose locks may be missing. The sequence goes on after it, unless ctx has ended, or it
// matches rlock.ErrNoAnswer: the server has not answered for 10 seconds.
func (a *Admin) List(ctx context.Context, pattern string) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		if err := a.mayList(ctx, pattern); err != nil {
			yield(State{}, err)
			return
		}
		keys, missed := a.keys(ctx, pattern)
		for part := range slices.Chunk(keys, concurrent) {
			states, errs := make([]State, len(part)), make([]error, len(part))
			var group sync.WaitGroup
			step, cancel := context.WithTimeout(ctx, stepLimit)
			for i, key := range part {
				group.Go(func() { states[i], errs[i] = a.Inspect(step, key) })
			}
			group.Wait()
			cancel()
			for i, key := range part {
				if errs[i] != nil {
					states[i].Key = key
				} else if states[i].Mode == Free { // it was released meanwhile
					continue
				}
				over := errs[i] != nil && (ctx.Err() != nil || errors.Is(errs[i], rlock.ErrNoAnswer))
				if !yield(states[i], errs[i]) || over {
					return
				}
			}
		}
		for _, err := range missed {
			if !yield(State{}, failed(ctx, "list", pattern, err)) {
				return
			}
		}
	}
}

// mayList checks the arguments of List.
func (a *Admin) mayList(ctx context.Context, pattern string) error {
	if err := a.usable(ctx); err != nil {
		return err
	}
	if pattern == "" {
		return invalid("pattern", `it is empty, which no key matches; "*" matches all`)
	}
	return ended(ctx, "list", pattern)
}

// keys returns the keys that match the pattern and have a token of rlock, in order, and why some nodes could
// not be walked through.
func (a *Admin) keys(ctx context.Context, pattern string) (keys []string, errs []error) {
	found := map[string]struct{}{}
	nodes := a.client.Nodes()
	for _, address := range slices.Sorted(maps.Keys(nodes)) {
		if err := a.walk(ctx, nodes[address], pattern, found); err != nil {
			errs = append(errs, fmt.Errorf("node %s: %w", address, err))
		}
	}
	return slices.Sorted(maps.Keys(found)), errs
}

// walk adds the locks of a node.
func (a *Admin) walk(
	ctx context.Context, node rueidis.Client, pattern string, found map[string]struct{},
) error {
	step := func(do func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, stepLimit)
		defer cancel()
		return do(ctx)
	}
	replica := false
	_ = step(func(ctx context.Context) error { replica = isReplica(ctx, node); return nil })
	for cursor := uint64(0); !replica; {
		err := step(func(ctx context.Context) error {
			scan := node.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Type("string").Build()
			entry, err := node.Do(ctx, scan).AsScanEntry()
			if err != nil {
				return err
			}
			cursor = entry.Cursor
			return addLocks(ctx, a.client, entry.Elements, found)
		})
		if err != nil {
			return err
		}
		if cursor == 0 {
			break
		}
	}
	return nil
}

// isReplica tells whether a server has nothing but copies. If the server does not tell, it is
// walked through too, which costs time and finds nothing new.
func isReplica(ctx context.Context, node rueidis.Client) bool {
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
		var refused *rueidis.RedisError
		if errors.As(err, &refused) && strings.HasPrefix(refused.Error(), "WRONGTYPE") {
			continue // it is another key by now
		}
		if err != nil {
			return err
		}
		_, wrong := argument.Key("", keys[i]) // such as the keys of the queues
		if wrong == nil && len(value) < longest && token.MatchString(value) {
			found[keys[i]] = struct{}{}
		}
	}
	return nil
}
