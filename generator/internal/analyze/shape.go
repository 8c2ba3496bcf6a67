package analyze

import (
	"maps"
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/command"
)

// shape is what a command answers.
type shape struct {
	form   form
	class  Class
	unit   Unit
	elem   *shape   // of a list, of a set, or of the values of pairs
	elems  []*shape // of a tuple
	orNil  bool
	single bool // of members with scores: one pair, which is not a list of pairs in version 3
	source Source
}

type form uint8

const (
	anything form = iota // nothing is known of it
	integer
	bulk
	double // a number that is a string in version 2
	status
	list
	tuple
	pairsOf  // keys and values in turn in version 2, a map in version 3
	set      // a list in version 2
	flat     // keys and values in turn
	verbatim // a text, which is a table in version 3
)

func (s shape) nullable() shape { s.orNil = true; return s }

func of(form form, elem shape) shape { return shape{form: form, elem: &elem} }

func counted(class Class, unit Unit) shape { return shape{form: integer, class: class, unit: unit} }

var (
	number  = counted(Integer, None)
	flag    = counted(Binary, None)
	text    = shape{form: bulk}
	label   = shape{form: bulk, class: Label}
	score   = shape{form: double, class: Decimal}
	okReply = shape{form: status}
	texts   = of(list, text)
)

// replies are the shapes of the commands that always answer alike.
var replies = map[string]shape{
	"getrange": text, "substr": text, "echo": text, "incrbyfloat": {form: bulk, class: Fraction}, "hincrbyfloat": {form: bulk, class: Fraction},
	"get": text.nullable(), "getdel": text.nullable(), "getex": text.nullable(), "getset": text.nullable(), "hget": text.nullable(),
	"lindex": text.nullable(), "lmove": text.nullable(), "rpoplpush": text.nullable(), "randomkey": text.nullable(),
	"dump": text.nullable(), "object encoding": label.nullable(),
	"zscore": score.nullable(), "geodist": {form: bulk, class: Fraction, orNil: true}, "zincrby": score,
	"zrank": number.nullable(), "zrevrank": number.nullable(), "memory usage": number.nullable(), "object refcount": number.nullable(),
	"object freq": number.nullable(), "object idletime": counted(Integer, Seconds).nullable(),
	"ttl": counted(Integer, Seconds), "pttl": counted(Integer, Milliseconds),
	"expiretime": counted(Integer, UnixSeconds), "pexpiretime": counted(Integer, UnixMilliseconds), "lastsave": counted(Integer, UnixSeconds),
	"keys": texts, "hkeys": texts, "hvals": texts, "lrange": texts, "zrangebylex": texts, "zrevrangebylex": texts,
	"smembers": of(set, text), "sdiff": of(set, text), "sinter": of(set, text), "sunion": of(set, text),
	"hgetall": of(pairsOf, text), "config get": of(pairsOf, text),
	"mget": of(list, text.nullable()), "hmget": of(list, text.nullable()), "geohash": of(list, text.nullable()), "zmscore": of(list, score.nullable()),
	"smismember": of(list, flag), "bitfield": of(list, number.nullable()), "bitfield_ro": of(list, number), "script exists": of(list, flag),
	"time": {form: tuple, elems: []*shape{{form: bulk, class: Integer, unit: UnixSeconds}, {form: bulk, class: Integer}}},
	"scan": {form: tuple, elems: []*shape{{form: bulk, class: Integer}, &texts}}, "sscan": {form: tuple, elems: []*shape{{form: bulk, class: Integer}, &texts}},
	"hscan": {form: tuple, elems: []*shape{{form: bulk, class: Integer}, pointer(of(flat, text))}}, "zscan": {form: tuple, elems: []*shape{{form: bulk, class: Integer}, pointer(of(flat, shape{form: bulk, class: Decimal}))}},
	"geopos": of(list, shape{form: tuple, elems: []*shape{{form: double, class: Fraction}, {form: double, class: Fraction}}, orNil: true}),
	"xrange": entries, "xrevrange": entries, "info": {form: verbatim}, "type": {form: status, class: Label},
	"xread": of(pairsOf, entries).keyed(), "xreadgroup": of(pairsOf, pending).keyed(),
	"zmpop": {form: tuple, elems: []*shape{&text, pointer(of(list, shape{form: tuple, elems: []*shape{&text, &score}}))}, orNil: true},
	"lmpop": {form: tuple, elems: []*shape{&text, &texts}, orNil: true},
}

