package analyze

import (
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/command"
)

func (a *analyzer) command(st *state, n ast.Expr, protected bool, args List) Value {
	a.mayRaise(st)
	if args.cut {
		a.misuse(n, "a gap or a nil inside an unpacked list may end it there, so that the command gets only the "+
			"words before it; give each of them a value, as in v or ''")
	}
	args = args.atLeast(fewest(args))
	words := make([]Word, 0, len(args.Items)+1)
	for i, v := range args.Items {
		words = append(words, Word{Value: v, Pos: args.place(i, a.script.Pos(n))})
	}
	if args.Open {
		pos := args.end
		if pos.Line == 0 {
			pos = a.script.Pos(n)
		}
		words = append(words, Word{Value: args.Rest, Open: true, Pairs: args.Pairs, Pos: pos})
	}
	for i, w := range words {
		if w.Bottom() && !w.Open {
			words[i].Value = Of(Unknown{Pos: w.Pos, Why: "it was never learned"})
		}
		if w.Open {
			a.useAll(w.Value)
		}
	}
	c := &Call{Node: n, Pos: a.script.Pos(n), Words: words, Progress: st.progress, Heap: Heap{st.heap},
		context: a.run.env.context.id}
	names, known := c.Names()
	a.record(c)

	if !known || mayWrite(names, words) {
		if !known {
			names = nil
		}
		before := st.progress
		if st.progress = a.advance(before, names, words); st.progress == Stored && protected {
			st.progress = before // the script goes on after the failure
		}
		if st.progress == Wrote && before != Wrote {
			a.facts.Owed = append(a.facts.Owed, Debt{Pos: c.Pos, Stored: before == Stored})
		}
	}
	var v Value
	if !known {
		v = a.data(st, n, Waived, "a command that is not a literal", Value{})
		v = Join(v, a.status(st, n))
	}
	for i, name := range names {
		v = Join(v, a.reply(st, n, i, strings.ToLower(name), words))
	}
	a.mayRaise(st)
	if !protected {
		a.did.raised = true
	}
	if protected {
		v = Join(v, a.alloc(st, n, 2, &Table{Exact: true, Err: true, Fields: errorFields()}))
	}
	return v
}

// fewest returns the least number of words that all possible commands take.
func fewest(args List) int {
	var words []Word
	for _, v := range args.Items {
		words = append(words, Word{Value: v})
	}
	least := 0
	for i, k := range args.at(0).kinds {
		s, _ := k.(Str)
		known, found := command.Lookup(s.S, Subcommand(words))
		if !found {
			return 0
		}
		if n := max(known.Arity, -known.Arity); i == 0 || n < least {
			least = n
		}
	}
	return least
}

// errorFields are the fields of an error that redis.pcall answers. Some servers lack some of them.
func errorFields() map[string]Value {
	return map[string]Value{
		"err": Of(Text{Class: Wording}), "source": Of(Text{Class: Built}, Nil{}),
		"line":                      Of(Text{Class: Built}, Nil{}),
		"ignore_error_stats_update": Of(Bool{V: true}, Nil{}),
	}
}

// rawError is the table that the handler of xpcall gets for the error of a command.
var rawError = &Table{Exact: true, Fields: errorFields()}

// keepError finds a change of the error table that the handler of xpcall gets. The analysis does not follow a
// change of that table.
func (a *analyzer) keepError(n ast.Expr, k Kind, changed string) {
	if raised, ok := k.(Raised); ok && raised.Raw {
		a.misuse(n, "the error that xpcall hands to its handler "+changed+
			", which is not followed; make a table of your own, as in {err = tostring(e.err)}")
	}
}

func (a *analyzer) status(st *state, n ast.Expr) Value {
	return a.alloc(st, n, 3, &Table{Exact: true, Fields: map[string]Value{"ok": Of(Str{S: "OK"})}})
}

// mayWrite reports whether any of the commands changes data.
func mayWrite(names []string, words []Word) bool {
	for _, name := range names {
		known, found := command.Lookup(name, Subcommand(words))
		if !found || known.Flags&command.Write != 0 {
			return true
		}
	}
	return false
}

// Subcommand returns the second word of a command, if it is a constant.
func Subcommand(words []Word) string {
	if len(words) > 1 && !words[1].Open {
		s, _ := words[1].Str()
		return s
	}
	return ""
}

// record notes a call. It joins all times that the script makes the call on one way.
func (a *analyzer) record(c *Call) {
	at := callKey{c.Node, a.run.env.context}
	known := a.calls[at]
	if known == nil {
		a.calls[at] = c
		return
	}
	known.Progress = joinProgress(known.Progress, c.Progress)
	known.Words = joinWords(known.Words, c.Words)
}

func joinWords(v, w []Word) []Word {
	var joined []Word
	for i := range max(len(v), len(w)) {
		switch {
		case i >= len(v) || i >= len(w) || v[i].Open != w[i].Open:
			last := Word{Open: true}
			for _, more := range [][]Word{v[min(i, len(v)):], w[min(i, len(w)):]} {
				for _, each := range more {
					last.Value, last.Pos = Join(last.Value, each.Value), each.Pos
				}
			}
			return append(joined, last)
		}
		word := Word{Value: Join(v[i].Value, w[i].Value), Open: v[i].Open, Pos: v[i].Pos}
		if p, q := v[i].Pairs, w[i].Pairs; p != nil && q != nil {
			word.Pairs = &[2]Value{Join(p[0], q[0]), Join(p[1], q[1])}
		}
		joined = append(joined, word)
	}
	return joined
}
