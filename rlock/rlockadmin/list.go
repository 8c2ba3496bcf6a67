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
	scanCount  = 1000             // keys that the server scans in one step
	longest    = 400              // bytes that List reads of a value: more than a token of rlock has
	concurrent = 64               // questions under way at the same time
	stepLimit  = 10 * time.Second // for one step: a client repeats reads for ever
)

// List yields the held locks whose keys match pattern, in the order of their keys. pattern is a pattern of
// the command SCAN. * stands for any letters, ? for one letter, [ab] for one of these letters.
//
// The list is no snapshot: it may have a lock that is taken or released meanwhile, or not. List walks through
// all keys of the server, a thousand at a time, on every primary of a cluster. It reads at most 400 bytes of
// each string that matches. A string counts as a lock if it looks like a token of rlock: a random UUID,
// perhaps with a text after it. So the list has strings of other programs that look like that. It lacks locks
// of other libraries and locks WithToken: use Inspect for these.
//
// If List cannot read a key, it yields an error and a State with only that Key. If List cannot walk through a
// node, it yields an error and a State without a Key. Locks of that node may then be missing. After an error
// the sequence goes on, with two exceptions: ctx has ended, or the error matches rlock.ErrNoAnswer, because
// the server has not answered for 10 seconds.
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

// keys returns the keys that match the pattern and have a token of rlock, in order. It also returns the
// errors of the nodes that it could not walk through.
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

// isReplica reports whether a server is a replica. If the server does not say, List walks through it too,
// which costs time and finds nothing new.
func isReplica(ctx context.Context, node rueidis.Client) bool {
	role, err := node.Do(ctx, node.B().Role().Build()).ToArray()
	if err != nil || len(role) == 0 {
		return false
	}
	name, err := role[0].ToString()
	return err == nil && name == "slave"
}

// token is the form of the values that rlock gives keys. A lock has a version 4 UUID, with the text of
// WithOwner after a blank. A share that was just granted has the same with a prefix. A shared lock has a
// value of its own.
var token = regexp.MustCompile(
	`^(rlock:share:\d+:\d+:)?[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}( .+)?$` +
		`|^rlock:(readers|permits) \d+$`,
)

// addLocks adds the keys whose values are tokens. It reads only the beginning of each value, because a string
// of another program may have any size.
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
		_, wrong := argument.Key("", keys[i]) // wrong for the keys of the queues
		if wrong == nil && len(value) < longest && token.MatchString(value) {
			found[keys[i]] = struct{}{}
		}
	}
	return nil
}
