// Package analyze follows a Redis script, and tells what the script does. It is an abstract interpreter of
// Lua: a Value is the set of kinds that a Lua value may be. Unknown is the top of the lattice, and has the
// place where the knowledge was lost. The package judges nothing. Package check finds each Unknown that
// reaches a key, a command, a called function, a guard or a reply.
//
// The analysis follows a function at each of its calls, with the arguments of the call. Knowledge changes
// from statement to statement, and conditions narrow it. The analysis follows a loop or a recursive function
// until a pass teaches nothing new. If that takes too long, the script has a finding.
package analyze

import (
	"fmt"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

const (
	mostSteps  = 30_000 // expressions in one script; the largest script of this module takes 612
	mostPasses = 60     // passes through one loop or one recursive function
	mostDepth  = 100    // calls within calls; expressions within expressions may be four times as deep
)

type analyzer struct {
	interned
	script *script.Script
	names  *names
	facts  *Facts
	run    *run
	steps  int
	line   int // the line of the last step
	depth  int

	reach     reach
	calls     map[callKey]*Call
	tests     map[ast.Expr]*Test
	looks     map[ast.Expr]*Test  // reads of fields and elements of replies
	fragile   map[ast.Expr]bool   // fields of replies that may be false
	named     map[*variable]*site // the table whose names a local has, each in turn
	callees   map[ast.Expr]Value
	unknown   map[Unknown]bool
	metas     map[*site]bool // tables that are metatables of others
	pcalls    map[callKey]int
	pcallWays []*context // of each pcall, by its number
	caught    []*caught
	did       effects           // the effects of the part that the analysis is following
	eventful  map[ast.Expr]bool // fields that a function of a metatable gave
	unrolled  int               // how often the script runs the body of the innermost unrolled loop

	keys, args Value  // KEYS and ARGV
	source     Source // where the fence comes from
}

// effects are what a part of the script did, apart from its value.
type effects struct {
	answered bool // a pcall has answered
	eventful bool // a metatable called a function
	raised   bool // the script raised an error, or called a command that may raise one
}

// during returns the effects of what follow does.
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
	caller    *state // at the call; its locals are alive
	args      List
	varargs   List
	result    *List
	live      *List  // joined over the returns whose first value may be present
	exit      *state // joined over all returns
	loops     []*state
	recursive bool
	again     *recursion
}

// recursion is the knowledge about a function that calls itself.
type recursion struct {
	args    *List
	entry   *state
	result  *List
	exit    *state
	used    bool
	changed bool // a call taught something new
}

// caught joins the states in which a pcall may catch an error.
type caught struct {
	state  *state
	thrown Value // values other than texts that the script raises
}

// overrun ends the analysis.
type overrun struct{ misuse Misuse }

// Analyze follows a script. The script has to parse.
func Analyze(s *script.Script) *Facts {
	facts := analyze(s, Source{})
	if len(facts.Fences) == 1 && facts.Overrun == nil {
		for source := range facts.Fences { // the second pass knows where the fence is stored
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
	facts = f // the caller gets the facts even if the analysis stops early
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

// step counts the work and bounds it.
func (a *analyzer) step(at int) {
	a.line = at
	if a.steps++; a.steps > mostSteps {
		a.stop(at, "the script is too large to follow, because too many calls and loops are inside of "+
			"others; call a helper from fewer places, or split the script")
	}
}

func (a *analyzer) stop(line int, message string) {
	panic(overrun{Misuse{Message: message, Pos: a.script.Tokens.Line(line)}})
}

// lost returns the top of the lattice for knowledge that is lost at e.
func (a *analyzer) lost(e ast.Expr, why string) Value {
	return Of(Unknown{Pos: a.script.Pos(e), Why: why})
}

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
