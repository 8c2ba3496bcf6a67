package oracle

import (
	"fmt"
	"strings"
)

// act writes a command, sometimes inside another construct.
func (w *writer) act() {
	switch w.IntN(100) {
	case 0, 1, 2, 3, 4, 5, 6, 7, 8, 9:
		w.allKeys()
		return
	case 10, 11, 12, 13, 14, 15, 16, 17, 18, 19:
		w.openList()
		return
	case 20, 21, 22, 23:
		w.optional()
		return
	case 24:
		w.note("text that looks as an include")
		w.line("local %s = [[", w.name("s"))
		w.body.WriteString("-- include: nosuch.lua\n]]\n")
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
		w.block("local "+t+" = setmetatable({}, {__"+pick(w, "index", "newindex", "call", "add", "concat", "unm",
			"eq", "lt")+" = function()", w.command, "end})")
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

// inside writes the call into a function. One of the call's arguments is a parameter of the
// function.
func (w *writer) inside(args []string) {
	n := w.IntN(len(args))
	given := args[n]
	args[n] = "p"
	f := w.name("f")
	body := fmt.Sprintf("%s(%s)", w.callable(), strings.Join(args, ", "))
	form := pick(w, "direct", "unpack", "second value", "varargs", "select", "table", "computed table", "method",
		"pcall", "ipairs", "callback", "recursion")
	if w.chance(2) {
		form = "coroutine"
	}
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

// optional writes a command for an argument that may be absent.
func (w *writer) optional() {
	if w.program.Mode != "write" {
		w.note("optional enum")
		a := w.argument("enum(HLEN|HKEYS)?")
		w.line("if %s ~= '' then redis.call(%s, %s) end", a, a, w.keyed("hash"))
		return
	}
	kind := pick(w, "duration?", "channel?", "time?", "enum(INCR|DECR)?")
	w.note("optional " + kind)
	a := w.argument(kind)
	call := map[string]string{
		"duration?":        fmt.Sprintf("redis.call('PEXPIRE', %s, %s)", w.keyed("string"), a),
		"channel?":         fmt.Sprintf("redis.call('PUBLISH', %s, 'x')", a),
		"time?":            fmt.Sprintf("redis.call('PEXPIREAT', %s, %s)", w.keyed("string"), a),
		"enum(INCR|DECR)?": fmt.Sprintf("redis.call(%s, %s)", a, w.keyed("string")),
	}[kind]
	form := pick(w, "if", "and", "else", "list", "list")
	if kind != "duration?" && form == "list" {
		form = "if"
	}
	switch form {
	case "list": // of words, with the option on one branch
		w.note("option in a list")
		w.program.Lease = true
		t, option := w.name("t"), "'PX'"
		if w.wrong("unit") {
			option = pick(w, "'EX'", "'EX'", "("+w.condition()+" and 'EX' or 'PX')", w.argument("enum(EX|PX)"))
		}
		words := "'SET', " + w.keyed("string") + ", 'v'"
		if w.chance(50) {
			w.line("local %s = {}", t)
			w.line("if %s ~= '' then %s = {%s, %s} end", a, t, option, a)
			w.line("redis.call(%s, unpack(%s))", words, t)
			return
		}
		w.line("local %s = {%s}", t, words)
		w.block("if "+a+" ~= '' then", func() {
			w.line("%s[#%s + 1] = %s", t, t, option)
			w.line("%s[#%s + 1] = %s", t, t, a)
		}, "end")
		w.line("redis.call(unpack(%s))", t)
	case "if":
		w.line("if %s ~= '' then %s end", a, call)
	case "and":
		w.line("local %s = %s ~= '' and %s", w.name("r"), a, call)
	case "else":
		w.line("if %s == '' then", a)
		w.line("  redis.call('SET', %s, 'x')", w.keyed("string"))
		w.line("else")
		w.line("  %s", call)
		w.line("end")
	}
}
