package oracle

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Entry is a declared key or argument.
type Entry struct {
	Name  string
	Kind  string // of a key: the type of its value; of an argument: its type in the header
	Bound bool   // it has a meaning of its own, so that nothing else uses it
}

// Program is a script with what the runs need to know of it.
type Program struct {
	Name     string
	Mode     string
	Keys     []Entry
	Rest     bool // any number of keys may follow Keys
	Args     []Entry
	Returns  string
	Guard    string // "held", "fenced" or ""
	Body     string
	Features []string // what it is made of; a mistake begins with bad
	Texts    bool     // string functions make texts of which the generator does not know what they are
	Lease    bool     // its duration arguments become leases
}

// Text is the script as a file.
func (p *Program) Text() string {
	var b strings.Builder
	fmt.Fprintf(&b, "-- A random program.\n--\n-- mode: %s\n", p.Mode)
	switch p.Guard {
	case "held":
		b.WriteString("-- guard: KEYS[1] held by ARGV[1]\n")
	case "fenced":
		b.WriteString("-- guard: KEYS[1] fenced by ARGV[1]\n")
	}
	for i, k := range p.Keys {
		fmt.Fprintf(&b, "-- KEYS[%d] %s key\n", i+1, k.Name)
	}
	if p.Rest {
		fmt.Fprintf(&b, "-- KEYS[%d..] rest key\n", len(p.Keys)+1)
	}
	for i, a := range p.Args {
		kind := a.Kind
		if kind == "fence" {
			kind = "int"
		}
		fmt.Fprintf(&b, "-- ARGV[%d] %s %s\n", i+1, a.Name, kind)
	}
	fmt.Fprintf(&b, "-- returns: %s\n", p.Returns)
	b.WriteString(p.Body)
	return b.String()
}

// Mistaken reports whether the program was written with a mistake.
func (p *Program) Mistaken() bool {
	return slices.ContainsFunc(p.Features, func(f string) bool { return strings.HasPrefix(f, "bad ") })
}

// Write returns the program of a seed and a number.
func Write(seed uint64, number int) *Program {
	w := &writer{Rand: rand.New(rand.NewPCG(seed, uint64(number))), program: &Program{Name: fmt.Sprintf("p%06d", number)}}
	p := w.program
	if w.chance(60) {
		w.mistake = pick(w, mistakes...)
	}
	p.Mode = pick(w, "write", "write", "write", "read", "read", "read cached")
	switch w.mistake {
	case "cached":
		p.Mode = "read cached"
	case "guard", "fence", "unit":
		p.Mode = "write"
	}
	if p.Mode == "write" {
		p.Guard = pick(w, "", "", "held", "fenced")
	}
	w.line("")
	switch p.Guard {
	case "held":
		w.held()
	case "fenced":
		w.fenced()
	default:
		for range 1 + w.IntN(3) {
			w.act()
		}
	}
	w.reply()
	p.Body = w.body.String()
	p.Body, p.Keys = prune(p.Body, "KEYS", p.Keys)
	p.Body, p.Args = prune(p.Body, "ARGV", p.Args)
	slices.Sort(p.Features)
	p.Features = slices.Compact(p.Features)
	return p
}

// prune takes out the entries of KEYS or ARGV that the body does not use, since the
// generator would refuse the program for them.
func prune(body, array string, entries []Entry) (string, []Entry) {
	var used []Entry
	places := make([]string, 0, 2*len(entries))
	for i, e := range entries {
		if place := fmt.Sprintf("%s[%d]", array, i+1); strings.Contains(body, place) {
			used = append(used, e)
			places = append(places, place, fmt.Sprintf("%s[%d]", array, len(used)))
		}
	}
	return strings.NewReplacer(places...).Replace(body), used
}

// act writes a command, perhaps inside of something.
func (w *writer) act() {
	if w.chance(12) {
		w.allKeys()
		return
	}
	switch w.IntN(8) {
	case 0:
		w.note("inside if")
		w.block("if "+w.condition()+" then", w.command, "end")
	case 1:
		w.note("inside for")
		w.block("for i = 1, 2 do", w.command, "end")
	case 2:
		w.note("inside function")
		f := w.name("f")
		w.block("local function "+f+"()", w.command, "end")
		w.line("%s()", f)
	case 3:
		w.note("inside pcall")
		w.block("pcall(function()", w.command, "end)")
	case 4:
		w.note("inside metamethod")
		t := w.name("t")
		w.block("local "+t+" = setmetatable({}, {__"+pick(w, "index", "newindex", "call", "add", "concat", "unm", "eq", "lt")+" = function()", w.command, "end})")
		w.line("pcall(function()")
		w.line("  local x = %s.y", t)
		w.line("  %s.y = 1", t)
		w.line("end)")
		w.line("pcall(function() return %s() end)", t)
		w.line("pcall(function() return %s + 1, -%s, %s .. 'x' end)", t, t, t)
	case 5:
		w.note("inside callback")
		w.block(pick(w, "table.sort({2, 1}, function()", "string.gsub('x', 'x', function()"), func() {
			w.command()
		}, "end)")
	default:
		w.command()
	}
}

