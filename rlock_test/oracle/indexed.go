package oracle

import "fmt"

// A filling is a correct way to fill list %[1]s by index. It stores %[2]s for each element of
// %[3]s. The element and its index are x and i.
type filling struct{ name, text string }

var fillings = []filling{
	{"ipairs", "for i, x in ipairs(%[3]s) do %[1]s[i] = %[2]s end"},
	{"for", "local all = %[3]s\nfor i = 1, #all do\n  local x = all[i]\n  %[1]s[i] = %[2]s\nend"},
	{"both branches", "for i, x in ipairs(%[3]s) do\n  if x == 'v' then %[1]s[i] = %[2]s else %[1]s[#%[1]s + " +
		"1] = %[2]s end\nend"},
	{"counter", "local n = 0\nfor i, x in ipairs(%[3]s) do\n  if x ~= 'v' then\n    n = n + 1\n    %[1]s[n] = " +
		"%[2]s\n  end\nend"},
	{"counter behind",
		"local n = 1\nfor i, x in ipairs(%[3]s) do\n  if x ~= 'v' then\n    %[1]s[n] = %[2]s\n  " +
			"  n = n + 1\n  end\nend"},
	{"while", "local i, all = 1, %[3]s\nwhile i <= #all do\n  local x = all[i]\n  %[1]s[i] = %[2]s\n  i = i + " +
		"1\nend"},
	{"length", "for i, x in ipairs(%[3]s) do\n  local n = #%[1]s\n  %[1]s[n + 1] = %[2]s\nend"},
	{"first", "for i, x in ipairs(%[3]s) do table.insert(%[1]s, 1, %[2]s) end"},
	{"constants", "for i = 1, 5 do\n  local x = 'y'\n  %[1]s[i] = %[2]s\nend"},
	{"overwriting",
		"for i, x in ipairs(%[3]s) do %[1]s[i] = %[2]s end\nfor i, x in ipairs(%[1]s) do\n  if i > " +
			"1 then %[1]s[i] = x end\nend"},
	{"helper", "local function add(list, v) list[#list + 1] = v end\nfor i, x in ipairs(%[3]s) do add(%[1]s, " +
		"%[2]s) end"},
}

// indexed writes the return of a list that is stored to by index. With a mistake, the program
// stores to any index on any branch, so the list may have a gap.
func (w *writer) indexed() {
	p := w.program
	kinds := map[string][]string{
		"[]string":   {"x", "x", "tostring(i)", "'v'"},
		"[]int":      {"i", "#x", "7"},
		"[]string?":  {"x", "x ~= 'v' and x", "false"},
		"[][]string": {"{x}", "{}", "{x, x}"},
	}
	p.Returns = pick(w, "[]string", "[]string", "[]int", "[]string?", "[][]string")
	elements := kinds[p.Returns]
	source := pick(w, "redis.call('SMEMBERS', "+w.key("set")+")",
		"redis.call('LRANGE', "+w.key("list")+", 0, -1)", "{'a', 'v', 'b'}", "ARGV")
	t := w.name("t")
	gap := w.wrong("gap")
	if !gap { // half of the lists have a gap
		gap = w.wrong("gap")
	}
	if !gap {
		f := pick(w, fillings...)
		w.note("list filled by " + f.name)
		w.line("local %s = {}", t)
		w.line(f.text, t, pick(w, elements...), source)
		w.line("return %s", t)
		return
	}
	list := wild{w, t, elements, false}
	w.line("local %s = %s", t, pick(w, "{}", "{}", "{}", list.literal(),
		"redis.call('LRANGE', "+w.key("list")+", 0, -1)"))
	w.line("local count, all, n, m, i, x = 0, %s, %s, %s, 1, 'y'", source, pick(w, "0", "0", "1", "#"+t),
		pick(w, "0", "2", "#"+t+" + 1"))
	if w.chance(30) {
		list.written = true
		w.line("local function put(list, j, v) list[j] = v end")
		w.line("local function drop(list) %s return 'y' end",
			pick(w, "table.remove(list)", "list[#list] = nil", "list[#list + 1] = 'v'"))
	}
	for range 1 + w.IntN(2) {
		open := pick(w, "for i, x in ipairs(all) do", "for i, x in ipairs(all) do", "for i = 1, #all do",
			"for i = 1, 4 do", "for i = 0, 3 do", "for i = 3, 1, -1 do", "for i = 1, #all, 2 do",
			"for i = n + 1, n + 3 do", "do", "while count < 4 do", "for i, x in pairs(all) do")
		w.block(open, func() {
			if open == "while count < 4 do" { // the counter ends each loop, whatever its body does
				w.line("count = count + 1")
			}
			for range 1 + w.IntN(3) {
				list.statement()
			}
		}, "end")
	}
	if w.chance(40) {
		list.statement()
	}
	if w.chance(20) {
		w.line("%s", pick(w, t+" = {unpack("+t+")}", "table.remove("+t+", 1)",
			"for j = 1, #"+t+" do "+t+"[j] = "+t+"[j] end", "local u = "+t+"\nu[#u + 1] = "+elements[0]))
	}
	w.line("return %s", pick(w, t, t, t, "{unpack("+t+")}"))
}

