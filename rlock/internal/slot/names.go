package slot

import (
	"strconv"
	"strings"
	"sync"
)

// What the names that no lock can have start with. Behind the tag of a fence counter's name is nothing;
// behind those of a queue, of who waits in it and of the holders is their lock's key, and behind that of a
// channel a process.
const (
	FencePrefix   = "rlock:fence:{"
	QueuePrefix   = "rlock:queue:{"
	WaitersPrefix = "rlock:waiters:{"
	HoldersPrefix = "rlock:holders:{"
	GrantPrefix   = "rlock:grant:{"
)

// reserved are the starts of names that no lock can have, and what has them.
var reserved = [...][2]string{
	{FencePrefix, "fence counters"},
	{QueuePrefix, "queues"},
	{WaitersPrefix, "those who wait"},
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

// Names are those of the keys that a lock has beside its own.
type Names struct {
	Queue   string // of those who wait: a sorted set of their tokens
	Waiters string // a hash that says who they are
	Holders string // of those who share the lock: a sorted set
}

// Queue returns the name of the queue of a key.
func Queue(key string) string { return NamesOf(key).Queue }

// NamesOf returns the names for a key.
func NamesOf(key string) Names {
	slot := Of(key)
	last := &names[slot%uint16(len(names))]
	last.mu.Lock()
	defer last.mu.Unlock()
	if last.Queue == "" || last.key != key {
		last.Names, last.key = makeNames(tags()[slot], key)
	}
	return last.Names
}

// makeNames makes the names, and a copy of the key that keeps nothing else of the caller's in memory. It
// allocates once.
func makeNames(tag, key string) (n Names, kept string) {
	end := len(tag) + len("}:") + len(key)
	q, w := len(QueuePrefix)+end, len(WaitersPrefix)+end
	var text strings.Builder
	text.Grow(q + w + len(HoldersPrefix) + end)
	for _, prefix := range [...]string{QueuePrefix, WaitersPrefix, HoldersPrefix} {
		text.WriteString(prefix)
		text.WriteString(tag)
		text.WriteString("}:")
		text.WriteString(key)
	}
	all := text.String()
	return Names{all[:q], all[q : q+w], all[q+w:]}, all[q-len(key) : q]
}

// AppendNames appends the names of the queues of keys to list, and then the names of the fence counters
// of the first of them. It allocates once for all queues.
func AppendNames(list, keys []string, counters int) []string {
	tags, counterNames := tags(), fenceCounters()
	size := 0
	for _, key := range keys {
		size += len(QueuePrefix) + longestTag + len("}:") + len(key)
	}
	var text strings.Builder
	text.Grow(size)
	first := len(list)
	list = append(list, keys...)
	list = append(list, keys[:counters]...)
	queues, rest := list[first:first+len(keys)], list[first+len(keys):]
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
	return list
}

// names are the last ones that NamesOf has returned. A key that is locked again and again costs no memory for
// them, which each call of a script needs.
var names [256]struct {
	mu  sync.Mutex
	key string
	Names
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
