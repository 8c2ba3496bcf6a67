// Package analyze follows a Redis script and tells what it does: an abstract
// interpreter over the Lua tree. Its lattice has for every value the set of kinds of
// things that it may be; its top is Unknown, which carries the place where the
// knowledge was lost. Nothing is taken for good that is not known: the rules, in
// package check, find every Unknown that reaches a key, a command, a called function,
// a guard or a reply.
//
// A function is followed at each of its calls, with the arguments of that call. What is
// known changes from statement to statement, and conditions narrow it. Loops, and
// functions that call themselves, are followed until nothing new is learned; a script
// for which that takes too long has a finding.
package analyze

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

const (
	mostSteps  = 30_000 // expressions followed in one script; the largest script of this module takes 612
	mostPasses = 60     // through one loop, or one function that calls itself
	mostDepth  = 100    // calls within calls, and expressions within expressions are a quarter of it
)

type analyzer struct {
	interned
	script *script.Script
	names  *names
	facts  *Facts
	run    *run
	steps  int
	line   int // of the last of them
	depth  int

	reach     reach
	calls     map[callKey]*Call
	tests     map[ast.Expr]*Test
	looks     map[ast.Expr]*Test  // into replies
	fragile   map[ast.Expr]bool   // fields of replies that may be false
	named     map[*variable]*site // tables of which a local has each name in turn
	callees   map[ast.Expr]Value
	unknown   map[Unknown]bool
	metas     map[*site]bool // tables that are metatables of others
	pcalls    map[callKey]int
	pcallWays []*context // of each pcall, by its number
	caught    []*caught
	did       effects           // of what is being followed
	eventful  map[ast.Expr]bool // fields for which such a function was followed
	unrolled  int               // how often the innermost unrolled loop's body is followed

	keys, args Value  // KEYS and ARGV
	source     Source // of a fence
}

// effects are what following a part of the script did, beside the value that it has.
type effects struct {
	answered bool // a pcall has answered
	eventful bool // a function of a metatable was called
	raised   bool // the script raised an error, or called a command that may
}

// during returns the effects of what is followed in a function.
func (a *analyzer) during(follow func()) effects {
	before := a.did
	a.did = effects{}
	follow()
	did := a.did
	a.did = effects{
		answered: before.answered || did.answered,
		eventful: before.eventful || did.eventful,
		raised:   before.raised || did.raised,
	}
	return did
}

type callKey struct {
	node    ast.Expr
	context *context
}

// run is one run of a function.
type run struct {
	fn        *function
	env       *env
	outer     *run
	caller    *state // as of the call; its locals are alive
	args      List
	varargs   List
	result    *List
	live      *List  // joined over the returns of which the first value may be there
	exit      *state // joined over all returns
	loops     []*state
	recursive bool
	again     *recursion
}

// recursion is what is known of the calls of a function by itself.
type recursion struct {
	args    *List
	entry   *state
	result  *List
	exit    *state
	used    bool
	changed bool // a call has brought something new
}

// caught joins the states from which an error may be raised within a pcall.
type caught struct {
	state  *state
	thrown Value // tables and the like that the script raises
}

// overrun ends the analysis.
type overrun struct{ misuse Misuse }

// Analyze follows a script that parses.
func Analyze(s *script.Script) *Facts {
	facts := analyze(s, Source{})
	if len(facts.Fences) == 1 && facts.Overrun == nil {
		for source := range facts.Fences { // what is stored where is told in a second go
			if !source.Chosen {
				facts = analyze(s, source)
			}
		}
	}
	return facts
}

