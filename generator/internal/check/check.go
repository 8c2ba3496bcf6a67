// Package check holds a script's header against its body.
package check

import (
	"fmt"
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
}

// Script returns what was proved about a script that parses, and every finding.
func Script(s *script.Script) (Report, []finding.Finding) {
	c := &checker{script: s, facts: follow(s), report: Report{Commands: map[string]int{}, Keys: map[int]command.Access{}}}
	c.table("KEYS", s.Keys, c.facts.keys)
	c.table("ARGV", s.Args, c.facts.argv)
	c.globals()
	c.syntax()
	c.commands()
	c.returns()
	c.guard()
	return c.report, c.findings
}

type checker struct {
	script   *script.Script
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
				name, name, max(1, len(declared)), typeHint(name))
		}
	}
	if len(used.whole) > 0 {
		return
	}
	for _, p := range declared {
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
	for _, use := range c.facts.unsafe {
		c.findf(use.pos, "%s can do what the text does not show, so nothing can be proved about the script; do without it", use.name)
	}
}

// syntax refuses what the parser here takes and Redis' Lua 5.1 does not.
func (c *checker) syntax() {
	for _, pos := range c.facts.gotos {
		c.findf(pos, "goto and labels are not Lua 5.1, which Redis runs; use a loop or an if")
	}
	for _, pos := range c.facts.strayBreaks {
		c.findf(pos, "break stands outside a loop")
	}
}

// returns compares literal replies with the declared ones.
func (c *checker) returns() {
	declared := c.script.Returns
	for _, r := range c.facts.returns {
		switch declared.Kind {
		case script.ReturnFields:
			c.fields(r, declared.Fields)
		case script.ReturnNone:
			if r.values > 0 {
				c.findf(r.pos, "a value is returned, but the header says returns: none")
			}
		default:
			if r.values == 0 {
				c.findf(r.pos, "nothing is returned, but the header says returns: %s", describe(declared))
			}
		}
		if r.nilAt.Line > 0 {
			c.findf(r.nilAt, "a nil inside a returned table cuts the reply short; use false, which arrives as nil and keeps its place")
		}
	}
	if declared.Kind != script.ReturnNone && c.facts.fallsThrough {
		c.findf(declared.Pos, "the script can end without a return, but the header says returns: %s", describe(declared))
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

func describe(r script.Returns) string {
	switch r.Kind {
	case script.ReturnNone:
		return "none"
	case script.ReturnOK:
		return "ok"
	case script.ReturnValue:
		return r.Fields[0].Type.String()
	}
	var list []string
	for _, f := range r.Fields {
		list = append(list, fmt.Sprintf("%s %s", f.Name, f.Type))
	}
	return strings.Join(list, ", ")
}
