package oracle

import (
	"fmt"
	"slices"
)

// route writes code that passes value on, and returns the expression that has the value afterwards.
// In some routes, other may come out in its place.
func (w *writer) route(value, other string) string {
	for range w.IntN(3) {
		r := routes[w.IntN(len(routes))]
		if w.mistake == "earlier" && w.chance(40) { // only one route has this mistake
			r = routes[slices.IndexFunc(routes, func(r route) bool { return r.name == "answers of pcalls in a loop" })]
		}
		w.note("route " + r.name)
		value = r.write(w, value, other)
	}
	return value
}

// A route is a way of a value through a program.
type route struct {
	name  string
	write func(w *writer, v, other string) string
}

// Each route writes statements with the value v and returns the expression for it.
var routes = []route{
	{"local", func(w *writer, v, _ string) string {
		a := w.name("a")
		w.line("local %s = %s", a, v)
		return a
	}},
	{"branch", func(w *writer, v, other string) string {
		a := w.name("a")
		condition := w.condition()
		w.line("local %s = %s", a, v)
		w.block("if "+condition+" then", func() { w.line("%s = %s", a, other) }, "end")
		return a
	}},
	{"both branches", func(w *writer, v, other string) string {
		a := w.name("a")
		condition := w.condition()
		w.line("local %s", a)
		w.block("if "+condition+" then", func() { w.line("%s = %s", a, v) }, "else")
		w.depth++
		w.line("%s = %s", a, other)
		w.depth--
		w.line("end")
		return a
	}},
	{"and or", func(w *writer, v, other string) string {
		return fmt.Sprintf("(%s and %s or %s)", w.condition(), v, other)
	}},
	{"or", func(w *writer, v, _ string) string {
		a := w.name("a")
		w.line("local %s", a)
		w.line("%s = %s or %s", a, a, v)
		return a
	}},
	{"field", func(w *writer, v, other string) string {
		t := w.name("t")
		w.line("local %s = {x = %s, y = %s}", t, v, other)
		return t + ".x"
	}},
	{"field set later", func(w *writer, v, other string) string {
		t := w.name("t")
		w.line("local %s = {x = %s}", t, other)
		w.line("%s.x = %s", t, v)
		return t + ".x"
	}},
	{"field in a branch", func(w *writer, v, other string) string {
		t := w.name("t")
		condition := w.condition()
		w.line("local %s = {x = %s}", t, other)
		w.block("if "+condition+" then", func() { w.line("%s.x = %s", t, v) }, "end")
		return t + ".x"
	}},
	{"computed field written", func(w *writer, v, other string) string {
		t := w.name("t")
		w.line("local %s = {x = %s}", t, other)
		w.line("%s[string.lower('X')] = %s", t, v)
		return t + ".x"
	}},
	{"computed field read", func(w *writer, v, other string) string {
		t := w.name("t")
		w.line("local %s = {x = %s, y = %s}", t, v, other)
		return fmt.Sprintf("%s[%s == '1' and 'x' or 'y']", t, w.argument("bool"))
	}},
	{"element", func(w *writer, v, other string) string {
		t := w.name("t")
		w.line("local %s = {%s, %s}", t, other, v)
		return t + "[2]"
	}},
	{"element of a literal", func(w *writer, v, other string) string {
		return fmt.Sprintf("({%s, %s})[%s]", v, other, pick(w, "1", "tonumber('1')"))
	}},
	{"alias of a table", func(w *writer, v, other string) string {
		t, u := w.name("t"), w.name("t")
		w.line("local %s = {x = %s}", t, other)
		w.line("local %s = %s", u, t)
		w.line("%s.x = %s", u, v)
		return t + ".x"
	}},
	{"table in a table", func(w *writer, v, _ string) string {
		t := w.name("t")
		w.line("local %s = {inner = {}}", t)
		w.line("%s.inner.x = %s", t, v)
		return t + ".inner.x"
	}},
	{"table.insert", func(w *writer, v, other string) string {
		t := w.name("t")
		w.line("local %s = {%s}", t, other)
		w.line("table.insert(%s, %s)", t, v)
		return fmt.Sprintf("%s[#%s]", t, t)
	}},
	{"append", func(w *writer, v, other string) string {
		t := w.name("t")
		w.line("local %s = {%s}", t, other)
		w.line("%s[#%s + 1] = %s", t, t, v)
		return pick(w, t+"[2]", fmt.Sprintf("table.remove(%s)", t))
	}},
	{"rawset", func(w *writer, v, other string) string {
		t := w.name("t")
		w.line("local %s = {x = %s}", t, other)
		w.line("rawset(%s, 'x', %s)", t, v)
		return pick(w, t+".x", fmt.Sprintf("rawget(%s, 'x')", t))
	}},
	{"table through a function", func(w *writer, v, other string) string {
		t, f := w.name("t"), w.name("f")
		w.line("local %s = {x = %s}", t, other)
		w.line("local function %s(target, value) target.x = value end", f)
		w.line("%s(%s, %s)", f, t, v)
		return t + ".x"
	}},
	{"parameter", func(w *writer, v, _ string) string {
		f := w.name("f")
		w.line("local function %s(p) return p end", f)
		return fmt.Sprintf("%s(%s)", f, v)
	}},
	{"second value", func(w *writer, v, other string) string {
		f, a, b := w.name("f"), w.name("a"), w.name("a")
		w.line("local function %s() return %s, %s end", f, other, v)
		w.line("local %s, %s = %s()", a, b, f)
		return b
	}},
	{"either return", func(w *writer, v, other string) string {
		f := w.name("f")
		condition := w.condition()
		w.line("local function %s()", f)
		w.line("  if %s then return %s end", condition, other)
		w.line("  return %s", v)
		w.line("end")
		return f + "()"
	}},
	{"varargs", func(w *writer, v, other string) string {
		f := w.name("f")
		w.line("local function %s(...) return ... end", f)
		return pick(w, fmt.Sprintf("(%s(%s))", f, v), fmt.Sprintf("select(2, %s(%s, %s))", f, other, v))
	}},
	{"varargs in a table", func(w *writer, v, other string) string {
		f := w.name("f")
		w.line("local function %s(...)", f)
		w.line("  local t = {...}")
		w.line("  return t[2]")
		w.line("end")
		return fmt.Sprintf("%s(%s, %s)", f, other, v)
	}},
	{"arg", func(w *writer, v, other string) string {
		f := w.name("f")
		w.line("local function %s(...) return arg[2] end", f)
		return fmt.Sprintf("%s(%s, %s)", f, other, v)
	}},
	{"unpack", func(w *writer, v, other string) string {
		a, b := w.name("a"), w.name("a")
		w.line("local %s, %s = unpack({%s, %s})", a, b, other, v)
		return b
	}},
	{"unpack into parameters", func(w *writer, v, other string) string {
		f := w.name("f")
		w.line("local function %s(p, q) return q end", f)
		return fmt.Sprintf("%s(unpack({%s, %s}))", f, other, v)
	}},
	{"upvalue", func(w *writer, v, _ string) string {
		a, f := w.name("a"), w.name("f")
		w.line("local %s = %s", a, v)
		w.line("local function %s() return %s end", f, a)
		return f + "()"
	}},
	{"upvalue set by a function", func(w *writer, v, other string) string {
		a, f := w.name("a"), w.name("f")
		w.line("local %s = %s", a, other)
		w.line("local function %s(p) %s = p end", f, a)
		w.line("%s(%s)", f, v)
		return a
	}},
	{"upvalue set by a callback", func(w *writer, v, other string) string {
		a := w.name("a")
		w.line("local %s = %s", a, other)
		w.line("pcall(function() %s = %s end)", a, v)
		return a
	}},
	{"answers of pcalls in a loop", func(w *writer, v, other string) string {
		a, earlier, kept := w.name("a"), w.name("a"), "answer"
		if w.wrong("earlier") {
			kept = earlier
		}
		condition := w.condition()
		w.line("local %s, %s = %s, %s", a, earlier, v, v)
		w.block("for i = 1, "+pick(w, "2", "#"+w.argument("string"))+" do", func() {
			w.block("local fine, answer = pcall(function()", func() {
				w.line("if %s then error('lost') end", pick(w, condition, "i == 1"))
				w.line("return %s", other)
			}, "end)")
			w.line("if fine then %s = %s end", a, kept)
			w.line("%s = answer", earlier)
		}, "end")
		return a
	}},
	{"handler of xpcall", func(w *writer, v, other string) string {
		a := w.name("a")
		w.line("local %s = %s", a, other)
		w.line("xpcall(function() %s end, function() %s = %s end)",
			pick(w, "return 1", "error('lost')", "if "+w.condition()+" then error('lost') end"), a, v)
		return a
	}},
	{"answer of a handler", func(w *writer, v, other string) string {
		a := w.name("a")
		w.line("local _, %s = xpcall(function() %s end, function() return %s end)", a,
			pick(w, "return "+other, "error('lost')"), v)
		return a
	}},
	{"callback of a metatable", func(w *writer, v, other string) string {
		a := w.name("a")
		w.line("local %s = %s", a, other)
		w.line("string.gsub(%s, 'x', setmetatable({}, {__index = function() %s = %s end}))",
			pick(w, "'x'", w.argument("string")), a, v)
		return a
	}},
	{"removed from either list", func(w *writer, v, other string) string {
		t := w.name("t")
		w.line("local %s = {%s}", t, v)
		w.block("if "+w.condition()+" then", func() { w.line("%s = {%s}", t, other) }, "end")
		return fmt.Sprintf("table.remove(%s)", t)
	}},
	{"behind a name", func(w *writer, v, other string) string {
		a := w.name("a")
		w.line("local _, %s = next({%s, %s}, %s)", a, other, v, pick(w, "1", "1", "2"))
		return a
	}},
	{"selected by choice", func(w *writer, v, other string) string {
		return fmt.Sprintf("(select(%s and %s or 2, %s, %s))", w.condition(), pick(w, "1", "-1", "'#'"), other, v)
	}},
	{"known as a number", func(w *writer, v, other string) string {
		a, text := w.name("a"), pick(w, "'0x' .. "+w.argument("int"), "'in' .. "+w.argument("string"),
			"table.concat({"+w.argument("string")+", "+w.argument("int")+"})", w.argument("string")+" .. ':'",
			"string.format('%d', "+w.argument("int")+")", "redis.sha1hex("+w.argument("string")+")",
			"'x' .. "+w.argument("int"))
		w.line("local %s = %s", a, other)
		w.line("if tonumber(%s) then %s = %s end", text, a, v)
		return a
	}},
	{"closure factory", func(w *writer, v, _ string) string {
		f := w.name("f")
		w.line("local function %s(p) return function() return p end end", f)
		return fmt.Sprintf("%s(%s)()", f, v)
	}},
	{"recursion", func(w *writer, v, _ string) string {
		f := w.name("f")
		w.line("local function %s(n, p)", f)
		w.line("  if n == 0 then return p end")
		w.line("  return %s(n - 1, p)", f)
		w.line("end")
		return fmt.Sprintf("%s(3, %s)", f, v)
	}},
	{"long chain", func(w *writer, v, other string) string {
		names := make([]string, 3+w.IntN(20))
		for i := range names {
			names[i] = w.name("a")
			w.line("local %s = %s", names[i], other)
		}
		w.block("for i = 1, "+fmt.Sprint(len(names))+" do", func() {
			for i := len(names) - 1; i > 0; i-- {
				w.line("%s = %s", names[i], names[i-1])
			}
			w.line("%s = %s", names[0], v)
		}, "end")
		return names[len(names)-1]
	}},
	{"metatable", func(w *writer, v, _ string) string {
		t := w.name("t")
		w.line("local %s = setmetatable({}, {__index = {x = %s}})", t, v)
		return t + ".x"
	}},
	{"metatable with a function", func(w *writer, v, _ string) string {
		t := w.name("t")
		w.line("local %s = setmetatable({}, {__index = function() return %s end})", t, v)
		return t + ".x"
	}},
	{"metatable that is called", func(w *writer, v, _ string) string {
		t := w.name("t")
		w.line("local %s = setmetatable({}, {__call = function(self, p) return p end})", t)
		return fmt.Sprintf("%s(%s)", t, v)
	}},
	{"metatable over a field", func(w *writer, v, other string) string {
		t := w.name("t")
		w.line("local %s = {x = %s}", t, other)
		w.line("setmetatable(%s, {__index = {x = %s}})", t, v)
		w.line("%s.x = nil", t)
		return t + ".x"
	}},
	{"method", func(w *writer, v, other string) string {
		o := w.name("o")
		w.line("local %s = {x = %s}", o, other)
		w.line("function %s:set(p) self.x = p end", o)
		w.line("function %s:get() return self.x end", o)
		w.line("%s:set(%s)", o, v)
		return o + ":get()"
	}},
	{"class", func(w *writer, v, _ string) string {
		c, o := w.name("C"), w.name("o")
		w.line("local %s = {}", c)
		w.line("%s.__index = %s", c, c)
		w.line("function %s.new(p) return setmetatable({x = p}, %s) end", c, c)
		w.line("function %s:get() return self.x end", c)
		w.line("local %s = %s.new(%s)", o, c, v)
		return o + ":get()"
	}},
	{"dispatch", func(w *writer, v, other string) string {
		t := w.name("t")
		w.line("local %s = {a = function() return %s end, b = function() return %s end}", t, v, other)
		return fmt.Sprintf("%s[%s == 'b' and 'b' or 'a']()", t, w.argument("string"))
	}},
	{"ipairs", func(w *writer, v, other string) string {
		a := w.name("a")
		w.line("local %s = %s", a, other)
		w.line("for _, x in ipairs({%s}) do %s = x end", v, a)
		return a
	}},
	{"pairs", func(w *writer, v, other string) string {
		a := w.name("a")
		w.line("local %s = %s", a, other)
		w.line("for _, x in pairs({only = %s}) do %s = x end", v, a)
		return a
	}},
	{"next", func(w *writer, v, _ string) string {
		a := w.name("a")
		w.line("local _, %s = next({only = %s})", a, v)
		return a
	}},
	{"own iterator", func(w *writer, v, other string) string {
		a, f := w.name("a"), w.name("f")
		w.line("local %s = %s", a, other)
		w.line("local function %s(_, i) if i < 1 then return i + 1, %s end end", f, v)
		w.line("for _, x in %s, nil, 0 do %s = x end", f, a)
		return a
	}},
	{"numeric for", func(w *writer, v, other string) string {
		a := w.name("a")
		w.line("local %s = %s", a, other)
		w.line("for i = 1, 2 do %s = ({%s, %s})[i] end", a, other, v)
		return a
	}},
	{"while", func(w *writer, v, other string) string {
		a := w.name("a")
		w.line("local %s = %s", a, other)
		w.block("while true do", func() {
			w.line("if %s then %s = %s break end", w.condition(), a, v)
			w.line("break")
		}, "end")
		return a
	}},
	{"repeat", func(w *writer, v, other string) string {
		a, i := w.name("a"), w.name("i")
		w.line("local %s, %s = %s, 0", a, i, other)
		w.line("repeat")
		w.line("  if %s == 1 then %s = %s end", i, a, v)
		w.line("  %s = %s + 1", i, i)
		w.line("until %s > 2", i)
		return a
	}},
	{"pcall", func(w *writer, v, _ string) string {
		a := w.name("a")
		w.line("local _, %s = pcall(function() return %s end)", a, v)
		return a
	}},
	{"error caught", func(w *writer, v, _ string) string {
		a := w.name("a")
		w.line("local _, %s = pcall(function() error({x = %s}) end)", a, v)
		return a + ".x"
	}},
	{"assert", func(w *writer, v, _ string) string { return fmt.Sprintf("assert(%s)", v) }},
	{"swap", func(w *writer, v, other string) string {
		a, b := w.name("a"), w.name("a")
		w.line("local %s, %s = %s, %s", a, b, other, v)
		w.line("%s, %s = %s, %s", a, b, b, a)
		return a
	}},
	{"shadow", func(w *writer, v, other string) string {
		a := w.name("a")
		w.line("local %s = %s", a, v)
		w.line("do local %s = %s end", a, other)
		return a
	}},
	{"coroutine", func(w *writer, v, _ string) string {
		w.note("bad coroutine") // the documentation refuses coroutines
		return fmt.Sprintf("coroutine.wrap(function() coroutine.yield(%s) end)()", v)
	}},
	{"sorted", func(w *writer, v, other string) string {
		t := w.name("t")
		w.line("local %s = {{at = 2, x = %s}, {at = 1, x = %s}}", t, v, other)
		w.line("table.sort(%s, function(p, q) return p.at < q.at end)", t)
		return t + "[2].x"
	}},
	{"computed field of an empty table", func(w *writer, v, _ string) string {
		t := w.name("t")
		w.line("local %s = {}", t)
		w.line("%s['x' .. %s] = %s", t, pick(w, "''", "''", "'1'", w.argument("bool")), v)
		return fmt.Sprintf("(%s.x or %s.x1 or %s['x0'])", t, t, t)
	}},
	{"computed element", func(w *writer, v, other string) string {
		t := w.name("t")
		w.line("local %s = {}", t)
		w.line("%s[tonumber(%s)] = %s", t, w.argument("bool"), v)
		w.line("%s[0] = %s[0] or %s", t, t, other)
		return fmt.Sprintf("(%s[1] or %s[0])", t, t)
	}},
	{"only unpack", func(w *writer, v, _ string) string {
		f, t := w.name("f"), w.name("t")
		w.line("local %s = {%s}", t, v)
		w.line("local function %s(p) return p end", f)
		return fmt.Sprintf("%s(unpack(%s))", f, t)
	}},
	{"parameters of varargs", func(w *writer, v, other string) string {
		f, g := w.name("f"), w.name("f")
		w.line("local function %s(p, q) return q end", g)
		w.line("local function %s(...) return %s(...) end", f, g)
		return fmt.Sprintf("%s(%s, %s)", f, other, v)
	}},
	{"locals of varargs", func(w *writer, v, other string) string {
		f := w.name("f")
		w.line("local function %s(...)", f)
		w.line("  local p, q = ...")
		w.line("  return q")
		w.line("end")
		return fmt.Sprintf("%s(%s, %s)", f, other, v)
	}},
	{"second value as a parameter", func(w *writer, v, other string) string {
		f, g := w.name("f"), w.name("f")
		w.line("local function %s() return %s, %s end", f, other, v)
		w.line("local function %s(p, q) return q end", g)
		return fmt.Sprintf("%s(%s())", g, f)
	}},
	{"functions in a table", func(w *writer, v, _ string) string {
		t := w.name("t")
		w.line("local %s = {}", t)
		w.line("%s.first = function(p) return p end", t)
		w.line("%s[%s] = function(p) return p end", t, w.argument("string"))
		return fmt.Sprintf("(%s[%s] or %s.first)(%s)", t, w.argument("string"), t, v)
	}},
	{"function as a parameter", func(w *writer, v, _ string) string {
		f := w.name("f")
		w.line("local function %s(g, p) return g(p) end", f)
		return fmt.Sprintf("%s(function(p) return p end, %s)", f, v)
	}},
	{"joined and split", func(w *writer, v, _ string) string {
		w.program.Texts = true
		a := w.name("a")
		w.line("local %s = %s", a, v)
		return fmt.Sprintf("(type(%s) == 'string' and (%s:gsub('^', '')) or %s)", a, a, a)
	}},
	{"encoded", func(w *writer, v, _ string) string {
		a := w.name("a")
		w.line("local %s = %s", a, v)
		return fmt.Sprintf("(type(%s) == 'string' and cjson.decode(cjson.encode({%s}))[1] or %s)", a, a, a)
	}},
	{"setmetatable with rawget", func(w *writer, v, other string) string {
		t := w.name("t")
		w.line("local %s = setmetatable({y = %s}, {__newindex = function(t, k, x) rawset(t, 'y', x) end})", t,
			other)
		w.line("%s.z = %s", t, v)
		return t + ".y"
	}},
	{"several results of pcall", func(w *writer, v, other string) string {
		a, b := w.name("a"), w.name("a")
		w.line("local _, %s, %s = pcall(function() return %s, %s end)", a, b, other, v)
		return b
	}},
	{"goes round", func(w *writer, v, other string) string {
		t := w.name("t")
		w.line("local %s = {%s}", t, v)
		w.line("for i = 1, 3 do %s[i + 1] = %s[i] end", t, t)
		w.line("%s[1] = %s", t, other)
		return t + "[4]"
	}},
}
