package oracle

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

const (
	bundle  = 200 // programs whose bindings are built at once
	sampled = 50  // accepted programs of a batch whose bindings are called
)

// bound is an accepted program whose binding the caller program calls.
type bound struct {
	program *Program
	rule    rule
	seed    uint64
}

// step is one call of a binding, for the program in testdata/caller.
type step struct {
	Program string
	Data    [][]string
	Rights  []string
	Form    string
	Values  []field
	Refused bool
	Keys    [][]byte
	Args    [][]byte
	Returns replyType
}

// field is the value of one field of a binding's parameters.
type field struct {
	Field string
	Many  bool
	Texts [][]byte
}

// bindings calls the bindings of programs. It returns the faults by the name of the program.
func (s *server) bindings(ctx context.Context, g generator, programs []bound) (map[string]fault, error) {
	dir, err := os.MkdirTemp("", "oracle")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	if err := g.bind(ctx, dir, programs); err != nil {
		return nil, err
	}
	var steps []step
	for _, b := range programs {
		made, err := s.steps(b)
		if err != nil {
			return nil, err
		}
		steps = append(steps, made...)
	}
	input, err := json.Marshal(steps)
	if err != nil {
		return nil, err
	}
	var out, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(dir, "caller"), s.addr, binder)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = bytes.NewReader(input), &out, &stderr
	if err := cmd.Run(); err != nil {
		return nil, fmt.Errorf("calling the bindings: %w\n%s", err, stderr.String())
	}
	var wrong []struct{ Program, Kind, Why string }
	if err := json.Unmarshal(out.Bytes(), &wrong); err != nil {
		return nil, fmt.Errorf("the caller answers %q: %w", out.String(), err)
	}
	faults := map[string]fault{}
	for _, w := range wrong {
		faults[w.Program] = fault{kind: w.Kind, why: w.Why}
	}
	return faults, nil
}

// bind builds the program that calls the bindings, in dir. The compiler sees the bindings as a
// package beside this program.
func (g generator) bind(ctx context.Context, dir string, programs []bound) error {
	lua, out := filepath.Join(dir, "lua"), filepath.Join(dir, "bindings")
	for _, b := range programs {
		if err := b.program.write(lua); err != nil {
			return err
		}
	}
	if text, err := exec.CommandContext(ctx, g.path, "-scripts", lua, "-out", out).CombinedOutput(); err != nil {
		return fmt.Errorf("the generator accepts programs for which it writes no bindings: %w\n%s", err, text)
	}
	const caller = "rlock_test/oracle/testdata/caller"
	written, err := filepath.Glob(filepath.Join(out, "*.*"))
	if err != nil {
		return err
	}
	files := maps.Clone(g.flawed)
	for _, file := range written {
		files[filepath.Join(g.root, filepath.FromSlash(caller), "bindings", filepath.Base(file))] = file
	}
	text, err := json.Marshal(overlay{files})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), text, 0o600); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, "go", "build", "-overlay", filepath.Join(dir, "overlay.json"),
		"-ldflags=-s -w", "-o", filepath.Join(dir, "caller"), "./"+caller)
	cmd.Dir = g.root
	if text, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("the bindings do not compile: %w\n%s", err, text)
	}
	return nil
}

// write writes the files of the program into a directory.
func (p *Program) write(dir string) error {
	for name, text := range p.files() {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			return err
		}
	}
	return nil
}

// steps returns two calls of a program's binding. One call is the same as in the program's first
// run. The other call has a value at a limit, or a value that the binding refuses.
func (s *server) steps(b bound) ([]step, error) {
	var all []step
	for n := range 2 {
		r := rand.New(rand.NewPCG(b.seed, 0))
		data, calls := draw(b.program, r)
		r = rand.New(rand.NewPCG(b.seed, uint64(100+n)))
		made := step{Program: b.program.Name, Data: data, Form: "call", Returns: parseType(b.program.Returns)}
		switch {
		case b.program.Mode == "read cached" && r.IntN(2) == 0:
			made.Form = "cached"
		case r.IntN(4) == 0:
			made.Form = "batch"
		}
		b.program.fill(&made, calls[0], r, n > 0)
		given := call{keys: texts(made.Keys), args: texts(made.Args)}
		if made.Refused {
			given = calls[0]
		}
		rights, err := rights(binder, b.program, b.rule, []call{given})
		if err != nil {
			return nil, err
		}
		made.Rights = append([]string{"ACL"}, rights...)
		all = append(all, made)
	}
	return all, nil
}

func texts(words [][]byte) []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = string(w)
	}
	return list
}

