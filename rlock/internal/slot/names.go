package slot

import (
	"strconv"
	"strings"
	"sync"
)

// The starts of the names that no lock can have. A number that puts the name in its slot and "}" follow.
// The name of a fence counter ends there. In the names of a queue, its waiters and the holders, the key of
// the lock follows. In the name of a channel, a process follows.
const (
	FencePrefix   = "rlock:fence:{"
	QueuePrefix   = "rlock:queue:{"
	WaitersPrefix = "rlock:waiters:{"
	HoldersPrefix = "rlock:holders:{"
	GrantPrefix   = "rlock:grant:{"
)

// reserved has the starts of names that no lock can have, and what the names are for.
var reserved = [...][2]string{
	{FencePrefix, "fence counters"},
	{QueuePrefix, "queues"},
	{WaitersPrefix, "waiters"},
	{HoldersPrefix, "holders of shared locks"},
	{GrantPrefix, "channels of grants"},
}

// Reserved reports whether no lock can have the name. Then it returns the start of the name, and what names
// with this start are for.
func Reserved(name string) (prefix, owner string, yes bool) {
	for _, r := range reserved {
		if strings.HasPrefix(name, r[0]) {
			return r[0], r[1], true
		}
	}
	return "", "", false
}

// longestTag is the largest number of digits in a tag.
const longestTag = 8

// tags returns a hash tag for every slot: the smallest number in it, in decimal. The keys that belong to a
// lock must be in the lock's slot. A tag built from the lock's own key would fail for a key with braces.
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

// Names are the names of the keys that a lock has beside its own.
type Names struct {
	Queue   string // a sorted set of the tokens of the waiters
	Waiters string // a hash that says who the waiters are
	Holders string // a sorted set of the holders who share the lock
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

// makeNames makes the names and a copy of the key. The copy keeps no other memory of the caller in use.
// makeNames allocates once.
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

// AppendNames appends to list the names of the queues of keys, and then the names of the fence counters of
// the first counters keys. It allocates once for all queues.
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

// names has the last Names that NamesOf has returned. Each call of a script needs them. So a key that is
// locked again and again costs no memory for them.
var names [256]struct {
	mu  sync.Mutex
	key string
	Names
}

// grants returns the start of the channel names of every slot.
var grants = sync.OnceValue(func() *[count]string {
	names := *tags()
	for slot, tag := range names {
		names[slot] = GrantPrefix + tag + "}:"
	}
	return &names
})

// Grants returns the start of the names of the channels that carry grants of a key. The channels are in the
// key's slot. The name of a process follows the start.
func Grants(key string) string { return grants()[Of(key)] }

// AllGrants is what Grants returns for the keys of one slot. Without a cluster, a process has one channel
// for all keys, whose name starts with AllGrants.
const AllGrants = GrantPrefix + "0}:"