// entry is one entry of a stream: its id, and its fields, or nil where it is gone.
var (
	entry   = shape{form: tuple, elems: []*shape{&label, pointer(of(flat, text))}}
	entries = of(list, entry)
	pending = of(list, shape{form: tuple, elems: []*shape{&label, pointer(of(flat, text).nullable())}})
)

func pointer(s shape) *shape { return &s }

// keyed is how XREAD pairs streams with their entries: a list of pairs in version 2.
func (s shape) keyed() shape { s.class = Label; s.orNil = true; return s }

var (
	binary   = strings.Fields("expire pexpire expireat pexpireat persist hexists hsetnx setnx sismember smove move renamenx setbit getbit pfadd msetnx copy")
	statuses = strings.Fields("mset hmset rename ltrim lset select flushall flushdb psetex setex restore swapdb pfmerge xsetid")
	// singles answer 0 or 1 where they have one word behind their key, or so many words.
	singles = map[string]int{"del": 2, "exists": 2, "unlink": 2, "touch": 2, "sadd": 3, "srem": 3, "hdel": 3, "zrem": 3, "xdel": 3, "xack": 4, "pfcount": 0, "hset": 4}
	// counts answer a whole number.
	counts = strings.Fields("append bitcount bitop bitpos dbsize decr decrby hincrby hlen hstrlen incr incrby linsert llen lpush lpushx rpush rpushx" +
		" lrem pfcount publish spublish scard sdiffstore sinterstore sunionstore sintercard setrange strlen zcard zcount zlexcount" +
		" zremrangebyrank zremrangebyscore zremrangebylex zdiffstore zinterstore zunionstore zrangestore zintercard xlen xtrim geoadd" +
		" wait client|id geosearchstore xgroup|createconsumer xgroup|destroy xgroup|delconsumer")
)

// shapeOf tells what a command answers.
func shapeOf(name string, words []Word, typed func(Kind) bool) shape {
	if known, found := command.Lookup(name, Subcommand(words)); found {
		name = known.Name
	}
	open := len(words) > 0 && words[len(words)-1].Open
	switch {
	case slices.Contains(binary, name):
		return flag
	case slices.Contains(statuses, name) || name == "xgroup create" || name == "xgroup setid" || name == "memory purge":
		return okReply
	case slices.Contains(counts, strings.ReplaceAll(name, " ", "|")):
		return number
	}
	if n, ok := singles[name]; ok {
		if len(words) == n && !open {
			return flag
		}
		return number
	}
	s, known := replies[name]
	switch {
	case known && (name == "hscan" || name == "zscan"):
		return optioned{words, open, typed}.scan(s)
	case known:
		return s
	}
	return conditional(name, words, open, typed)
}

// optioned is a call whose options decide what it answers.
type optioned struct {
	words []Word
	open  bool
	typed func(Kind) bool // a kind is a number, and no option
}

// has tells whether an option stands among the words from some place on: surely, or
// perhaps, where a word may be anything. takes are the options with values behind them.
func (o optioned) has(from int, option string, takes map[string]int) (surely, perhaps bool) {
	if slices.ContainsFunc(o.words[:min(from, len(o.words))], func(w Word) bool { return w.Open }) {
		return false, true // a list before that place may reach beyond it
	}
	for i := from; i < len(o.words); i++ {
		w := o.words[i]
		s, constant := w.Str()
		switch {
		case w.Open, !constant && !w.All(o.typed):
			return false, true
		case !constant:
			continue
		case strings.EqualFold(s, option):
			return true, true
		}
		for range takes[strings.ToLower(s)] {
			if i++; i < len(o.words) && o.words[i].Open {
				return false, true // what is behind the value is not known
			}
		}
	}
	return false, false
}

// only reports whether all words from some place on are known: literal options, and their values.
func (o optioned) only(from int, takes map[string]int) bool {
	if slices.ContainsFunc(o.words, func(w Word) bool { return w.Open }) {
		return false
	}
	for i := from; i < len(o.words); i++ {
		s, constant := o.words[i].Str()
		behind, known := takes[strings.ToLower(s)]
		if !constant || !known {
			return false
		}
		i += behind
	}
	return true
}

