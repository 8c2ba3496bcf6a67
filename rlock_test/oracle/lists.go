package oracle

import "fmt"

// allKeys writes a command for the whole of KEYS.
func (w *writer) allKeys() {
	p := w.program
	verb := pick(w, "EXISTS", "TYPE", "PTTL")
	switch p.Mode {
	case "read cached":
		verb = pick(w, "EXISTS", "TYPE")
	case "write":
		verb = pick(w, verb, "DEL", "PERSIST", "UNLINK")
	}
	if p.Mode != "read cached" && p.Rest == "" && w.chance(80) {
		p.Rest = pick(w, "string", "set", "zset", "list")
	}
	list := pick(w, "KEYS", "KEYS", w.route("KEYS", "{}"), "{unpack(KEYS)}")
	if w.wrong("keys") {
		w.line("%s", pick(w, "table.insert(KEYS, 'outside')", "KEYS[#KEYS + 1] = 'outside'", "KEYS[1] = 'outside'",
			"rawset(KEYS, 1, 'outside')", "for i = 1, #ARGV do KEYS[#KEYS + 1] = ARGV[i] end"))
	}
	if p.Rest != "" && w.chance(40) {
		w.restOfKeys()
		return
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

// restOfKeys writes a command that takes any number of keys after the first keys.
func (w *writer) restOfKeys() {
	p := w.program
	w.note("rest of the keys")
	calls := map[string][]string{
		"string": {"'MGET', %s"},
		"set":    {"'SUNION', %s", "'SINTERCARD', #KEYS - @KEYS@ + 1, %s", "'SDIFF', " + w.key("set") + ", %s"},
		"zset":   {"'ZUNION', #KEYS - @KEYS@ + 1, %s", "'ZDIFF', #KEYS - @KEYS@ + 1, %s"},
		"list":   {"'EXISTS', %s", "'TOUCH', %s"},
	}[p.Rest]
	if p.Mode == "write" {
		calls = append(calls, map[string][]string{
			"string": {"'DEL', %s", "'BITOP', 'OR', " + w.key("string") + ", %s"},
			"set":    {"'SUNIONSTORE', " + w.key("set") + ", %s", "'DEL', " + w.key("set") + ", %s"},
			"zset": {"'ZUNIONSTORE', " + w.key("zset") + ", #KEYS - @KEYS@ + 1, %s",
				"'ZINTERSTORE', " + w.key("zset") + ", #KEYS - @KEYS@ + 1, %s"},
			"list": {"'DEL', %s", "'LMPOP', #KEYS - @KEYS@ + 1, %s"},
		}[p.Rest]...)
	}
	call := pick(w, calls...)
	if w.wrong("list") {
		call = pick(w, "'MSET', %s", "'SORT', %s", "'SMOVE', %s", "'ZUNIONSTORE', #KEYS, %s",
			"'SUNIONSTORE', 'outside', %s", "'XREAD', 'STREAMS', %s", "'SINTERCARD', ARGV[1] or 1, 'outside', %s")
	}
	if pick(w, true, false) {
		w.line("redis.call(%s)", fmt.Sprintf(call, "unpack(KEYS, @KEYS@)"))
		return
	}
	t := w.name("t")
	w.line("local %s = {}", t)
	w.line("for i = @KEYS@, #KEYS do %s end",
		pick(w, t+"[#"+t+" + 1] = KEYS[i]", "table.insert("+t+", KEYS[i])"))
	w.line("redis.call(%s)", fmt.Sprintf(call, "unpack("+t+")"))
}

// open are commands that take any number of values. Each has the type of its key, and the words
// before the values.
var open = []shape{
	{"HMGET", "hash", false}, {"SMISMEMBER", "set", false}, {"ZMSCORE", "zset", false},
	{"GEOHASH", "zset", false}, {"BITFIELD_RO", "string", false},
	{"SADD", "set", true}, {"SREM", "set", true}, {"RPUSH", "list", true}, {"LPUSHX", "list", true},
	{"ZREM", "zset", true}, {"HDEL", "hash", true}, {"HSET", "hash", true},
	{"ZADD", "zset", true}, {"PFADD", "string", true}, {"XADD", "stream *", true},
	{"XADD", "stream MAXLEN 10 *", true}, {"SET", "string v", true}, {"XDEL", "stream", true},
}

// closed are commands for which a list of unknown values is a mistake, because some values may be
// keys.
var closed = []shape{
	{"EXISTS", "string", false}, {"MGET", "", false}, {"SUNION", "set", false}, {"SORT_RO", "list", false},
	{"XREAD", "COUNT 1 STREAMS", false}, {"XREAD", "COUNT 1", false},
	{"ZUNION", "", false}, {"ZUNION", "2", false}, {"SINTERCARD", "1", false}, {"LCS", "string", false},
	{"OBJECT", "", false}, {"GEORADIUS_RO", "zset 0 0", false},
	{"DEL", "", true}, {"UNLINK", "string", true}, {"MSET", "string v", true}, {"RENAME", "string", true},
	{"SORT", "list", true}, {"SORT", "list LIMIT 0", true},
	{"ZUNIONSTORE", "zset", true}, {"ZUNIONSTORE", "zset 1", true}, {"BITOP", "AND string", true},
	{"SMOVE", "set", true}, {"LMOVE", "list", true}, {"COPY", "string", true},
	{"GEORADIUS", "zset 0 0 1", true}, {"", "", true}, {"LMPOP", "1", true}, {"BLPOP", "", true},
	{"XREADGROUP", "GROUP", true}, {"GEOSEARCHSTORE", "zset", true},
}

// openList writes a command with a list of arguments of unknown length.
func (w *writer) openList() {
	p := w.program
	if p.Mode == "read cached" {
		w.command()
		return
	}
	shapes := open
	if w.wrong("list") {
		shapes = closed
	}
	s := pick(w, shapes...)
	for s.write && p.Mode != "write" {
		s = pick(w, shapes...)
	}
	args := w.arguments(s)
	if s.name == "" {
		args = args[1:]
	}
	given := ""
	for _, a := range args {
		given += a + ", "
	}
	form := pick(w, "unpack", "from a place", "varargs", "table of varargs", "select", "loop", "chunks",
		"ipairs", "table", "table with the command", "wrapper", "insert", "reply", "appended varargs")
	w.note("open list by " + form)
	if p.More == "" && form != "reply" {
		p.More = pick(w, "string", "string", "string", "int", "float", "bytes")
	}
	switch form {
	case "unpack":
		w.line("redis.call(%sunpack(ARGV))", given)
	case "from a place":
		w.line("redis.call(%sunpack(ARGV, @ARGV@))", given)
	case "varargs":
		f := w.name("f")
		w.line("local function %s(...) return redis.call(%s...) end", f, given)
		w.line("%s(%s)", f, pick(w, "unpack(ARGV, @ARGV@)", "unpack(ARGV)", "'v', unpack(ARGV)"))
	case "table of varargs":
		f := w.name("f")
		w.line("local function %s(...)", f)
		w.line("  local t = {...}")
		w.line("  return redis.call(%sunpack(t))", given)
		w.line("end")
		w.line("%s(unpack(ARGV, @ARGV@))", f)
	case "appended varargs":
		f := w.name("f")
		w.line("local function %s(...)", f)
		w.line("  local t = {%s'1', ...}", given)
		w.line("  return redis.call(unpack(t))")
		w.line("end")
		w.line("%s(unpack(ARGV, @ARGV@))", f)
	case "select":
		f := w.name("f")
		w.line("local function %s(...) return redis.call(%sselect(%s, ...)) end", f, given, pick(w, "2", "@ARGV@"))
		w.line("%s(unpack(ARGV))", f)
	case "loop":
		w.line("for i = @ARGV@, #ARGV do redis.call(%sARGV[i]) end", given)
	case "chunks":
		w.line("for i = @ARGV@, #ARGV, 2 do redis.call(%sunpack(ARGV, i, math.min(i + 1, #ARGV))) end", given)
	case "ipairs":
		w.line("for i, v in ipairs(ARGV) do")
		w.line("  if i >= @ARGV@ then redis.call(%sv) end", given)
		w.line("end")
	case "table":
		t := w.name("t")
		w.line("local %s = {unpack(ARGV, @ARGV@)}", t)
		w.line("redis.call(%sunpack(%s))", given, t)
	case "table with the command":
		t := w.name("t")
		w.line("local %s = {%s}", t, given)
		w.line("for i = @ARGV@, #ARGV do %s[#%s + 1] = ARGV[i] end", t, t)
		w.line("redis.call(unpack(%s))", t)
	case "wrapper":
		f := w.name("f")
		w.line("local function %s(...) return redis.call(...) end", f)
		w.line("%s(%sunpack(ARGV, @ARGV@))", f, given)
	case "insert":
		t := w.name("t")
		w.line("local %s = {}", t)
		w.line("for i = @ARGV@, #ARGV do table.insert(%s, %s) end", t,
			pick(w, "ARGV[i]", "ARGV[i]", "tostring(ARGV[i])", "tonumber(ARGV[i]) or 0"))
		w.line("redis.call(%sunpack(%s))", given, t)
	case "reply":
		w.line("redis.call(%sunpack(redis.call(%s)))", given,
			pick(w, "'SMEMBERS', "+w.key("set"), "'LRANGE', "+w.key("list")+", 0, -1", "'HVALS', "+w.key("hash"),
				"'ZRANGE', "+w.key("zset")+", 0, -1", "'HGETALL', "+w.key("hash")))
	}
}
