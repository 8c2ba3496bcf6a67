// Package check compares the header of a script with its body, and the scripts of a package with each other.
// It has all rules, and words their findings. It takes the facts about a body from package analyze. It does
// not follow Lua code itself, and it does not know how Go code is written.
package check

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/command"
	"github.com/rlock-go/toolkit/generator/internal/finding"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Report is what the checks proved about a script. The audit prints it.
type Report struct {
	Commands   map[string]int         // how often the text has each command, by lower-case name
	Keys       map[int]command.Access // what the script does to KEYS[n]; 0 stands for any of KEYS
	Dynamic    int                    // calls whose command is not a literal
	Undeclared bool                   // some key does not come from KEYS
	Channels   []Channel              // where PUBLISH and SPUBLISH send messages, without repetitions
	Asked      map[string]int         // how often the checker asked each rule, by its name
	// SORT reads keys by a pattern. Its user needs the right to read every key.
	Patterns bool
}

// Channel is a channel that a script publishes to. It is a declared entry, starts with a declared entry, or
// is a literal.
type Channel struct {
	Entry   string // the name of the entry; empty: a literal
	Start   bool   // channels start with the entry
	Literal string
	Sharded bool // SPUBLISH sends to the channel, so a cluster keeps the channel in a slot
}

// compare orders false before true.
func compare(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}

func newChecker(s *script.Script) *checker {
	return &checker{
		script: s, needed: map[string]bool{}, counted: map[counted]bool{}, said: map[string]bool{},
		report: Report{Commands: map[string]int{}, Keys: map[int]command.Access{}, Asked: map[string]int{}},
		facts:  analyze.Analyze(s),
	}
}

// ofBody are the rules that need no header.
var ofBody = []string{ruleGlobals, ruleLua, ruleCalled, ruleNoScript, ruleArity, ruleArgument, ruleTests}

// Body returns the findings that do not depend on the header. The body of the script parses, and its header
// does not.
func Body(s *script.Script) []finding.Finding {
	c := newChecker(s)
	if c.facts.Overrun != nil {
		return nil
	}
	c.globals()
	c.misuses()
	c.unknown()
	c.commands()
	c.tests()
	return slices.DeleteFunc(c.findings,
		func(f finding.Finding) bool { return !slices.Contains(ofBody, f.Rule) })
}

// Script returns what the checks proved about a script, and every finding. The script has to parse.
func Script(s *script.Script) (Report, []finding.Finding) {
	c := newChecker(s)
	if over := c.facts.Overrun; over != nil {
		c.misuses()
		c.ask(ruleLimits)
		c.findf(over.Pos, "%s", over.Message)
		return c.report, c.findings
	}
	c.cut = c.broken()
	c.table("KEYS", s.Keys, c.facts.Keys)
	c.table("ARGV", s.Args, c.facts.Args)
	c.globals()
	c.misuses()
	c.unknown()
	c.commands()
	c.tests()
	c.returns()
	c.errors()
	c.guard()
	c.waivers()
	c.unused("KEYS", s.Keys, c.facts.Keys)
	c.unused("ARGV", s.Args, c.facts.Args)
	c.unreached()
	slices.SortFunc(c.report.Channels, func(a, b Channel) int {
		return cmp.Or(cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Literal, b.Literal),
			compare(a.Sharded, b.Sharded))
	})
	c.report.Channels = slices.Compact(c.report.Channels)
	return c.report, c.findings
}

type checker struct {
	script   *script.Script
	needed   map[string]bool // waivers that suppress a finding, whether the header has them or not
	facts    *analyze.Facts
	report   Report
	rule     string // the rule that the checker asked last
	counted  map[counted]bool
	cut      bool            // see broken
	said     map[string]bool // causes that have a finding already
	findings []finding.Finding
}

func (c *checker) findf(pos script.Pos, format string, args ...any) {
	f := c.script.Findf(pos, format, args...)
	f.Rule = c.rule
	c.findings = append(c.findings, f)
}

// once reports a cause at the first of its places only.
func (c *checker) once(cause string, pos script.Pos, format string, args ...any) {
	if !c.said[cause] {
		c.said[cause] = true
		c.findf(pos, format, args...)
	}
}