// wild writes stores to a list without regard to the list's content.
type wild struct {
	*writer
	name     string
	elements []string
	written  bool // the program has functions that change lists
}

func (l wild) element() string { return pick(l.writer, l.elements...) }

func (l wild) literal() string {
	return pick(l.writer, "{"+l.element()+"}", "{"+l.element()+", "+l.element()+"}", "{[2] = "+l.element()+"}",
		"{[1] = "+l.element()+"}", "{unpack(ARGV)}", "{ARGV[1], ARGV[2]}")
}

func (l wild) statement() {
	w, t := l.writer, l.name
	index := pick(w, "i", "i", "i", "i", "n", "n", "n + 1", "#"+t+" + 1",
		pick(w, "m", "m + 1", "#"+t, "i + 1", "i - 1", "n - 1", "1", "2", "0", "tonumber("+w.argument("int")+")"))
	var statement string
	switch w.IntN(5) {
	case 0, 1:
		statement = t + "[" + index + "] = " + l.element()
	case 2:
		statement = pick(w, fmt.Sprintf("n = n + 1\n%s[n] = %s", t, l.element()),
			fmt.Sprintf("%s[n] = %s\nn = n + 1", t, l.element()))
	case 3:
		statement = pick(w, "n = n + 1", "n = n - 1", "n = #"+t, "m = #"+t+" + 1", "n, m = m, n", "n = i",
			"n = "+pick(w, "0", "1"))
	default:
		statement = pick(w,
			"table.insert("+t+", "+l.element()+")",
			"table.insert("+t+", "+index+", "+l.element()+")",
			"table.remove("+t+")", t+"[#"+t+"] = nil", t+"["+index+"] = nil",
			t+"["+index+"] = "+t+"["+pick(w, "i", "n", "1", "#"+t)+"]",
			"if #"+t+" > 2 then break end", "if x == 'v' then "+t+" = {} end",
			"all = {}",
			"pcall(function() "+t+"["+index+"] = "+l.element()+" end)",
			"local _ = (function() n = n + 1 "+t+"["+index+"] = "+l.element()+" end)()",
		)
	}
	if l.written && w.chance(40) {
		statement = pick(w, "put("+t+", "+index+", "+l.element()+")",
			t+"["+index+"] = drop("+t+") and "+l.element(), "drop("+t+")", "n = n + 1\nput("+t+", n, "+l.element()+")")
	}
	if w.chance(30) {
		statement = "if " + pick(w, "x == 'v'", "i > 1", "n < 2", "#"+t+" > 0", w.condition()) + " then\n" +
			statement + "\nend"
	}
	w.line("%s", statement)
}
