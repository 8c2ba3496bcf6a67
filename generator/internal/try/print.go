package try

import (
	"bytes"
	"fmt"
	"go/format"
	"strconv"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// check is what a test demands of a call. Some faults have no test, because a test would need the purpose of
// the script, or the user that calls it.
type check int

const (
	noTest check = iota
	mustNotFail
	mustNotLose   // digits
	mustNotChange // data
	mustNotRepeat
)

// tests returns a Go file with a test for each fault that a test can show. The file belongs to the package of
// the bindings. A person adds which server the tests use.
func tests(pkg string, faults []scriptFault) ([]byte, error) {
	var body bytes.Buffer
	names := map[string]int{}
	guarded := false
	for _, f := range faults {
		if f.test == noTest {
			continue
		}
		name := "Test" + f.script.Name + "Runs"
		if names[name]++; names[name] > 1 {
			name += strconv.Itoa(names[name])
		}
		guarded = guarded || f.script.Guard != nil
		f.write(&body, name)
	}
	if body.Len() == 0 {
		return nil, nil
	}
	var text bytes.Buffer
	fmt.Fprintf(&text, "package %s\n\nimport (\n", pkg)
	for _, path := range []string{"encoding/json", "fmt", "strconv", "strings", "testing", "time"} {
		name := path[strings.LastIndex(path, "/")+1:]
		if name == "testing" || bytes.Contains(body.Bytes(), []byte(name+".")) {
			fmt.Fprintf(&text, "%q\n", path)
		}
	}
	text.WriteString("\n\"github.com/redis/rueidis\"\n)\n" + prelude)
	if guarded {
		text.WriteString(lock)
	}
	text.Write(body.Bytes())
	return format.Source(text.Bytes())
}

// scriptFault is a fault of one script among several.
type scriptFault struct {
	fault
	*runner
}

const prelude = `
// onServer returns a client of a server for tests, and a function that sends it a command.
func onServer(t *testing.T) (rueidis.Client, func(words ...string) string) {
	client, err := rueidis.NewClient(rueidis.ClientOption{InitAddress: []string{"127.0.0.1:6379"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client, func(words ...string) string {
		t.Helper()
		reply := client.Do(t.Context(), client.B().Arbitrary(words...).Build())
		if err := reply.Error(); err != nil && !rueidis.IsRedisNil(err) {
			t.Fatal(err)
		}
		return reply.String()
	}
}
`

const lock = `
// lockOf is a lock as the guarded scripts take it.
type lockOf struct {
	key, token string
	fence      uint64
}

func (l lockOf) Key() string   { return l.key }
func (l lockOf) Token() string { return l.token }
func (l lockOf) Fence() uint64 { return l.fence }
`

func (f scriptFault) write(b *bytes.Buffer, name string) {
	s := f.script
	fmt.Fprintf(b, "\n// %s: %s\nfunc %[1]s(t *testing.T) {\n", name, strings.ReplaceAll(f.text, "\n", " "))
	b.WriteString("client, do := onServer(t)\n")
	if names := f.in.names(); len(names) > 0 {
		fmt.Fprintf(b, "do(%s)\n", quoted(append([]string{"DEL"}, names...)))
	}
	for _, k := range f.in.keys {
		k.write(b, f.in.fields(f.hints))
	}
	call := "New()." + s.Name + "(t.Context(), client, p)"
	reply := "_, err"
	if s.Returns.Kind != script.ReturnValue {
		reply = "err"
	}
	called := fmt.Sprintf("if %s := %s; err != nil {\nt.Fatal(err)\n}\n", reply, call)
	if f.in.earlier > 0 {
		f.params(b, f.space.plain(f.in))
		for range f.in.earlier {
			b.WriteString(called)
		}
		if f.space.plain(f.in).same(f.in) {
			f.in.earlier = -1 // p is set
		}
	}
	if f.in.earlier >= 0 {
		f.params(b, f.in)
	}
	before := fmt.Sprintf("before := do(\"DUMP\", %q)\n", f.key)
	after := fmt.Sprintf("if after := do(\"DUMP\", %q); after != before {\n", f.key) +
		"t.Fatalf(\"%q has become %q\", before, after)\n}\n"
	switch f.test {
	case mustNotFail:
		b.WriteString(called)
	case mustNotLose:
		fmt.Fprintf(b, "reply, err := %s\nif err != nil || strings.Contains(fmt.Sprint(reply), \"e+1\") {\n", call)
		b.WriteString("t.Fatal(reply, err)\n}\n")
	case mustNotChange:
		b.WriteString(before + called + after)
	case mustNotRepeat:
		b.WriteString(called + before + called + after)
	}
	b.WriteString("}\n")
}

// same reports whether two inputs of one script make the same call.
func (in input) same(other input) bool {
	return strings.Join(in.words(), "\x00") == strings.Join(other.words(), "\x00")
}

// write writes the commands that give the key its data. Many values become a loop.
func (k keyWord) write(b *bytes.Buffer, fields []string) {
	if k.size > 50 {
		words := map[string]string{
			"list": fmt.Sprintf("%q, %q, %q", "RPUSH", k.name, k.text),
			"set":  fmt.Sprintf("%q, %q, strconv.Itoa(i+1)", "SADD", k.name),
			"zset": fmt.Sprintf("%q, %q, strconv.Itoa(i+1), strconv.Itoa(i+1)", "ZADD", k.name),
		}[k.kind]
		count := "i := "
		if k.kind == "list" {
			count = ""
		}
		fmt.Fprintf(b, "for %srange %d {\ndo(%s)\n}\n", count, k.size, words)
		return
	}
	for _, words := range k.commands(k.name, fields) {
		fmt.Fprintf(b, "do(%s)\n", quoted(words))
	}
}

func quoted(words []string) string {
	var list []string
	for _, w := range words {
		list = append(list, strconv.Quote(w))
	}
	return strings.Join(list, ", ")
}

// params writes the parameters of the call.
func (f scriptFault) params(b *bytes.Buffer, in input) {
	s, g := f.script, f.script.Guard
	var fields, after []string
	held := func(index int) bool { return g != nil && !g.Fenced && g.Key == index }
	for _, p := range s.Keys {
		var names []string
		for _, k := range in.keys {
			if k.param.Index == p.Index {
				names = append(names, k.name)
			}
		}
		value := quoted(names)
		switch {
		case held(p.Index):
			value = fmt.Sprintf("lockOf{key: %s, token: %q}", value, in.argument(g.Arg)[0])
		case p.Variadic:
			value = "[]string{" + value + "}"
		}
		fields = append(fields, script.Camel(p.Name)+": "+value)
	}
	for _, p := range s.Args {
		texts := in.argument(p.Index)
		field := script.Camel(p.Name)
		switch {
		case p.Skipped, g != nil && !g.Fenced && g.Arg == p.Index, !p.Variadic && p.Type.Optional && texts[0] == "":
		case g != nil && g.Fenced && g.Arg == p.Index:
			fields = append(fields, field+": lockOf{fence: "+texts[0]+"}")
		case p.Type.Named != "" && !p.Variadic:
			after = append(after, fmt.Sprintf("if err := json.Unmarshal([]byte(%q), &p.%s); err != nil {\n"+
				"t.Fatal(err)\n}\n", texts[0], field))
		case !p.Variadic:
			fields = append(fields, field+": "+literal(p.Type, texts[0]))
		default:
			var values []string
			for _, text := range texts {
				values = append(values, literal(p.Type, text))
			}
			fields = append(fields, field+": []"+element(s, p)+"{"+strings.Join(values, ", ")+"}")
		}
	}
	define := ":="
	if f.in.earlier > 0 && !f.space.plain(f.in).same(in) {
		define = "="
	}
	fmt.Fprintf(b, "p %s %sParams{%s}\n%s", define, s.Name, strings.Join(fields, ", "), strings.Join(after, ""))
}

func (in input) argument(index int) []string {
	var texts []string
	for _, a := range in.args {
		if a.param.Index == index {
			texts = append(texts, a.text)
		}
	}
	return texts
}

// literal returns the Go value that the bindings send as the word.
func literal(t script.Type, text string) string {
	switch t.Base {
	case "int", "float":
		return text
	case "bool":
		return strconv.FormatBool(text == "1")
	case "duration":
		if text == "" {
			return "0"
		}
		return text + " * time.Millisecond"
	case "time":
		if text == "" {
			return "time.Time{}"
		}
		return "time.UnixMilli(" + text + ")"
	case "bytes":
		return fmt.Sprintf("[]byte(%q)", text)
	case "json":
		return fmt.Sprintf("json.RawMessage(%q)", text)
	}
	return strconv.Quote(text)
}

func element(s *script.Script, p script.Param) string {
	switch p.Type.Base {
	case "int":
		return "int64"
	case "float":
		return "float64"
	case "bytes":
		return "[]byte"
	case "duration":
		return "time.Duration"
	case "time":
		return "time.Time"
	case "json":
		return "any"
	case script.EnumType:
		return s.EnumName(p)
	case "bool":
		return "bool"
	}
	return "string"
}
