package oracle

import "fmt"

// reply writes the return, with a header that is right in most cases.
func (w *writer) reply() {
	p := w.program
	kinds := map[string][]string{
		"int":               {"7", "redis.call('EXISTS', " + w.key("string") + ")", "tonumber('12')", "math.floor(2.5)", "1 + 2", "#'abc'", "redis.call('HLEN', " + w.key("hash") + ")", "'7'", "1e6"},
		"string":            {"'x'", "redis.call('TYPE', " + w.key("string") + ").ok", "tostring(5)", "'a' .. 1", "string.rep('x', 2)", "cjson.encode({1})", "redis.sha1hex('')"},
		"string?":           {"redis.call('GET', " + w.key("string") + ")", "redis.call('HGET', " + w.key("hash") + ", 'nosuch')", "false", "nil", "'x'"},
		"bool":              {"1", "0", "true", "false", "redis.call('EXISTS', " + w.key("string") + ")", "redis.call('SISMEMBER', " + w.key("set") + ", 'v')"},
		"float":             {"'1.5'", "tostring(1.5)", "redis.call('INCRBYFLOAT', " + w.key("string") + ", 1)", "string.format('%.3f', 2)"},
		"[]string":          {"{'a', 'b'}", "{}", "redis.call('SMEMBERS', " + w.key("set") + ")", "redis.call('LRANGE', " + w.key("list") + ", 0, -1)"},
		"[]int":             {"{1, 2}", "{}", "{redis.call('EXISTS', " + w.key("string") + ")}"},
		"duration":          {"redis.call('PTTL', " + w.key("string") + ")", "1000", "60 * 1000"},
		"ok":                {"redis.status_reply('OK')", "{ok = 'OK'}"},
		"map[string]string": {"redis.call('HGETALL', " + w.key("hash") + ")", "{'a', 'b'}", "{}"},
	}
	if p.Mode == "read cached" {
		delete(kinds, "duration")
	}
	if p.Mode != "write" {
		kinds["float"] = kinds["float"][:2]
	}
	order := []string{"int", "string", "string?", "bool", "float", "[]string", "[]int", "duration", "ok", "map[string]string"}
	var kind string
	for kinds[kind] == nil {
		kind = pick(w, order...)
	}
	good := pick(w, kinds[kind]...)
	wrong := pick(w, "1.5", "'1.5'", "{hits = 1}", "'true'", "'0'", "nil", "{1, nil, 3}", "{}", "0 / 0", "{{}}", "3 / 2", "redis.call('GET', "+w.key("string")+")",
		"redis.call('TTL', "+w.key("string")+")", "tonumber(redis.call('GET', "+w.key("string")+"))", "{1, 'x'}", "redis.call('HGETALL', "+w.key("hash")+")", "2", "1, 2")
	value, other := good, pick(w, kinds[kind]...)
	p.Returns = kind
	switch {
	case p.Mode == "read cached" && w.wrong("cached"):
		p.Returns, value, other = "string", "redis.call('TIME')[2]", "'x'"
	case w.wrong("reply"):
		value, other = wrong, good
	case w.wrong("type"):
		p.Returns = pick(w, order...)
	case kind != "ok" && w.chance(20):
		w.note("several results")
		a, b := w.route(good, other), w.route("7", "8")
		p.Returns = fmt.Sprintf("first %s, second int", kind)
		if w.wrong("length") {
			b += ", 9"
		}
		w.line("return {%s, %s}", a, b)
		return
	}
	if w.chance(60) && value != "1, 2" {
		value = w.route(value, other)
	}
	w.line("return %s", value)
}