// table compares the declared entries of KEYS or ARGV with their uses.
func (c *checker) table(name string, declared []script.Param, used analyze.Uses) {
	variadic := 0 // the first index that the variadic entry stands for
	for _, p := range declared {
		if p.Variadic {
			variadic = p.Index
		}
	}
	slices.SortFunc(used.Constant, func(a, b analyze.Index) int {
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column),
			cmp.Compare(a.Index, b.Index))
	})
	for _, use := range used.Constant {
		c.ask(ruleEntries)
		cause := name + script.Param{Index: use.Index}.String()
		if use.Index > len(declared) && (variadic == 0 || use.Index < variadic) {
			c.once(cause, use.Pos, `%s[%d] is used here but not declared; add "-- %s[%d] name %s  text" to the header`,
				name, use.Index, name, use.Index, typeHint(name))
		}
		if use.Index < 1 {
			c.once(cause, use.Pos, "%s[%d] does not exist; Lua counts from 1", name, use.Index)
		}
	}
	if variadic == 0 {
		for _, pos := range used.Computed {
			c.ask(ruleEntries)
			c.once(name, pos,
				`%s is used with an index that is not known here, but the header fixes its length; write the index as a `+
					`number, walk through it with ipairs(%[1]s), or declare the rest with "-- %[1]s[%d..] name %s  text"`,
				name, len(declared)+1, typeHint(name))
		}
	}
}

// unused finds declared entries that nothing reads, and skipped entries that the script reads. If the
// analysis did not follow the whole script, the rest may compute an index and read the entry. There is then
// a finding only if the text uses constant indices alone.
func (c *checker) unused(name string, declared []script.Param, used analyze.Uses) {
	for _, p := range declared {
		c.ask(ruleUnused)
		if p.Skipped {
			if i := slices.IndexFunc(used.Constant, func(u analyze.Index) bool { return u.Index == p.Index }); i >= 0 {
				c.findf(used.Constant[i].Pos,
					"%s%s is used here, but the header says that it is not; give it a name and a type", name, p)
			} else if len(used.Whole) > 0 {
				c.findf(used.Whole[0], "%s is used as a whole here, and %[1]s%s with it, but the header says that this "+
					"place is not used; give it a name and a type, or leave it out, as unpack(%[1]s, 2) does", name, p)
			}
			continue
		}
		if (!c.cut || used.Named) && !used.All && len(used.Computed) == 0 && !covers(used, p) {
			c.findf(p.Pos, "%s%s %s is declared but not used; remove it, or use it", name, p, p.Name)
		}
	}
}

// unreached finds calls in the text that the analysis never reached, so nothing is proved of them. A finding
// of the rule tests already says why the analysis does not reach a call.
func (c *checker) unreached() {
	c.ask(ruleReached)
	if c.cut || slices.ContainsFunc(c.findings, func(f finding.Finding) bool { return f.Rule == ruleTests }) {
		return
	}
	for _, pos := range c.facts.Unreached {
		c.findf(pos, "this may be a call of a command, but the generator sees no way to it, "+
			"so nothing is proved of it; leave it out, or write the way to it more plainly")
	}
}

// covers reports whether some use reads the declared entry.
func covers(used analyze.Uses, p script.Param) bool {
	for index := range used.Text {
		if index == p.Index || p.Variadic && index > p.Index {
			return true
		}
	}
	return slices.ContainsFunc(used.Constant, func(use analyze.Index) bool {
		return use.Index == p.Index || p.Variadic && use.Index > p.Index
	})
}

// broken reports whether the analysis missed a part of the script, or misunderstood it. A finding then says
// why.
func (c *checker) broken() bool {
	f := c.facts
	return len(f.Misuses) > 0 || len(f.Reads) > 0 || len(f.Writes) > 0 || len(f.Unsafe) > 0 || len(f.Unknown) > 0
}

func typeHint(table string) string {
	if table == "KEYS" {
		return "key"
	}
	return "type"
}