// allKeys writes a command for KEYS as a whole.
func (w *writer) allKeys() {
	verb := pick(w, "EXISTS", "TYPE", "PTTL")
	if w.program.Mode == "write" {
		verb = pick(w, verb, "DEL", "PERSIST", "UNLINK")
	}
	w.program.Rest = w.program.Mode != "read cached" && w.chance(80)
	list := pick(w, "KEYS", "KEYS", w.route("KEYS", "{}"), "{unpack(KEYS)}")
	if w.wrong("keys") {
		w.line("%s", pick(w, "table.insert(KEYS, 'outside')", "KEYS[#KEYS + 1] = 'outside'", "KEYS[1] = 'outside'", "rawset(KEYS, 1, 'outside')", "for i = 1, #ARGV do KEYS[#KEYS + 1] = ARGV[i] end"))
	}
	form := pick(w, "ipairs", "pairs", "unpack", "count", "last", "copy")
	w.note("all keys by " + form)
	switch form {
	case "ipairs", "pairs":
		w.line("for _, k in %s(%s) do redis.call('%s', k) end", form, list, verb)
	case "unpack":
		if verb == "DEL" || verb == "UNLINK" || verb == "EXISTS" {
			w.line("redis.call('%s', unpack(%s))", verb, list)
			return
		}
		w.line("redis.call('%s', (unpack(%s)))", verb, list)
	case "count":
		w.line("for i = 1, #KEYS do redis.call('%s', KEYS[i]) end", verb)
	case "last":
		w.line("if #KEYS > 0 then redis.call('%s', KEYS[#KEYS]) end", verb)
	case "copy":
		t, copied := w.name("t"), "k"
		if w.wrong("keys") {
			copied = pick(w, "k .. ''", "ARGV[i]", "tostring(i)")
		}
		w.line("local %s = {}", t)
		w.line("for i, k in ipairs(%s) do %s[i] = %s end", list, t, copied)
		w.line("for _, k in ipairs(%s) do redis.call('%s', k) end", t, verb)
	}
}

// keyed returns an expression for a key, now and then a wrong one.
func (w *writer) keyed(kind string) string {
	good := w.key(kind)
	if !w.wrong("key") {
		other := w.key(kind)
		if w.chance(50) {
			return w.route(good, other)
		}
		return good
	}
	bad := pick(w,
		"'outside'", "'7'", "7", good+" .. ':x'", w.argument("string"), "redis.call('GET', "+w.key("string")+")",
		"string.sub("+good+", 2)", "tostring(tonumber("+good+", 36))", "select('#', "+good+")", "tostring("+good+"):upper()", "redis.sha1hex("+good+")", "tonumber("+w.argument("int")+")",
		good+":reverse()", "({redis.call('GET', "+w.key("string")+")})[1]", "(table.concat({"+good+", 'x'}))",
	)
	return w.route(bad, good)
}

// function returns an expression for redis.call.
func (w *writer) function() string {
	good := pick(w, "redis.call", "redis.call", "redis.pcall", "redis['call']")
	if w.chance(60) {
		return good
	}
	if !w.wrong("function") {
		return w.route(good, pick(w, "redis.pcall", "redis.call"))
	}
	other := pick(w, "math.max", "tostring", "function() end", "redis.sha1hex", "redis.log", "print", "nil", "false")
	if other == "print" || other == "nil" || other == "false" {
		other = "type"
	}
	return w.route(good, other)
}

// A shape is a command with what it takes: types of keys, and "v" for a value, "f" for
// a field, "n" for a number, "d" for a duration argument in milliseconds; everything
// else stands for itself.
type shape struct {
	name  string
	args  string
	write bool
}

