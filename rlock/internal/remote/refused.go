package remote

import (
	"errors"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

const (
	// mostRefused is how many keys a memory of refusals has at most. While it is full, the calls for keys
	// of which nothing is known go without the queue, so that a user who has the right to none pays for
	// so many refused commands in Patience at most.
	mostRefused = 64
	// mostUsable is how many keys it knows at most whose queues the user may use.
	mostUsable = 1024
)

// refusals remembers for Patience which queues the user may not use: all of them, or those of some keys.
type refusals struct {
	until atomic.Int64 // a clock.Instant: when the last of them is forgotten; 0: there was none

	mu     sync.Mutex
	all    clock.Instant            // until then it is all queues; 0: never
	keys   map[string]clock.Instant // until when the queue of a key is
	order  []string                 // of keys, in the order in which they are forgotten
	usable map[string]struct{}      // keys whose queues the user may use, as seen while there were refusals
}

// now returns the time if there are refusals to remember.
func (r *refusals) now() (now clock.Instant, any bool) {
	until := r.until.Load()
	if until == 0 {
		return 0, false
	}
	now = clock.Now()
	return now, now < clock.Instant(until)
}

// count reports whether a call for a key has to go without the queue.
func (r *refusals) count(key string) bool {
	now, any := r.now()
	if !any {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	if r.all != 0 && now < r.all {
		return true
	}
	if _, refused := r.keys[key]; refused || len(r.keys) < mostRefused {
		return refused
	}
	_, known := r.usable[key]
	return !known
}

// note remembers a refusal of a call for a key.
func (r *refusals) note(key string, ofKey bool) {
	now := clock.Now()
	end := now.After(Patience)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forget(now)
	r.until.Store(int64(end))
	if !ofKey {
		r.all = end
		return
	}
	delete(r.usable, key)
	if _, known := r.keys[key]; known || len(r.keys) >= mostRefused {
		return
	}
	if r.keys == nil {
		r.keys = map[string]clock.Instant{}
	}
	key = strings.Clone(key) // keeps nothing else of the caller's in memory
	r.keys[key] = end
	r.order = append(r.order, key)
}

// worked remembers that a call for a key has used its queue.
func (r *refusals) worked(key string) {
	if _, any := r.now(); !any {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.usable[key]; known {
		return
	}
	if r.usable == nil {
		r.usable = map[string]struct{}{}
	}
	if len(r.usable) >= mostUsable {
		for other := range r.usable {
			delete(r.usable, other)
			break
		}
	}
	r.usable[strings.Clone(key)] = struct{}{}
}

// forget drops what is over.
func (r *refusals) forget(now clock.Instant) {
	for len(r.order) > 0 && now >= r.keys[r.order[0]] {
		delete(r.keys, r.order[0])
		r.order = r.order[1:]
	}
}

// Forbidden reports whether the user lacked a right to run a command.
func Forbidden(err error) bool {
	_, is := forbidden(err)
	return is
}

// forbidden is Forbidden, and returns the words of the server.
func forbidden(err error) (text string, is bool) {
	if err == nil || contextEnded(err) {
		return "", false
	}
	var server *rueidis.RedisError
	if !errors.As(err, &server) {
		return "", false
	}
	// Redis 7.0 has words of its own for the commands of a script, and Valkey others.
	text = server.Error()
	return text, strings.HasPrefix(text, "NOPERM") || strings.Contains(text, "ACL failure") || strings.Contains(text, "user executing the script can't")
}

// ofOneKey reports whether the user lacks a right that others may have for other keys: to a key, or to a
// channel where the channels are of slots. Without the right to run a command, there is no queue at all.
// Which key or channel it is, servers do not say. Only what is said of a command has a name of the
// user's in it, which may be any word.
func ofOneKey(refusal error, slots bool) bool {
	text, is := forbidden(refusal)
	if !is || strings.Contains(text, " run ") {
		return false
	}
	return strings.Contains(text, " key") || slots && strings.Contains(text, " channel")
}
