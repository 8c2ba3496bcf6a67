package try

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/command"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// content is the data of a key before the call. Without a kind, the key is missing.
type content struct {
	kind    string
	text    string // the text of each value
	size    int    // of a list, a set, a sorted set or a stream
	like    int    // n of the ARGV[n] with the same text; 0: none
	expires bool
	sparse  bool // of a variadic entry: every second key is missing
	foreign bool // no program that follows the header could write it
}

// universal is a text that decodes as any type except a struct. So the data violates no type.
const universal = "1"

// most is the number of values in a long list. It is more than the stack of Lua holds.
const most = 10_000

// hints are what the commands of a script say about the data of its keys.
type hints struct {
	kinds  map[int][]string // by n of KEYS[n]; 0: any key
	fields []string         // of hashes: constants that may be names
	texts  []string         // all constants of the script
	moody  bool             // the script asks for the time, or makes a choice

	persists bool // the script takes expiries away
}

// families maps the start of a command's name to the type of its key. The first match wins.
var families = []struct{ start, kind string }{
	{"sort", ""}, {"scan", ""}, {"script", ""}, {"select", ""}, {"spublish", ""},
	{"set", "string"}, {"substr", "string"}, {"strlen", "string"}, {"lcs", "string"}, {"get", "string"},
	{"mget", "string"}, {"mset", "string"}, {"incr", "string"}, {"decr", "string"}, {"append", "string"},
	{"bit", "string"}, {"psetex", "string"},
	{"blm", "list"}, {"blp", "list"}, {"br", "list"}, {"bz", "zset"}, {"geo", "zset"}, {"lp", "list"},
	{"l", "list"}, {"rp", "list"}, {"h", "hash"}, {"s", "set"}, {"z", "zset"}, {"x", "stream"},
}

func family(command string) string {
	for _, f := range families {
		if strings.HasPrefix(command, f.start) {
			return f.kind
		}
	}
	return ""
}

var name = regexp.MustCompile(`^[a-z_][A-Za-z0-9_:-]{0,40}$`)

// hintsOf asks the analysis which commands use which keys.
func hintsOf(s *script.Script, facts *analyze.Facts) hints {
	h := hints{kinds: map[int][]string{}, texts: s.Constants()}
	for _, c := range facts.Calls {
		names, _ := c.Names()
		for _, name := range names {
			kind := family(strings.ToLower(name))
			known, _ := command.Lookup(name, subcommand(c))
			h.persists = h.persists || known.Name == "persist"
			h.moody = h.moody || known.Flags&command.Random != 0
			for _, w := range c.Words[1:] {
				h.word(kind, w)
			}
		}
	}
	h.moody = h.moody || len(facts.Random) > 0
	for _, text := range h.texts {
		if name.MatchString(text) && text != "call" && text != "pcall" {
			h.fields = append(h.fields, text)
		}
	}
	slices.Sort(h.fields)
	h.fields = slices.Compact(h.fields)
	return h
}

func subcommand(c *analyze.Call) string {
	if len(c.Words) > 1 {
		for _, k := range c.Words[1].Kinds() {
			if s, ok := k.(analyze.Str); ok {
				return s.S
			}
		}
	}
	return ""
}

func (h *hints) word(kind string, w analyze.Word) {
	for _, k := range w.Kinds() {
		key, ok := k.(analyze.Key)
		if ok && kind != "" && !slices.Contains(h.kinds[key.Index], kind) {
			h.kinds[key.Index] = append(h.kinds[key.Index], kind)
		}
	}
}

// plain reports whether the data of each key has only one possible type, with nothing but its values. A
// stream also has groups.
func (h hints) plain() bool {
	for _, kinds := range h.kinds {
		if len(kinds) != 1 || kinds[0] == "stream" {
			return false
		}
	}
	return true
}

// contentsOf returns the possible data of a key, the plainest first.
func (h hints) contentsOf(s *script.Script, p script.Param) []content {
	contents := []content{{}}
	if p.Type.Base != script.KeyType {
		return contents
	}
	kinds := slices.Clone(h.kinds[p.Index])
	for n, more := range h.kinds {
		if n == 0 || p.Variadic && n > p.Index {
			kinds = append(kinds, more...)
		}
	}
	slices.Sort(kinds)
	kinds = slices.Compact(kinds)
	if len(kinds) == 0 {
		kinds = []string{"string"}
	}
	for _, kind := range kinds {
		contents = append(contents, content{kind: kind, text: universal, size: 2},
			content{kind: kind, text: universal, size: 1, expires: true})
		if p.Variadic {
			contents = append(contents, content{kind: kind, text: universal, size: 2, sparse: true})
		}
		for _, a := range s.Args {
			if kind == "string" && isText(a) && !a.Variadic {
				contents = append(contents, content{kind: kind, like: a.Index})
			}
		}
	}
	for _, kind := range kinds {
		if kind == "list" || kind == "set" || kind == "zset" {
			contents = append(contents, content{kind: kind, text: universal, size: most})
		}
		contents = append(contents, content{kind: kind, text: "some text", size: 2, foreign: true})
	}
	for _, kind := range []string{"string", "hash", "list", "set", "zset", "stream"} {
		if !slices.Contains(kinds, kind) {
			contents = append(contents, content{kind: kind, text: universal, size: 1, foreign: true})
		}
	}
	return contents
}

// commands returns the commands that write the content. fields are the names in a hash, and members of a set.
func (c content) commands(key string, fields []string) [][]string {
	var commands [][]string
	number := strconv.Itoa
	switch c.kind {
	case "":
		return nil
	case "string":
		commands = [][]string{{"SET", key, c.text}}
	case "hash":
		words := []string{"HSET", key}
		for _, f := range append(slices.Clone(fields), "1") {
			words = append(words, f, c.text)
		}
		commands = [][]string{words}
	case "list":
		commands = [][]string{append([]string{"RPUSH", key}, slices.Repeat([]string{c.text}, c.size)...)}
	case "set":
		commands = [][]string{append([]string{"SADD", key}, c.members(fields)...)}
	case "zset":
		words := []string{"ZADD", key}
		for i, m := range c.members(fields) {
			words = append(words, number(i+1), m)
		}
		commands = [][]string{words}
	case "stream":
		for i := range c.size {
			commands = append(commands, []string{"XADD", key, number(i+1) + "-1", "1", c.text})
		}
	}
	if c.expires {
		commands = append(commands, []string{"PEXPIRE", key, "3600000"})
	}
	return commands
}

// members returns the members of a set. They are numbers, because a script may count with them, and the names
// in the call.
func (c content) members(fields []string) []string {
	var members []string
	for i := range c.size {
		members = append(members, strconv.Itoa(i+1))
	}
	for _, f := range fields {
		if !slices.Contains(members, f) {
			members = append(members, f)
		}
	}
	if c.foreign {
		members = append(members, c.text)
	}
	return members
}

// String describes the data of the key, for a message.
func (c content) String() string {
	var text string
	switch c.kind {
	case "string":
		text = "the string " + quote(c.text)
	case "hash":
		text = "a hash with the values " + quote(c.text)
	case "zset":
		text = "a sorted set of " + strconv.Itoa(c.size)
	default:
		text = "a " + c.kind + " of " + strconv.Itoa(c.size)
	}
	if c.expires {
		text += " with an expiry"
	}
	return text
}
