package oracle

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Entry is a declared key or argument.
type Entry struct {
	Name  string
	Kind  string // of a key: the type of its value, or channel; of an argument: its type in the header
	Bound bool   // it has a fixed meaning, so nothing else uses it
}

// Program is a script, together with what its runs need to know.
type Program struct {
	Name     string
	Mode     string
	Keys     []Entry
	Rest     string // the type of further keys, any number, after Keys; "": there are none
	Args     []Entry
	More     string // the type of further arguments, any number, after Args; "": there are none
	Returns  string
	Guard    string   // "held", "fenced" or ""
	Waivers  []string // rules that the header waives
	Body     string
	Cut      uint64   // decides the cut of the body into fragments; 0: no cut
	Features []string // the features of the program; a mistake begins with bad
	Texts    bool     // string functions make texts that the generator does not know
	Lease    bool     // the duration arguments become leases
	Trusting bool     // a run has shown: the reply has the declared type only if the stored data has it
}

// unused is the name of a place of ARGV that the program does not use.
const unused = "_"

// Text is the script as one file.
func (p *Program) Text() string { return p.header() + p.Body }

func (p *Program) header() string {
	var b strings.Builder
	fmt.Fprintf(&b, "-- A random program.\n--\n-- mode: %s\n", p.Mode)
	switch p.Guard {
	case "held":
		b.WriteString("-- guard: KEYS[1] held by ARGV[1]\n")
	case "fenced":
		b.WriteString("-- guard: KEYS[1] fenced by ARGV[1]\n")
	}
	for i, k := range p.Keys {
		kind := "key"
		if k.Kind == "channel" {
			kind = k.Kind
		}
		fmt.Fprintf(&b, "-- KEYS[%d] %s %s\n", i+1, k.Name, kind)
	}
	if p.Rest != "" {
		fmt.Fprintf(&b, "-- KEYS[%d..] rest key\n", len(p.Keys)+1)
	}
	for i, a := range p.Args {
		kind := a.Kind
		switch {
		case a.Name == unused:
			kind = ""
		case kind == "fence":
			kind = "int"
		}
		fmt.Fprintf(&b, "-- ARGV[%d] %s %s\n", i+1, a.Name, kind)
	}
	if p.More != "" {
		fmt.Fprintf(&b, "-- ARGV[%d..] more %s\n", len(p.Args)+1, p.More)
	}
	fmt.Fprintf(&b, "-- returns: %s\n", p.Returns)
	for _, rule := range p.Waivers {
		fmt.Fprintf(&b, "-- allow: %s to see what is left\n", rule)
	}
	return b.String()
}

// number returns the number that the program was written with.
func (p *Program) number() int {
	n, _ := strconv.Atoi(strings.TrimPrefix(p.Name, "p"))
	return n
}

// Mistaken reports whether the program was written with a mistake.
func (p *Program) Mistaken() bool {
	return slices.ContainsFunc(p.Features, func(f string) bool { return strings.HasPrefix(f, "bad ") })
}

// waives reports whether the header waives one of the rules.
func (p *Program) waives(rules ...string) bool {
	return slices.ContainsFunc(rules, func(rule string) bool { return slices.Contains(p.Waivers, rule) })
}

// waivers are the rules that let a mistake pass, by the kind of mistake.
var waivers = map[string]string{
	"key": "undeclared-key", "keys": "undeclared-key", "list": "undeclared-key", "channel": "undeclared-channel",
	"name": "dynamic-command", "enum": "dynamic-command", "strange": "unknown-command",
}

// Write returns the program for a seed and a number.
func Write(seed uint64, number int) *Program {
	w := &writer{Rand: rand.New(rand.NewPCG(seed, uint64(number))),
		program: &Program{Name: fmt.Sprintf("p%06d", number)}}
	p := w.program
	if w.chance(60) {
		w.mistake = pick(w, mistakes...)
	}
	p.Mode = pick(w, "write", "write", "write", "read", "read", "read cached")
	switch w.mistake {
	case "cached":
		p.Mode = "read cached"
	case "guard", "fence", "unit":
		p.Mode = "write"
	}
	if p.Mode == "write" {
		p.Guard = pick(w, "", "", "held", "fenced")
	}
	w.line("")
	if w.chance(4) {
		w.note("RESP3 inside")
		w.line("redis.setresp(3)")
	}
	switch p.Guard {
	case "held":
		w.held()
	case "fenced":
		w.fenced()
	default:
		for range 1 + w.IntN(3) {
			w.act()
		}
	}
	w.reply()
	w.finish()
	return p
}

// finish settles what depends on the whole body.
func (w *writer) finish() {
	p := w.program
	p.Body = w.body.String()
	p.Body, p.Keys = prune(p.Body, "KEYS", p.Keys)
	if w.chance(30) && p.Mode != "read cached" && !wholeARGV.MatchString(p.Body) {
		w.skip()
	} else {
		p.Body, p.Args = prune(p.Body, "ARGV", p.Args)
	}
	p.Body = strings.NewReplacer(firstOfRest, fmt.Sprint(len(p.Keys)+1), firstOfMore,
		fmt.Sprint(len(p.Args)+1)).Replace(p.Body)
	if w.chance(10) {
		if p.Cut = 1 + w.Uint64()>>1; len(p.files()) > 1 {
			w.note("fragments")
		}
	}
	if p.Rest == "" {
		for _, f := range slices.Clone(p.Features) {
			if strings.HasPrefix(f, "all keys by ") {
				w.note(f + ", each of them declared")
			}
		}
	}
	if rule := waivers[w.mistake]; rule != "" && w.chance(30) && p.Mistaken() {
		p.Waivers = []string{rule}
		w.note("waiver " + rule)
	}
	slices.Sort(p.Features)
	p.Features = slices.Compact(p.Features)
}

// Texts for the index of the first further key and the first further argument. The index is known
// only when the whole body is known.
const (
	firstOfRest = "@KEYS@"
	firstOfMore = "@ARGV@"
)

// wholeARGV finds uses of ARGV as a whole, which use each of its places.
var wholeARGV = regexp.MustCompile(`ARGV(\)|$|\)\)|, [^@])`)

// skip keeps the unused places of ARGV in the header, under the name unused.
func (w *writer) skip() {
	p := w.program
	for i := range p.Args {
		if !strings.Contains(p.Body, fmt.Sprintf("ARGV[%d]", i+1)) {
			p.Args[i] = Entry{Name: unused}
			w.note("skipped argument")
		}
	}
}

// prune removes the entries of KEYS or ARGV that the body does not use. The generator would refuse
// the program for them.
func prune(body, array string, entries []Entry) (string, []Entry) {
	var used []Entry
	places := make([]string, 0, 2*len(entries))
	for i, e := range entries {
		if place := fmt.Sprintf("%s[%d]", array, i+1); strings.Contains(body, place) {
			used = append(used, e)
			places = append(places, place, fmt.Sprintf("%s[%d]", array, len(used)))
		}
	}
	return strings.NewReplacer(places...).Replace(body), used
}
