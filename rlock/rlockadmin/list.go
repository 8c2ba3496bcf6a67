package rlockadmin

import (
	"context"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/redis/rueidis"
)

// Bounds of a walk through the keys of a server.
const (
	scanCount  = 1000 // keys that the server looks at in one step
	longest    = 400  // bytes that are read of a value: more than a token of rlock has
	concurrent = 64   // questions under way at once, which the client sends together
)

// List yields the locks that are held and whose keys match pattern, in the order of their keys. A pattern is
// that of the command SCAN: * stands for any letters, ? for one, [ab] for one of these.
//
// It is no snapshot: a lock that is taken or released meanwhile may be in it or not. List walks through all
// keys of the server, a thousand at a time, on every primary of a cluster, and reads at most 400 bytes of the
// strings that match. It yields strings that rlock has written, and not locks of other libraries or with a
// token of the caller's (rlock.WithToken): for those use Inspect. An error is yielded, and ends the sequence.
func (a *Admin) List(ctx context.Context, pattern string) iter.Seq2[State, error] {
	return func(yield func(State, error) bool) {
		keys, err := a.keys(ctx, pattern)
		if err != nil {
			yield(State{}, err)
			return
		}
		for part := range slices.Chunk(keys, concurrent) {
			states, errs := make([]State, len(part)), make([]error, len(part))
			var group sync.WaitGroup
			for i, key := range part {
				group.Go(func() { states[i], errs[i] = a.Inspect(ctx, key) })
			}
			group.Wait()
			for i := range part {
				held := states[i].Mode != Free // otherwise it was released meanwhile
				if (held || errs[i] != nil) && !yield(states[i], errs[i]) || errs[i] != nil {
					return
				}
			}
		}
	}
}

// keys returns the keys that match the pattern and have a token of rlock, in order.
func (a *Admin) keys(ctx context.Context, pattern string) ([]string, error) {
	if err := a.begin(ctx, "list", "*"); err != nil {
		return nil, err
	}
	if pattern == "" {
		return nil, invalid("pattern", `it is empty, which no key matches; "*" matches all`)
	}
	found := map[string]struct{}{}
	for _, node := range a.client.Nodes() {
		if isReplica(ctx, node) {
			continue
		}
		for cursor := uint64(0); ; {
			scan := node.B().Scan().Cursor(cursor).Match(pattern).Count(scanCount).Type("string").Build()
			entry, err := node.Do(ctx, scan).AsScanEntry()
			if err == nil {
				err = addLocks(ctx, a.client, entry.Elements, found)
			}
			if err != nil {
				return nil, failed(ctx, "list", pattern, err)
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
