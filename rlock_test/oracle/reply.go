package oracle

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// reply writes the return, with a header that is right in most cases.
func (w *writer) reply() {
	p := w.program
	kinds := map[string][]string{
		"int": {"7", "redis.call('EXISTS', " + w.key("string") + ")", "tonumber('12')",
			"math.floor(2.5)", "1 + 2", "#'abc'", "redis.call('HLEN', " + w.key("hash") + ")", "'7'", "1e6"},
		"string": {"'x'", "redis.call('TYPE', " + w.key("string") + ").ok", "tostring(6)", "'a' .. 1",
			"string.rep('x', 2)", "cjson.encode({1})", "redis.sha1hex('')"},
		"string?": {"redis.call('GET', " + w.key("string") + ")",
			"redis.call('HGET', " + w.key("hash") + ", 'nosuch')", "false", "nil", "'x'"},
		"bool": {"1", "0", "true", "false", "redis.call('EXISTS', " + w.key("string") + ")",
			"redis.call('SISMEMBER', " + w.key("set") + ", 'v')"},
		"float": {"'1.5'", "tostring(1.5)",
			"string.format('%08.3f', redis.call('STRLEN', " + w.key("string") + "))",
			"tostring(redis.call('STRLEN', " + w.key("string") + ") / redis.call('STRLEN', " + w.key("string") + "))",
			"redis.call('INCRBYFLOAT', " + w.key("string") + ", 1)", "string.format('%.3f', 2)"},
		"[]string": {"{'a', 'b'}", "{}", "redis.call('SMEMBERS', " + w.key("set") + ")",
			"redis.call('LRANGE', " + w.key("list") + ", 0, -1)"},
		"[]int":             {"{1, 2}", "{}", "{redis.call('EXISTS', " + w.key("string") + ")}"},
		"duration":          {"redis.call('PTTL', " + w.key("string") + ")", "1000", "60 * 1000"},
		"ok":                {"redis.status_reply('OK')", "{ok = 'OK'}"},
		"map[string]string": {"redis.call('HGETALL', " + w.key("hash") + ")", "{'a', 'b'}", "{}"},
		"bytes":             {"'\\0x'", "'x' .. ''", "struct.pack('i', 7)", "cmsgpack.pack({1})"},
		"json":              {"cjson.encode({a = 1})", "'[1]'", "cjson.encode({" + w.argument("string") + "})"},
		"raw": {"{1, 'x', {2}}", "nil", "redis.call('HGETALL', " + w.key("hash") + ")",
			"redis.call('GET', " + w.key("string") + ")", "redis.status_reply('FINE')", "2.5", "{a = 1}"},
		"time": {"tonumber(redis.call('TIME')[1]) * 1000",
			"redis.call('PEXPIRETIME', " + w.key("string") + ")", "0"},
		"int?":      {"redis.call('ZRANK', " + w.key("zset") + ", 'v')", "false", "7", "nil"},
		"float?":    {"redis.call('ZSCORE', " + w.key("zset") + ", 'v')", "false", "'2.5'"},
		"bool?":     {"redis.call('EXISTS', " + w.key("string") + ")", "false", "nil", "true"},
		"duration?": {"redis.call('PTTL', " + w.key("string") + ")", "false", "''", "60 * 1000"},
		"[]string?": {"redis.call('HMGET', " + w.key("hash") + ", 'f', 'nosuch')",
			"redis.call('MGET', " + w.key("string") + ", " + w.key("string") + ")", "{'a', false, 'b'}",
			"{'a', false}", "{}"},
		"([]string)?": {"{'a'}", "false", "nil", "redis.call('LRANGE', " + w.key("list") + ", 0, -1)"},
		"([]int)?":    {"{}", "false", "{1, 2, 3}"},
		"[][]string":  {"{{'a'}, {}}", "{}", "{redis.call('SMEMBERS', " + w.key("set") + "), {'b'}}"},
		"map[string]int": {"{'a', 1}", "{}", "{'a', 1, 'b', 2}",
			"{'a', redis.call('STRLEN', " + w.key("string") + ")}"},
		"[](member string, score float)": {"redis.call('ZRANGE', " + w.key("zset") + ", 0, -1, 'WITHSCORES')",
			"redis.call('ZREVRANGEBYSCORE', " + w.key("zset") + ", '+inf', '-inf', 'WITHSCORES')",
			"{{'a', '1'}, {'b', '2.5'}}", "{'a', '1', 'b', '2.5'}", "{}"},
		"[](name string, value string)": {"redis.call('HGETALL', " + w.key("hash") + ")", "{{'a', 'b'}}", "{}"},
		"(id string, n int)?": {"{'a', 1}", "false",
			"{redis.call('TYPE', " + w.key("string") + ").ok, redis.call('DBSIZE')}", "nil"},
		"(ids []string, left duration?)": {"{{'a'}, redis.call('PTTL', " + w.key("string") + ")}", "{{}, false}",
			"{redis.call('SMEMBERS', " + w.key("set") + "), 1000}"},
	}
	if p.Mode == "read cached" {
		maps.DeleteFunc(kinds, func(kind string, _ []string) bool {
			return strings.Contains(kind, "duration") ||
				kind == "time"
		})
		kinds["(id string, n int)?"] = []string{"{'a', 1}", "false"}
	}
	if p.Mode != "write" {
		kinds["float"] = kinds["float"][:2]
	}
	order := slices.Sorted(maps.Keys(kinds))
	kind := pick(w, order...)
	good := pick(w, kinds[kind]...)
	wrong := w.misfit(kind)
	value, other := good, pick(w, kinds[kind]...)
	p.Returns = kind
	switch {
	case p.Mode == "read cached" && w.wrong("cached"):
		p.Returns, value, other = "string", "redis.call('TIME')[2]", "'x'"
	case w.wrong("reply"):
		value, other = wrong, good
	case w.wrong("type"):
		p.Returns = pick(w, order...)
	case p.Mode != "read cached" && (w.mistake == "gap" || w.chance(6)):
		w.indexed()
		return
	case kind != "ok" && w.chance(20):
		w.several(kind, good, other)
		return
	case w.chance(25) && w.gathered(kind):
		return
	}
	w.note("reply " + p.Returns)
	if w.chance(60) && value != "1, 2" && value != "unpack({1, 2})" {
		value = w.route(value, other)
	}
	w.line("return %s", value)
}

