package slot

import (
	"strconv"
	"strings"
	"sync"
)

// What the names that no lock can have start with. Behind the tag of a fence counter's name is
// nothing; behind that of a queue and of the holders is their lock's key, and behind that of a channel a
// process.
const (
	FencePrefix   = "rlock:fence:{"
	QueuePrefix   = "rlock:queue:{"
	HoldersPrefix = "rlock:holders:{"
	GrantPrefix   = "rlock:grant:{"
)

// reserved are the starts of names that no lock can have, and what has them.
var reserved = [...][2]string{
	{FencePrefix, "fence counters"},
	{QueuePrefix, "queues"},
	{HoldersPrefix, "holders of shared locks"},
	{GrantPrefix, "channels of grants"},
}

// Reserved reports whether no lock can have the name: with what it starts then, and what
// names with this start belong to.
func Reserved(name string) (prefix, owner string, yes bool) {
	for _, r := range reserved {
		if strings.HasPrefix(name, r[0]) {
			return r[0], r[1], true
		}
	}
	return "", "", false
}

// longestTag is the most that a tag has digits.
const longestTag = 8

// tags returns a hash tag for every slot: the smallest number, in decimal, that is in it. What
// belongs to a lock must be in the lock's slot. A tag that is built out of the lock's own key
// instead would fail for keys with braces in them.
var tags = sync.OnceValue(func() *[count]string {
	var tags [count]string
	var digits [longestTag]byte
	for n, found := 0, 0; found < count; n++ {
		tag := strconv.AppendInt(digits[:0], int64(n), 10)
		if slot := Of(string(tag)); tags[slot] == "" {
			tags[slot] = string(tag)
			found++
		}
	}
	return &tags
})

// Queue returns the name of the queue of those who wait for a key.
func Queue(key string) string {
	slot := Of(key)
	last := &queues[slot%uint16(len(queues))]
	last.mu.Lock()
	defer last.mu.Unlock()
	if last.name == "" || last.key != key {
		last.name = QueuePrefix + tags()[slot] + "}:" + key
		last.key = last.name[len(last.name)-len(key):] // keeps nothing else of the caller's in memory
	}
	return last.name
}

// AppendNames appends the names of the queues of keys to names, and then the names of the fence counters
// of the first of them. It allocates once for all queues.
func AppendNames(names, keys []string, counters int) []string {
	tags, counterNames := tags(), fenceCounters()
	size := 0
	for _, key := range keys {
		size += len(QueuePrefix) + longestTag + len("}:") + len(key)
	}
	var text strings.Builder
	text.Grow(size)
	first := len(names)
	names = append(names, keys...)
	names = append(names, keys[:counters]...)
	queues, rest := names[first:first+len(keys)], names[first+len(keys):]
	for i, key := range keys {
		slot, start := Of(key), text.Len()
		text.WriteString(QueuePrefix)
		text.WriteString(tags[slot])
		text.WriteString("}:")
		text.WriteString(key)
		queues[i] = text.String()[start:]
		if i < counters {
			rest[i] = counterNames[slot]
		}
	}
	return names
}

// Holders returns the name of the sorted set of those who share a key.
func Holders(key string) string { return HoldersPrefix + tags()[Of(key)] + "}:" + key }

// queues are the last names that Queue has returned. A key that is locked again and again costs no
// memory for the name of its queue, which each call of a script needs.
var queues [256]struct {
	mu        sync.Mutex
	key, name string
}

// grants returns what the channels of every slot start with.
var grants = sync.OnceValue(func() *[count]string {
	names := *tags()
	for slot, tag := range names {
		names[slot] = GrantPrefix + tag + "}:"
	}
	return &names
})

// Grants returns what the channels start with on which processes are told of grants of a key, in the
// key's slot. The name of a process follows.
func Grants(key string) string { return grants()[Of(key)] }

// AllGrants is what Grants returns for the keys of one slot. Where there is no cluster, a process has
// one channel for all keys: it starts with this.
const AllGrants = GrantPrefix + "0}:"
