package oracle

import "fmt"

// held writes commands behind a comparison of the lock's value with the token. The comparison may
// fail to guard them.
func (w *writer) held() {
	p := w.program
	p.Keys = append(p.Keys, Entry{Name: "lock", Kind: "token", Bound: true})
	p.Args = append(p.Args, Entry{Name: "token", Kind: "string", Bound: true})
	holder, token := "redis.call('GET', KEYS[1])", "ARGV[1]"
	if w.chance(40) {
		holder = w.route(holder, w.unless("guard", holder, "ARGV[1]"))
	}
	if w.chance(40) {
		token = w.route(token, w.unless("guard", token, "redis.call('GET', KEYS[1])"))
	}
	if w.wrong("guard") {
		w.note("bad guard: early write")
		w.command()
	}
	w.guard(fmt.Sprintf("%s ~= %s", holder, token), fmt.Sprintf("%s == %s", holder, token),
		"return redis.error_reply('NOT_HELD')", func() {})
}

// fenced writes commands behind a comparison of fences. The comparison may fail to guard them.
func (w *writer) fenced() {
	p := w.program
	p.Keys = append(p.Keys, Entry{Name: "data", Kind: "hash", Bound: true})
	p.Args = append(p.Args, Entry{Name: "fence", Kind: "fence", Bound: true})
	field := "'fence'"
	if w.wrong("fence") {
		w.note("bad fence: field of the caller")
		field = w.argument("string")
	}
	seen, fence := fmt.Sprintf("tonumber(redis.call('HGET', KEYS[1], %s) or 0)", field), "tonumber(ARGV[1])"
	if w.chance(30) {
		seen = w.route(seen, w.unless("fence", seen, "0"))
	}
	if w.chance(30) {
		fence = w.route(fence, w.unless("fence", fence, seen))
	}
	if w.wrong("fence") {
		w.note("bad fence: compared as text")
		fence = "ARGV[1]"
	}
	late := w.wrong("fence")
	store := func() { w.store(field) }
	first := store
	if late {
		w.note("bad fence: stored last")
		first = func() {}
	}
	w.guard(fmt.Sprintf("%s < %s", fence, seen), fmt.Sprintf("%s >= %s", fence, seen),
		"return redis.error_reply('STALE')", first)
	if late {
		store()
	}
}

// store writes the command that stores the fence, or a command that does not store it.
func (w *writer) store(field string) {
	way := 5
	if w.wrong("fence") {
		way = w.IntN(6)
	}
	switch way {
	case 0:
		w.note("bad fence: other field")
		w.line("redis.call('HSET', KEYS[1], 'other', ARGV[1])")
	case 1:
		w.note("bad fence: HSETNX")
		w.line("redis.call('HSETNX', KEYS[1], %s, ARGV[1])", field)
	case 2:
		w.note("bad fence: one branch")
		w.line("if %s then redis.call('HSET', KEYS[1], %s, ARGV[1]) end", w.condition(), field)
	case 3:
		w.line("redis.call('HSET', KEYS[1], %s, ARGV[1])", field)
		w.note("bad fence: gone afterwards")
		w.line("%s", pick(w, "redis.call('DEL', KEYS[1])", "redis.call('HDEL', KEYS[1], "+field+")",
			"redis.call('PEXPIRE', KEYS[1], 1)", "redis.call('HSET', KEYS[1], "+field+", '1')"))
	case 4:
		w.note("bad fence: name and value the wrong way round")
		w.line("redis.call('HSET', KEYS[1], ARGV[1], %s)", field)
	default:
		w.line("redis.call('HSET', KEYS[1], %s, %s)", field, w.unless("fence", "ARGV[1]", "'1'"))
	}
}

// unless returns good, or bad where the program makes a mistake of the kind.
func (w *writer) unless(kind, good, bad string) string {
	if w.wrong(kind) {
		return bad
	}
	return good
}

// guard writes a guard that lets only good callers pass, in one of several forms. Behind the guard
// it writes first and some commands.
func (w *writer) guard(bad, good, refusal string, first func()) {
	then := func() {
		first()
		for range 1 + w.IntN(2) {
			w.act()
		}
	}
	form := pick(w, "if", "if", "if", "else", "good branch", "assert", "helper", "helper result", "do", "nested",
		"local")
	if w.wrong("guard") {
		form = pick(w, "bad good branch and more", "bad own error", "bad own assert", "bad loop", "bad one branch",
			"bad pcall", "bad dispatch", "bad not called", "bad and", "bad or")
	}
	w.note(form + " guard")
	switch form {
	case "if":
		w.block("if "+bad+" then", func() { w.line("%s", refusal) }, "end")
	case "else":
		w.block("if "+bad+" then", func() { w.line("%s", refusal) }, "else")
		w.depth++
		then()
		w.depth--
		w.line("end")
		return
	case "good branch":
		w.block("if "+good+" then", then, "end")
		w.line("if %s then %s end", bad, refusal)
		return
	case "assert":
		w.line("assert(%s, 'no')", good)
	case "helper":
		f := w.name("f")
		w.line("local function %s() if %s then error('no') end end", f, bad)
		w.line("%s()", f)
	case "helper result":
		f := w.name("f")
		w.line("local function %s() return %s end", f, good)
		w.line("if not %s() then %s end", f, refusal)
	case "do":
		w.line("do if %s then %s end end", bad, refusal)
	case "nested":
		w.block("if "+good+" then", func() { w.block("if true then", then, "end") }, "else")
		w.line("  %s", refusal)
		w.line("end")
		return
	case "local":
		a := w.name("a")
		w.line("local %s = %s", a, good)
		w.line("if not %s then %s end", a, refusal)
	case "bad good branch and more":
		w.block("if "+good+" then", then, "end")
	case "bad own error":
		w.line("local error = function() end")
		w.line("if %s then error('no') end", bad)
	case "bad own assert":
		w.line("local function assert() end")
		w.line("assert(%s)", good)
	case "bad loop":
		w.line("while true do")
		w.line("  if %s then break end", pick(w, bad, good))
		w.line("  break")
		w.line("end")
	case "bad one branch":
		w.line("if %s then if %s then %s end end", w.condition(), bad, refusal)
	case "bad pcall":
		w.line("pcall(function() if %s then error('no') end end)", bad)
	case "bad dispatch":
		t := w.name("t")
		w.line("local %s = {check = function() if %s then error('no') end end, skip = function() end}", t, bad)
		w.line("%s[%s == 'b' and 'check' or 'skip']()", t, w.argument("string"))
	case "bad not called":
		w.line("local function %s() if %s then error('no') end end", w.name("f"), bad)
	case "bad and":
		w.line("if %s and %s then %s end", bad, w.condition(), refusal)
	case "bad or":
		w.line("if %s or %s then", good, w.condition())
		w.depth++
		then()
		w.depth--
		w.line("else")
		w.line("  %s", refusal)
		w.line("end")
		return
	}
	then()
}
