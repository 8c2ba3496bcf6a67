package oracle

import (
	"fmt"
	"slices"
	"strings"
)

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
	args := w.arguments(s)
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

// arguments returns expressions for the name and the arguments of a command.
func (w *writer) arguments(s shape) []string {
	args := []string{w.verb(s)}
	for _, a := range strings.Fields(s.args) {
		switch a {
		case "string", "hash", "list", "set", "zset", "stream":
			args = append(args, w.keyed(a))
		case "channel":
			args = append(args, w.channel())
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
	return args
}

// verb returns an expression for the name of a command.
func (w *writer) verb(s shape) string {
	name := "'" + s.name + "'"
	switch {
	case s.name == "":
		return name
	case w.wrong("name"):
		return w.route(name, "'"+shapes[w.IntN(len(shapes))].name+"'")
	case w.wrong("enum"):
		return w.chosen(s, func(shape) bool { return true })
	case w.program.Mode != "read cached" && w.chance(7):
		return w.chosen(s, func(other shape) bool { return other.args == s.args && other.write == s.write })
	case w.chance(5):
		return "'" + strings.ToLower(s.name) + "'"
	case w.chance(5):
		return w.route(name, name)
	case w.chance(4):
		w.note("built name")
		return pick(w, fmt.Sprintf("'%s' .. '%s'", s.name[:1], s.name[1:]),
			fmt.Sprintf("string.upper('%s')", strings.ToLower(s.name)), fmt.Sprintf("('%s'):upper()", s.name))
	}
	return name
}

// chosen returns an expression for the name of the command, or of a similar command. The caller
// chooses between these commands.
func (w *writer) chosen(s shape, like func(shape) bool) string {
	w.note("command by choice")
	names := []string{strings.ToLower(s.name)}
	for _, i := range w.Perm(len(shapes)) {
		if name := strings.ToLower(shapes[i].name); len(names) < 2+w.IntN(2) && !slices.Contains(names, name) &&
			like(shapes[i]) {
			names = append(names, name)
		}
	}
	a := w.argument("enum(" + strings.Join(names, "|") + ")")
	switch w.IntN(4) {
	case 0:
		t := w.name("t")
		w.line("local %s = {}", t)
		for _, name := range names {
			w.line("%s['%s'] = '%s'", t, name, strings.ToUpper(name))
		}
		return t + "[" + a + "]"
	case 1:
		return fmt.Sprintf("(%s == '%s' and '%s' or '%s')", a, names[0], names[0], names[len(names)-1])
	case 2:
		return w.route(a, a)
	}
	return a
}

// channel returns an expression for a channel, sometimes for an undeclared channel.
func (w *writer) channel() string {
	if w.wrong("channel") {
		return w.route(pick(w, w.argument("string"), w.key("string"), "'news:' .. "+w.argument("channel"),
			"tostring("+w.argument("int")+")", "redis.call('GET', "+w.key("string")+")",
			w.argument("channel")+":lower()"), w.argument("channel"))
	}
	if w.program.Mode == "read cached" {
		return "'news'"
	}
	good := pick(w, "'news'", "'news [*?]'", w.argument("channel"), w.argument("channel"), w.key("channel"))
	return w.route(good, pick(w, "'other news'", w.argument("channel")))
}

// callable returns function in a form that may stand before a call's arguments in a statement of
// its own.
func (w *writer) callable() string {
	f := w.function()
	if strings.HasPrefix(f, "(") {
		a := w.name("a")
		w.line("local %s = %s", a, f)
		return a
	}
	return f
}

// value returns an argument that a command takes as it is. Sometimes the command does not take the
// argument.
func (w *writer) value() string {
	if w.wrong("value") {
		return w.route(pick(w, "nil", "true", "{}", "redis.call('GET', "+w.key("string")+")", "function() end"),
			"'x'")
	}
	return w.route(pick(w, "'v'", "'w'", "1", w.argument("string"), w.argument("int"), w.argument("bytes"),
		"redis.call('EXISTS', "+w.key("string")+")"), "'x'")
}

// keyed returns an expression for a key, sometimes for a wrong key.
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
		"string.sub("+good+", 2)", "tostring(tonumber("+good+", 36))", "select('#', "+good+")",
		"tostring("+good+"):upper()", "redis.sha1hex("+good+")", "tonumber("+w.argument("int")+")",
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
	other := pick(w, "math.max", "tostring", "function() end", "redis.sha1hex", "redis.log", "print", "nil",
		"false")
	if other == "print" || other == "nil" || other == "false" {
		other = "type"
	}
	return w.route(good, other)
}