// scan tells what HSCAN and ZSCAN answer, which leave the values out where they are told to.
func (o optioned) scan(with shape) shape {
	takes := map[string]int{"match": 1, "count": 1}
	for _, option := range []string{"novalues", "noscores"} {
		if surely, _ := o.has(3, option, takes); surely {
			return shape{form: tuple, elems: []*shape{with.elems[0], &texts}}
		}
	}
	if !o.only(3, takes) {
		return shape{form: anything}
	}
	return with
}

// either is one shape with an option, another without it, and nothing that is known
// where that cannot be told.
func (o optioned) either(from int, option string, with, without shape) shape {
	switch surely, perhaps := o.has(from, option, values); {
	case surely:
		return with
	case perhaps:
		return shape{form: anything}
	}
	return without
}

// values are the options with words behind them that are values.
var values = map[string]int{
	"limit": 2, "weights": 0, "aggregate": 1, "count": 1, "rank": 1, "maxlen": 1, "ex": 1, "px": 1, "exat": 1, "pxat": 1, "idle": 1, "time": 1,
	"retrycount": 1, "by": 1, "get": 1, "store": 1, "frommember": 1, "fromlonlat": 2, "byradius": 2, "bybox": 3,
}

// conditional tells what the commands answer whose words decide it.
func conditional(name string, words []Word, open bool, typed func(Kind) bool) shape {
	o := optioned{words, open, typed}
	switch name {
	case "ping":
		if len(words) == 1 && !open {
			return shape{form: status, class: Label}
		}
		return text
	case "set":
		return setShape(o)
	case "zadd":
		if len(words) == 4 && !open {
			return flag
		}
		// What follows the options are pairs of a score and a member.
		n := 2 + options(words, "nx", "xx", "gt", "lt", "ch", "incr")
		first := words[min(n, len(words)-1)]
		_, constant := first.Str()
		switch {
		case slices.ContainsFunc(words[2:max(n, 2)], func(w Word) bool { s, _ := w.Str(); return strings.EqualFold(s, "incr") }):
			return score.nullable()
		case (!constant || first.Open) && !first.All(typed):
			return shape{form: anything}
		case !open && len(words) == n+2:
			return flag
		}
		return number
	case "lpop", "rpop", "spop", "srandmember":
		switch {
		case len(words) == 2 && !open:
			return text.nullable()
		case open && len(words) <= 3: // the list may bring a count, or nothing
			return shape{form: anything}
		case name == "lpop" || name == "rpop":
			return texts.nullable()
		case name == "spop":
			return of(set, text)
		}
		return texts
	case "hrandfield", "zrandmember":
		switch {
		case len(words) == 2 && !open:
			return text.nullable()
		case open && len(words) <= 3:
			return shape{form: anything}
		}
		return o.either(3, "withscores", shape{form: pairsOf, elem: &score, class: Fraction}, o.either(3, "withvalues", shape{form: pairsOf, elem: &text, class: Fraction}, texts))
	case "zpopmin", "zpopmax":
		if open {
			return shape{form: anything}
		}
		return shape{form: pairsOf, elem: &score, class: Fraction, single: len(words) == 2}
	case "zrange", "zrevrange", "zrangebyscore", "zrevrangebyscore":
		return o.either(4, "withscores", shape{form: pairsOf, elem: &score, class: Fraction}, texts)
	case "zdiff", "zinter", "zunion":
		if n, known := whole(words[min(1, len(words)-1)].Value); known && n > 0 { // with another number it is an error
			return o.either(2+n, "withscores", shape{form: pairsOf, elem: &score, class: Fraction}, texts)
		}
		return shape{form: anything}
	case "lpos":
		return o.either(3, "count", of(list, number), number.nullable())
	case "xadd":
		return o.xadd()
	case "sort", "sort_ro":
		stores, mayStore := o.has(2, "store", map[string]int{"limit": 2, "by": 1, "get": 1})
		switch {
		case stores:
			return number
		case mayStore:
			return shape{form: anything}
		}
		return o.either(2, "get", of(list, text.nullable()), texts)
	case "geosearch", "georadius_ro", "georadiusbymember_ro", "georadius", "georadiusbymember":
		return o.places(name)
	case "xautoclaim":
		return o.either(6, "justid", shape{form: tuple, elems: []*shape{&label, pointer(of(list, label)), pointer(of(list, label))}},
			shape{form: tuple, elems: []*shape{&label, &entries, pointer(of(list, label))}})
	case "xclaim":
		return o.either(5, "justid", of(list, label), entries)
	case "xpending":
		if len(words) == 3 && !open {
			return shape{form: tuple, elems: []*shape{&number, pointer(label.nullable()), pointer(label.nullable()),
				pointer(of(list, shape{form: tuple, elems: []*shape{&text, {form: bulk, class: Integer}}}).nullable())}}
		}
		if open && len(words) < 5 {
			return shape{form: anything}
		}
		return of(list, shape{form: tuple, elems: []*shape{&label, &text, pointer(counted(Integer, Milliseconds)), &number}})
	}
	return shape{form: anything}
}