var shapes = []shape{
	{"GET", "string", false}, {"EXISTS", "string", false}, {"STRLEN", "string", false}, {"PTTL", "string", false}, {"TTL", "hash", false},
	{"TYPE", "zset", false}, {"MGET", "string string", false}, {"GETRANGE", "string 0 -1", false}, {"BITCOUNT", "string", false},
	{"HGET", "hash f", false}, {"HGETALL", "hash", false}, {"HLEN", "hash", false}, {"HMGET", "hash f f", false}, {"HEXISTS", "hash f", false},
	{"LLEN", "list", false}, {"LRANGE", "list 0 -1", false}, {"LINDEX", "list 0", false},
	{"SCARD", "set", false}, {"SMEMBERS", "set", false}, {"SISMEMBER", "set v", false}, {"SINTER", "set set", false}, {"SDIFF", "set set", false},
	{"ZCARD", "zset", false}, {"ZRANGE", "zset 0 -1", false}, {"ZSCORE", "zset v", false}, {"ZRANGEBYSCORE", "zset -inf +inf", false}, {"ZUNION", "c2 zset zset", false},
	{"XLEN", "stream", false}, {"XRANGE", "stream - +", false}, {"XREAD", "COUNT 1 STREAMS stream 0", false}, {"OBJECT", "ENCODING string", false},
	{"SORT_RO", "list", false}, {"TIME", "", false}, {"PFCOUNT", "string", true}, {"LCS", "string string", false}, {"SINTERCARD", "c2 set set", false},

	{"SET", "string v", true}, {"SET", "string v PX d", true}, {"SET", "string v XX", true}, {"SETNX", "string v", true}, {"PSETEX", "string d v", true},
	{"INCR", "string", true}, {"INCRBY", "string n", true}, {"APPEND", "string v", true}, {"GETDEL", "string", true}, {"GETSET", "string v", true}, {"GETEX", "string PERSIST", true},
	{"DEL", "string", true}, {"DEL", "string list", true}, {"UNLINK", "hash", true}, {"PEXPIRE", "string d", true}, {"PERSIST", "string", true},
	{"HSET", "hash f v", true}, {"HSETNX", "hash f v", true}, {"HDEL", "hash f", true}, {"HINCRBY", "hash f n", true},
	{"LPUSH", "list v", true}, {"RPUSH", "list v v", true}, {"LPOP", "list", true}, {"LTRIM", "list 0 5", true}, {"LMOVE", "list list LEFT RIGHT", true}, {"RPOPLPUSH", "list list", true},
	{"SADD", "set v", true}, {"SREM", "set v", true}, {"SPOP", "set", true}, {"SMOVE", "set set v", true}, {"SUNIONSTORE", "set set set", true},
	{"ZADD", "zset n v", true}, {"ZREM", "zset v", true}, {"ZINCRBY", "zset n v", true}, {"ZPOPMIN", "zset", true}, {"ZUNIONSTORE", "zset c2 zset zset", true}, {"ZRANGESTORE", "zset zset 0 -1", true},
	{"RENAME", "string string", true}, {"COPY", "string string REPLACE", true}, {"BITOP", "AND string string string", true}, {"SETRANGE", "string 0 v", true},
	{"XADD", "stream * f v", true}, {"XDEL", "stream 0-1", true}, {"XTRIM", "stream MAXLEN 10", true}, {"SORT", "list STORE list", true}, {"SETBIT", "string 1 1", true}, {"PFADD", "string v", true},
}

// lasting are commands that take a duration as something else than milliseconds.
var lasting = []shape{
	{"EXPIRE", "string d", true}, {"SETEX", "string d v", true}, {"SET", "string v EX d", true}, {"GETEX", "string EX d", true}, {"EXPIRE", "hash d", true},
}

// strange are commands that no script may use without a waiver, or not at all.
var strange = []shape{
	{"SELECT", "5", true}, {"SCAN", "0", false}, {"KEYS", "*", false}, {"FLUSHALL", "", true}, {"RANDOMKEY", "", false}, {"NOSUCHCOMMAND", "string", false},
	{"GET", "string string", false}, {"INCR", "", true}, {"SORT", "list BY outside* GET outside*", true}, {"WAIT", "0 0", false}, {"SUBSCRIBE", "x", false},
	{"SWAPDB", "0 1", true}, {"MOVE", "string 1", true}, {"COPY", "string string DB 1", true}, {"EVAL", "x 0", true}, {"CONFIG", "GET x", false}, {"MIGRATE", "h 1 string 0 10", true},
}

// command writes a call of a command.
func (w *writer) command() {
	s := shapes[w.IntN(len(shapes))]
	if mistake := w.program.Mode != "write" && w.wrong("write"); !mistake {
		for s.write && w.program.Mode != "write" {
			s = shapes[w.IntN(len(shapes))]
		}
	}
	if w.program.Mode == "write" && w.wrong("unit") {
		s = lasting[w.IntN(len(lasting))]
	}
	if w.wrong("strange") {
		s = strange[w.IntN(len(strange))]
	}
	w.send(s)
}

