// Package check holds a script's header against its body.
package check

import (
	"cmp"
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/command"
	"github.com/rlock-go/toolkit/generator/internal/finding"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// Report is what was proved about a script, for an audit.
type Report struct {
	Commands   map[string]int         // how often each command stands in the text, by lower-case name
	Keys       map[int]command.Access // what is done to KEYS[n]; 0 stands for any of KEYS
	Dynamic    int                    // calls of commands that are not literals
	Undeclared bool                   // some key does not come from KEYS
	Channels   []Channel              // what PUBLISH and SPUBLISH are sent to, without repetitions
	Patterns   bool                   // SORT reads keys by a pattern, for which a user must be allowed to read every key
}

// Channel is a channel that a script publishes to: what the caller passes as a
// declared entry, or a literal.
type Channel struct {
	Entry   string // the entry's name; empty: a literal
	Literal string
	Sharded bool // it is one of SPUBLISH, which a cluster keeps in a slot as it does keys
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

// Script returns what was proved about a script that parses, and every finding.
func Script(s *script.Script) (Report, []finding.Finding) {
	c := &checker{script: s, needed: map[string]bool{}, facts: follow(s), report: Report{Commands: map[string]int{}, Keys: map[int]command.Access{}}}
	c.table("KEYS", s.Keys, c.facts.keys)
	c.table("ARGV", s.Args, c.facts.argv)
	c.globals()
	c.syntax()
	c.commands()
	c.returns()
	c.errors()
	c.guard()
	c.waivers()
	slices.SortFunc(c.report.Channels, func(a, b Channel) int {
		return cmp.Or(cmp.Compare(a.Entry, b.Entry), cmp.Compare(a.Literal, b.Literal), compare(a.Sharded, b.Sharded))
	})
	c.report.Channels = slices.Compact(c.report.Channels)
	return c.report, c.findings
}

type checker struct {
	script   *script.Script
	needed   map[string]bool // waivers without which there would be a finding
	facts    *facts
	report   Report
	findings []finding.Finding
}

func (c *checker) findf(pos script.Pos, format string, args ...any) {
	c.findings = append(c.findings, c.script.Findf(pos, format, args...))
}

// table compares the declared entries of KEYS or ARGV with their uses.
func (c *checker) table(name string, declared []script.Param, used uses) {
	variadic := 0 // first index that a variadic entry stands for
	for _, p := range declared {
		if p.Variadic {
			variadic = p.Index
		}
	}
	for _, use := range used.constant {
		if use.index > len(declared) && (variadic == 0 || use.index < variadic) {
			c.findf(use.pos, `%s[%d] is used here but not declared; add "-- %s[%d] name %s  text" to the header`,
				name, use.index, name, use.index, typeHint(name))
		}
		if use.index < 1 {
			c.findf(use.pos, "%s[%d] does not exist; Lua counts from 1", name, use.index)
		}
	}
	if variadic == 0 {
		for _, pos := range used.whole {
			c.findf(pos, `%s is used as a whole or with a computed index, but the header fixes its length; declare the rest with "-- %s[%d..] name %s  text"`,
				name, name, len(declared)+1, typeHint(name))
		}
	}
	if len(used.whole) > 0 {
		return
	}
	for _, p := range declared {
		if p.Skipped {
			if i := slices.IndexFunc(used.constant, func(u constantUse) bool { return u.index == p.Index }); i >= 0 {
				c.findf(used.constant[i].pos, "%s%s is used here, but the header says that it is not; give it a name and a type", name, p)
			}
			continue
		}
		if !used.covers(p) {
			c.findf(p.Pos, "%s%s %s is declared but not used; remove it, or use it", name, p, p.Name)
		}
	}
}

func typeHint(table string) string {
	if table == "KEYS" {
		return "key"
	}
	return "type"
}

// globals refuses what Redis' sandbox refuses when the line is reached.
func (c *checker) globals() {
	for _, use := range c.facts.globalWrites {
		c.findf(use.pos, "%s is assigned as a global, which Redis refuses; write local %s", use.name, use.name)
	}
	for _, use := range c.facts.globalFields {
		c.findf(use.pos, "a field of the global %s is assigned; scripts must leave globals as they are", use.name)
	}
	for _, use := range c.facts.globalReads {
		c.findf(use.pos, "%s is not a global of Redis scripts; declare it local, or mend its spelling", use.name)
	}
	if c.script.Mode.Cached {
		for _, use := range c.facts.random {
			c.findf(use.pos, "%s answers differently each time, which a cache would freeze; use mode: read", use.name)
		}
	}
	for _, use := range c.facts.unsafe {
		c.findf(use.pos, "%s can do what the text does not show, so nothing can be proved about the script; do without it", use.name)
	}
}

// syntax refuses what the parser here takes and Redis' Lua 5.1 does not.
func (c *checker) syntax() {
	for _, m := range c.facts.misuses {
		c.findf(m.pos, "%s", m.message)
	}
}

// errors checks that the declared codes are answered, in a way that keeps them in
// front.
func (c *checker) errors() {
	starts := func(text, code string) bool {
		word, _, _ := strings.Cut(text, " ")
		return word == code
	}
	for _, e := range c.script.Errors {
		if !slices.ContainsFunc(c.facts.texts, func(text string) bool { return starts(text, e.Code) }) {
			c.findf(e.Pos, "errors: no text of the script starts with %s; answer redis.error_reply('%s …'), or remove it", e.Code, e.Code)
		}
		for _, r := range c.facts.raised {
			if slices.ContainsFunc(r.texts, func(text string) bool { return starts(text, e.Code) }) {
				c.findf(r.pos, "the server puts the place in front of a text that is raised, so that %s is not found; return redis.error_reply(…), or raise error({err = …})", e.Code)
			}
		}
	}
}

// waived reports whether the header waives the rule, which is needed here.
func (c *checker) waived(rule string) bool {
	c.needed[rule] = true
	return c.script.Waived(rule)
}

// waivers finds those that waive nothing, so that an audit has no stale reasons.
func (c *checker) waivers() {
	for _, w := range c.script.Waivers {
		if !c.needed[w.Rule] && !(c.script.Mode.Cached && w.Rule == "undeclared-key") {
			c.findf(w.Pos, "allow: %s waives nothing in this script; remove it", w.Rule)
		}
	}
}

// returns compares literal replies with the declared ones.
func (c *checker) returns() {
	declared := c.script.Returns
	nilIsFine := declared.Type.Base == script.RawType || declared.Kind == script.ReturnValue && declared.Type.Optional
	for _, r := range c.facts.returns {
		if r.failure {
			continue
		}
		if r.number && declared.Kind == script.ReturnValue && declared.Type.Base == "float" {
			c.findf(r.pos, "Redis cuts the fraction off a returned number; return a string, as of tostring")
		}
		switch {
		case declared.Type.Base == script.RawType:
		case declared.Type.Kind == script.Struct && !declared.Type.Optional:
			c.fields(r, declared.Type.Fields)
		case declared.Kind == script.ReturnNone:
			if r.values > 0 {
				c.findf(r.pos, "a value is returned, but the header says returns: none")
			}
		default:
			if r.values == 0 && !nilIsFine {
				c.findf(r.pos, "nothing is returned, but the header says returns: %s", declared)
			}
		}
		if r.nilAt.Line > 0 {
			c.findf(r.nilAt, "a nil inside a returned table cuts the reply short; use false, which arrives as nil and keeps its place")
		}
	}
	if declared.Kind != script.ReturnNone && c.facts.fallsThrough && !nilIsFine {
		c.findf(declared.Pos, "the script can end without a return, but the header says returns: %s", declared)
	}
}

func (c *checker) fields(r returned, fields []script.Field) {
	switch {
	case r.table && r.keyed:
		c.findf(r.pos, "the returned table has named fields, which Redis drops; return the values in order: {%s}", names(fields))
	case r.table && r.length != len(fields) && !(r.open && r.length < len(fields)):
		c.findf(r.pos, "the returned table has length %d, but the header declares %d values: {%s}", r.length, len(fields), names(fields))
	case r.values == 0 || r.scalar:
		c.findf(r.pos, "the header declares %d values; return them in a table: {%s}", len(fields), names(fields))
	}
}

func names(fields []script.Field) string {
	var list []string
	for _, f := range fields {
		list = append(list, f.Name)
	}
	return strings.Join(list, ", ")
}