// setShape tells what SET answers.
func setShape(o optioned) shape {
	conditions := map[string]int{"nx": 0, "xx": 0, "ifeq": 1, "ifne": 1, "ifdeq": 1, "ifdne": 1}
	takes := map[string]int{"ex": 1, "px": 1, "exat": 1, "pxat": 1, "keepttl": 0, "get": 0}
	maps.Copy(takes, conditions)
	if get, perhaps := o.has(3, "get", takes); get {
		return text.nullable()
	} else if perhaps || !o.only(3, takes) {
		return shape{form: anything}
	}
	for option := range conditions {
		if is, _ := o.has(3, option, takes); is {
			return okReply.nullable()
		}
	}
	return okReply
}

// xadd tells what XADD answers: nil only with NOMKSTREAM, which stands before the id.
func (o optioned) xadd() shape {
	for i := 2; i < len(o.words); i++ {
		s, constant := o.words[i].Str()
		switch {
		case o.words[i].Open, !constant && !o.words[i].All(o.typed):
			return label.nullable()
		case strings.EqualFold(s, "nomkstream"):
			return label.nullable()
		case slices.Contains([]string{"keepref", "delref", "acked"}, strings.ToLower(s)):
		case strings.EqualFold(s, "maxlen"), strings.EqualFold(s, "minid"), s == "~", s == "=":
			if i+1 < len(o.words) && !isText(o.words[i+1], "~", "=") {
				i++
			}
		case strings.EqualFold(s, "limit"):
			i++
		default:
			return label
		}
		if i < len(o.words) && o.words[i].Open { // the option may be behind the value
			return label.nullable()
		}
	}
	if o.open {
		return label.nullable()
	}
	return label
}

func isText(w Word, texts ...string) bool {
	s, constant := w.Str()
	return constant && slices.Contains(texts, s)
}

// places tells what GEOSEARCH and its like answer.
func (o optioned) places(name string) shape {
	from := map[string]int{"geosearch": 2, "georadius": 6, "georadius_ro": 6, "georadiusbymember": 5, "georadiusbymember_ro": 5}[name]
	for _, option := range []string{"store", "storedist"} {
		if _, perhaps := o.has(from, option, values); perhaps && !strings.HasSuffix(name, "_ro") && name != "geosearch" {
			return shape{form: anything}
		}
	}
	coordinates := shape{form: tuple, elems: []*shape{{form: double, class: Fraction}, {form: double, class: Fraction}}}
	parts := []*shape{&text}
	for _, part := range []struct {
		option string
		shape  *shape
	}{{"withdist", &shape{form: bulk, class: Fraction}}, {"withhash", &number}, {"withcoord", &coordinates}} {
		surely, perhaps := o.has(from, part.option, values)
		if perhaps && !surely {
			return shape{form: anything}
		}
		if surely {
			parts = append(parts, part.shape)
		}
	}
	if len(parts) == 1 {
		return texts
	}
	return of(list, shape{form: tuple, elems: parts})
}

// options counts the words from the third on that are options.
func options(words []Word, names ...string) int {
	n := 0
	for _, w := range words[min(2, len(words)):] {
		s, ok := w.Str()
		if !ok || !slices.Contains(names, strings.ToLower(s)) {
			break
		}
		n++
	}
	return n
}