// globals refuses globals that the sandbox of Redis refuses at run time, and functions that run hidden code.
func (c *checker) globals() {
	c.ask(ruleGlobals)
	for _, use := range c.facts.Writes {
		c.once("write "+use.Name, use.Pos, "%s is assigned as a global, which Redis refuses; write local %s",
			use.Name, use.Name)
	}
	for _, use := range c.facts.Stores {
		if use.Name == "KEYS" {
			if len(c.script.Keys) == 0 || c.script.Keys[0].Variadic && use.Order {
				continue // a caller of variadic KEYS gives them no names, so their order does not matter
			}
			c.once("KEYS changed", use.Pos,
				"KEYS is changed, so its entries may differ from the keys that the caller names; keep "+
					"other values in a local table")
			continue
		}
		c.findf(use.Pos, "a field of the global %s is assigned; scripts must leave globals as they are", use.Name)
	}
	for _, use := range c.facts.Reads {
		if c.said["write "+use.Name] {
			continue
		}
		if use.Name == "server" {
			c.once("read server", use.Pos,
				"server is what Valkey also calls redis, and Redis does not have it; write redis")
			continue
		}
		c.once("read "+use.Name, use.Pos,
			"%s is not a global of Redis scripts; declare it local, or mend its spelling", use.Name)
	}
	if c.script.Mode.Cached {
		c.ask(ruleCached)
		for _, use := range c.facts.Random {
			c.findf(use.Pos, "%s answers differently each time, which a cache would freeze; use mode: read", use.Name)
		}
	}
	c.ask(ruleGlobals)
	for _, use := range c.facts.Unsafe {
		c.findf(use.Pos, "%s can do what the text does not show, so nothing can be proved about the script; do "+
			"without it", use.Name)
	}
}

// misuses refuses what the parser accepts and Lua 5.1 in Redis refuses. It also refuses what raises an error
// whenever the script reaches it.
func (c *checker) misuses() {
	c.ask(ruleLua)
	for _, m := range c.facts.Misuses {
		c.findf(m.Pos, "%s", m.Message)
	}
}

// unknown refuses calls of unknown functions, because each may be redis.call.
func (c *checker) unknown() {
	c.ask(ruleCalled)
	for _, u := range c.facts.Unknown {
		c.findf(u.Pos, "the function that is called here is not known (%s), so it may be anything; call "+
			"a function of the script or of Redis by its name", u.Why)
	}
}

// reserved are the codes that clients act on. A client sends the script again, or sends it to another node.
var reserved = []string{"NOSCRIPT", "MOVED", "ASK", "TRYAGAIN", "CLUSTERDOWN", "LOADING"}

// errors checks that the script replies the declared codes, each as the first word.
func (c *checker) errors() {
	c.ask(ruleErrors)
	for _, made := range inOrder(c.facts.Errors) {
		for _, code := range reserved {
			if c.facts.Errors[made].Starts(code) {
				c.findf(made, "a client takes %s for an answer of the server, and sends the script again, though it has "+
					"run; reply another code", code)
			}
		}
	}
	for _, e := range c.script.Errors {
		c.ask(ruleErrors)
		replied := slices.ContainsFunc(c.facts.Returns,
			func(r *analyze.Return) bool { return r.Heap.Replies(r.Values.At(0), e.Code) })
		for _, r := range c.facts.Raised {
			replied = replied || r.Heap.Replies(r.Value, e.Code)
			if r.Starts(e.Code) {
				replied = true
				c.findf(r.Pos, "the server puts the line in front of a raised text, so %s is not found; "+
					"return redis.error_reply(…), or raise error({err = …})", e.Code)
			}
		}
		if replied {
			continue
		}
		pos, why := e.Pos,
			fmt.Sprintf("no error that the script returns or raises starts with it; write return "+
				"redis.error_reply('%s …'), or remove it", e.Code)
		for _, made := range inOrder(c.facts.Errors) {
			if c.facts.Errors[made].Starts(e.Code) {
				pos, why = made,
					"this error is made, but the script neither returns nor raises it; write return in front of it"
				break
			}
		}
		c.findf(pos, "%s is never replied: %s", e.Code, why)
	}
}

// waived reports whether the header waives the rule. It also notes that the script needs the waiver.
func (c *checker) waived(rule string) bool {
	c.needed[rule] = true
	return c.script.Waived(rule)
}

// waivers finds waivers that waive nothing, because their reasons in an audit are stale.
func (c *checker) waivers() {
	for _, w := range c.script.Waivers {
		c.ask(ruleWaivers)
		if !c.needed[w.Rule] && !(c.script.Mode.Cached && w.Rule == "undeclared-key") {
			c.findf(w.Pos, "allow: %s waives nothing in this script; remove it", w.Rule)
		}
	}
}