func analyze(s *script.Script, fence Source) (facts *Facts) {
	a := &analyzer{
		interned: interned{contexts: map[contextKey]*context{}, envs: map[envKey]*env{},
			sites: map[siteKey]*site{}},
		script: s, names: resolve(s),
		facts: &Facts{
			Needed: map[script.Pos]int{}, Compared: map[int]bool{}, Fences: map[Source]bool{},
			Errors: map[script.Pos]Value{},
		}, source: fence,
		reach: newReach(), calls: map[callKey]*Call{}, tests: map[ast.Expr]*Test{},
		looks: map[ast.Expr]*Test{}, fragile: map[ast.Expr]bool{}, named: map[*variable]*site{},
		callees: map[ast.Expr]Value{}, eventful: map[ast.Expr]bool{}, unknown: map[Unknown]bool{},
		metas: map[*site]bool{}, pcalls: map[callKey]int{}, unrolled: 1,
	}
	n := a.names
	f := a.facts
	facts = f // also where the analysis does not come to its end
	f.Keys.Text, f.Args.Text = n.mentions["KEYS"], n.mentions["ARGV"]
	f.Keys.Named, f.Args.Named = n.others["KEYS"] == 0, n.others["ARGV"] == 0
	f.Misuses, f.Reads, f.Writes, f.Unsafe = n.misuses, n.reads, n.writes, n.unsafe
	defer func() {
		switch r := recover().(type) {
		case nil:
		case overrun:
			f.Overrun = &r.misuse
		default:
			f.Overrun = &Misuse{fmt.Sprintf("the generator cannot follow this script, which is a fault of the "+
				"generator: please report it with the script (%v); until it is mended, write what stands here in "+
				"another way", r), s.Tokens.Line(max(a.line, 1))}
		}
	}()
	a.follow()
	a.finish()
	return f
}

func (a *analyzer) follow() {
	main := a.names.main
	st := &state{frame: make([]Value, main.slots), cells: map[cell]held{}, heap: map[*site]*Table{},
		lengths: map[count]int{}, protocol: resp2}
	root := a.interned.context(nil, nil)
	a.run = &run{fn: main, env: a.interned.env(main, root, nil)}
	st.run = a.run
	a.keys = a.global(st, "KEYS", a.keysTable())
	a.args = a.global(st, "ARGV", a.argsTable())
	if end := a.block(st, main.stmts); end != nil {
		a.facts.EndReached = &Return{Progress: end.progress, Heap: Heap{end.heap}}
	}
}

func (a *analyzer) global(st *state, name string, t *Table) Value {
	at := a.site(name, a.run.env.context, 0)
	st.heap[at] = t
	return Of(Ref{at})
}

func (a *analyzer) keysTable() *Table {
	t := &Table{Origin: Keys, Exact: true, sent: true}
	for _, p := range a.script.Keys {
		if p.Variadic {
			t.Exact, t.Rest, t.Names = false, Of(Key{}), anyIndex
			continue
		}
		t.Items = append(t.Items, Of(Key{p.Index}))
	}
	return t
}

func (a *analyzer) argsTable() *Table {
	t := &Table{Origin: Args, Exact: true, sent: true}
	for _, p := range a.script.Args {
		v := Of(Arg{Index: p.Index})
		if p.Type.Base == script.EnumType && len(p.Type.Values) <= mostStrings {
			v = Value{}
			for _, text := range p.Type.Values {
				v = Join(v, Of(Str{S: text}))
			}
		}
		if p.Type.Optional {
			v = Join(v, Of(Empty{p.Index}))
		}
		if p.Variadic {
			t.Exact, t.Rest, t.Names = false, v, anyIndex
			continue
		}
		t.Items = append(t.Items, v)
	}
	return t
}

// step bounds the work, whatever the script is.
func (a *analyzer) step(at int) {
	a.line = at
	if a.steps++; a.steps > mostSteps {
		a.stop(at, "the script is too much to follow: its calls and loops, each within another, are too many; "+
			"call a helper from fewer places, or split the script")
	}
}

func (a *analyzer) stop(line int, message string) {
	panic(overrun{Misuse{Message: message, Pos: a.script.Tokens.Line(line)}})
}

// lost returns the top of the lattice, for knowledge that is lost at e.
func (a *analyzer) lost(e ast.Expr, why string) Value {
	return Of(Unknown{Pos: a.script.Pos(e), Why: why})
}

// declared returns the type of an argument.
func (a *analyzer) declared(index int) (script.Type, bool) { return ArgType(a.script, index) }

// ArgType returns the declared type of ARGV[index].
func ArgType(s *script.Script, index int) (script.Type, bool) {
	for _, p := range s.Args {
		if p.Index == index || p.Variadic && index >= p.Index {
			return p.Type, true
		}
	}
	return script.Type{}, false
}