// fill sets the fields of a call, and notes what the binding must send for them. At a limit, a run
// never draws one of the values.
func (p *Program) fill(s *step, c call, r *rand.Rand, limit bool) {
	at := -1
	if limit {
		at = r.IntN(1 + len(c.keys) + len(c.args))
	}
	place := 0
	add := func(name, kind, word string, many bool) {
		v := plain(kind, word)
		if place == at {
			if at, ok := atLimit(kind, r); ok {
				v = at
			}
		}
		place++
		s.Refused = s.Refused || v.refused
		list := &s.Args
		if kind == "key" {
			list = &s.Keys
		}
		*list = append(*list, []byte(v.word))
		if kind == unused {
			return
		}
		if n := len(s.Values); many && n > 0 && s.Values[n-1].Field == name {
			s.Values[n-1].Texts = append(s.Values[n-1].Texts, []byte(v.text))
			return
		}
		s.Values = append(s.Values, field{name, many, [][]byte{[]byte(v.text)}})
	}
	for i, key := range c.keys {
		switch {
		case i >= len(p.Keys):
			add("rest", "key", key, true)
		case p.Keys[i].Kind == "token":
			s.Keys = append(s.Keys, []byte(key))
			s.Values = append(s.Values,
				field{p.Keys[i].Name, false, [][]byte{[]byte(key), []byte(c.args[0]), []byte("0")}})
		default:
			add(p.Keys[i].Name, "key", key, false)
		}
	}
	for i, word := range c.args {
		switch {
		case i >= len(p.Args):
			add("more", p.More, word, true)
		case p.Args[i].Bound && p.Guard == "held":
			s.Args = append(s.Args, []byte(word))
		case p.Args[i].Bound && p.Guard == "fenced":
			s.Args = append(s.Args, []byte(word))
			s.Values = append(s.Values, field{p.Args[i].Name, false, [][]byte{nil, nil, []byte(word)}})
		case p.Args[i].Name == unused:
			add("", unused, "", false)
		default:
			add(p.Args[i].Name, p.Args[i].Kind, word, false)
		}
	}
}

// typed is a Go value as a text, with the word that the binding must send for it.
type typed struct {
	text, word string
	refused    bool // the binding must send nothing
}

// plain returns the value for which the binding sends a word.
func plain(kind, word string) typed {
	if strings.TrimSuffix(kind, "?") != "duration" {
		return typed{text: word, word: word}
	}
	if word == "" {
		return typed{text: "0"}
	}
	return typed{text: word + "000000", word: word}
}

// limits are values that runs do not draw, by type.
var limits = map[string][]typed{
	"key":    {{text: "", refused: true}, {text: "{x}:ä", word: "{x}:ä"}},
	"string": {{}, {text: "a b\r\n\x00ä", word: "a b\r\n\x00ä"}},
	"bytes":  {{}, {text: "\x00\xff\xfe", word: "\x00\xff\xfe"}},
	"int": {{text: "9223372036854775807", word: "9223372036854775807"},
		{text: "-9223372036854775808", word: "-9223372036854775808"}, {text: "-1", word: "-1"}},
	"bool": {},
	"float": {{text: "1e6", word: "1000000"}, {text: "1e21", word: "1000000000000000000000"},
		{text: "1e-7", word: "0.0000001"}, {text: "-0.0", word: "0"},
		{text: "123456789.125", word: "123456789.125"}, {text: "NaN", refused: true}, {text: "+Inf", refused: true},
		{text: "-Inf", refused: true}},
	"duration": {{text: "1000000", word: "1"}, {text: "999999", refused: true}, {text: "1500000", refused: true},
		{text: "-1000000", refused: true}, {text: "0", refused: true}},
	"time":    {{text: "", refused: true}, {text: "4102444800000", word: "4102444800000"}},
	"channel": {{text: "", refused: true}},
	"enum":    {{text: "nosuch", refused: true}, {text: "", refused: true}},
}

// atLimit draws one of the limits.
func atLimit(kind string, r *rand.Rand) (typed, bool) {
	base, optional := strings.CutSuffix(kind, "?")
	if strings.HasPrefix(base, "enum(") {
		base = "enum"
	}
	values := slices.Clone(limits[base])
	if optional { // the zero value means absent
		values = slices.DeleteFunc(values,
			func(v typed) bool { return v.refused && (v.text == "" || v.text == "0") })
		values = append(values, typed{text: map[string]string{"duration": "0"}[base]})
	}
	if len(values) == 0 {
		return typed{}, false
	}
	return values[r.IntN(len(values))], true
}