// misfit returns an expression for a value that is not of the type, or may be of another type.
func (w *writer) misfit(kind string) string {
	kind, _ = strings.CutSuffix(kind, "?")
	if (kind == "int" || kind == "duration" || kind == "time") && w.chance(50) {
		return pick(w, "1.5", "3 / 2", "redis.call('STRLEN', "+w.key("string")+") / 2", "#KEYS / 2",
			"redis.call('HLEN', "+w.key("hash")+") * 0.3", "math.sqrt(redis.call('EXISTS', "+w.key("string")+") + 1)")
	}
	return pick(w, "1.5", "'1.5'", "{hits = 1}", "'true'", "'0'", "nil", "{1, nil, 3}", "{}", "0 / 0", "{{}}",
		"3 / 2", "redis.call('GET', "+w.key("string")+")",
		"redis.call('TTL', "+w.key("string")+")", "tonumber(redis.call('GET', "+w.key("string")+"))", "{1, 'x'}",
		"redis.call('HGETALL', "+w.key("hash")+")", "2", "1, 2",
		"{'a', false}", "{{'a'}}", "redis.call('ZRANGE', "+w.key("zset")+", 0, -1, 'WITHSCORES')",
		"redis.call('HMGET', "+w.key("hash")+", 'f', 'nosuch')", "{'a', 'b', 'c'}", "{map = {a = 1}}",
		"redis.call('ZSCORE', "+w.key("zset")+", 'v')", "{double = 1.5}", "{set = {a = true}}",
		"redis.call('TIME')", w.argument("string"), "''", "{'a', {'b'}}",
		"redis.call('ZRANK', "+w.key("zset")+", 'v')", "unpack({1, 2})",
		"string.format('%5d', 7)", "string.format('%c', 65)", "string.format(' %d', 7)",
		"string.format('%8.1f', 2)", "tostring(1e15)", "'' .. redis.call('STRLEN', "+w.key("string")+") * 1e15",
		"{ok = 1}", "{err = 1}",
		"{err = redis.call('GET', "+w.key("string")+")}",
		"redis.status_reply(redis.call('STRLEN', "+w.key("string")+"))", "tonumber('1.5', 10)",
		"string.find('ab', 'b')", "string.match('ab', '()b')", "select('#', 1)")
}

// several writes the return of a struct.
func (w *writer) several(kind, good, other string) {
	w.note("several results")
	absent := strings.NewReplacer("nil", "false") // false keeps its place in the reply
	a, b := w.route(absent.Replace(good), absent.Replace(other)), w.route("7", "8")
	w.program.Returns = fmt.Sprintf("first %s, second int", kind)
	if w.wrong("length") {
		b += ", 9"
	}
	w.line("return {%s, %s}", a, b)
}

// gathered writes the return of a list that the program fills element by element. It reports false
// if the type is no list.
func (w *writer) gathered(kind string) bool {
	elements := map[string]string{
		"[]string": "x", "[]int": "#x", "[][]string": "{x, x}", "([]string)?": "x", "[]string?": "x ~= 'v' and x",
		"[](member string, score float)": "{x, '1'}",
		"[](name string, value string)":  "{x, 'y'}", "map[string]string": "x, 'y'", "map[string]int": "x, #x",
	}
	element, ok := elements[kind]
	if !ok {
		return false
	}
	w.note("reply gathered as " + kind)
	source := pick(w, "redis.call('SMEMBERS', "+w.key("set")+")",
		"redis.call('LRANGE', "+w.key("list")+", 0, -1)", "redis.call('HKEYS', "+w.key("hash")+")", "{'a', 'b'}",
		"ARGV")
	t := w.name("t")
	w.line("local %s = {}", t)
	w.line("for _, x in ipairs(%s) do", source)
	if first, second, two := strings.Cut(element, ", "); two && !strings.HasPrefix(element, "{") {
		w.line("  %s[#%s + 1] = %s", t, t, first)
		w.line("  %s[#%s + 1] = %s", t, t, second)
	} else {
		w.line("  %s", pick(w, fmt.Sprintf("%s[#%s + 1] = %s", t, t, element),
			fmt.Sprintf("table.insert(%s, %s)", t, element)))
	}
	w.line("end")
	w.line("return %s", t)
	return true
}