func (w *writer) send(s shape) {
	args := make([]string, 0, 6)
	name := "'" + s.name + "'"
	switch {
	case w.chance(5):
		name = "'" + strings.ToLower(s.name) + "'"
	case w.wrong("name"):
		name = w.route(name, "'"+shapes[w.IntN(len(shapes))].name+"'")
	case w.chance(5):
		name = w.route(name, name)
	case w.chance(4):
		name = pick(w, fmt.Sprintf("'%s' .. '%s'", s.name[:1], s.name[1:]), fmt.Sprintf("string.upper('%s')", strings.ToLower(s.name)), fmt.Sprintf("('%s'):upper()", s.name))
		w.note("built name")
	}
	args = append(args, name)
	for _, a := range strings.Fields(s.args) {
		switch a {
		case "string", "hash", "list", "set", "zset", "stream":
			args = append(args, w.keyed(a))
		case "v":
			args = append(args, w.value())
		case "f":
			args = append(args, pick(w, "'f'", "'g'", w.argument("string")))
		case "n":
			args = append(args, pick(w, "1", "2.5", "'3'", w.argument("int"), w.argument("float")))
		case "c2":
			args = append(args, pick(w, "2", "'2'", "1 + 1", w.route("2", "1")))
		case "d":
			w.program.Lease = true
			args = append(args, w.argument("duration"))
		default:
			word := "'" + a + "'"
			if w.wrong("value") {
				word = w.route(word, pick(w, "'STREAMS'", "'GET'", "'BY'", "'STORE'", "'XX'", "'0'"))
			}
			args = append(args, word)
		}
	}
	if w.chance(4) {
		w.note("spread")
		t := w.name("t")
		w.line("local %s = {%s}", t, strings.Join(args, ", "))
		w.line("%s(unpack(%s))", w.callable(), t)
		return
	}
	if w.chance(30) {
		w.inside(args)
		return
	}
	f := w.callable()
	if w.chance(30) {
		w.line("local %s = %s(%s)", w.name("r"), f, strings.Join(args, ", "))
		return
	}
	w.line("%s(%s)", f, strings.Join(args, ", "))
}

// inside writes the call into a function that has one of the arguments as a parameter.
func (w *writer) inside(args []string) {
	n := w.IntN(len(args))
	given := args[n]
	args[n] = "p"
	f := w.name("f")
	body := fmt.Sprintf("%s(%s)", w.callable(), strings.Join(args, ", "))
	form := pick(w, "direct", "unpack", "second value", "varargs", "select", "table", "computed table", "method", "pcall", "coroutine", "ipairs", "callback", "recursion")
	w.note("parameter by " + form)
	if form != "method" && form != "recursion" {
		w.line("local function %s(p) return %s end", f, body)
	}
	switch form {
	case "direct":
		w.line("%s(%s)", f, given)
	case "unpack":
		w.line("%s(unpack({%s}))", f, given)
	case "second value":
		g, h := w.name("f"), w.name("f")
		w.line("local function %s() return 1, %s end", g, given)
		w.line("local function %s(_, p) return %s(p) end", h, f)
		w.line("%s(%s())", h, g)
	case "varargs":
		g := w.name("f")
		w.line("local function %s(...) return %s(...) end", g, f)
		w.line("%s(%s)", g, given)
	case "select":
		w.line("%s(select(2, 'x', %s))", f, given)
	case "table":
		w.line("({run = %s}).run(%s)", f, given)
	case "computed table":
		t := w.name("t")
		w.line("local %s = {}", t)
		w.line("%s['x' .. %s] = %s", t, pick(w, "'1'", w.argument("bool")), f)
		w.line("if %s.x1 then %s.x1(%s) end", t, t, given)
	case "method":
		o := w.name("o")
		w.line("local %s = {}", o)
		w.line("function %s:run(p) return %s end", o, body)
		w.line("%s:run(%s)", o, given)
	case "pcall":
		w.line("%s(%s, %s)", pick(w, "pcall", "pcall", "select(1, pcall)"), f, given)
	case "coroutine":
		w.note("bad coroutine")
		w.line("coroutine.wrap(%s)(%s)", f, given)
	case "ipairs":
		w.line("for _, x in ipairs({%s}) do %s(x) end", given, f)
	case "callback":
		w.line("string.gsub('x', 'x', function() %s(%s) end)", f, given)
	case "recursion":
		w.line("local function %s(n, p)", f)
		w.line("  if n > 0 then return %s(n - 1, p) end", f)
		w.line("  return %s", body)
		w.line("end")
		w.line("%s(2, %s)", f, given)
	}
}

// callable returns function as something that may stand before a call's arguments in a
// statement of its own.
func (w *writer) callable() string {
	f := w.function()
	if strings.HasPrefix(f, "(") {
		a := w.name("a")
		w.line("local %s = %s", a, f)
		return a
	}
	return f
}

// value returns an argument that a command takes as it is, now and then one that it does
// not take.
func (w *writer) value() string {
	if w.wrong("value") {
		return w.route(pick(w, "nil", "true", "{}", "redis.call('GET', "+w.key("string")+")", "function() end"), "'x'")
	}
	return w.route(pick(w, "'v'", "'w'", "1", w.argument("string"), w.argument("int"), w.argument("bytes"), "redis.call('EXISTS', "+w.key("string")+")"), "'x'")
}
