package check

import (
	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/command"
)

// commands checks every call of a Redis command that the script makes.
func (c *checker) commands() {
	for _, call := range c.facts.calls {
		c.command(call)
	}
}

func (c *checker) command(call call) {
	if call.name == "" {
		if !c.script.Waived("dynamic-command") {
			c.findf(call.pos, `the command is not a literal, so nothing can be proved about it; write it out, or take responsibility with "-- allow: dynamic-command reason"`)
		}
		return
	}
	subcommand := ""
	if len(call.args) > 1 {
		if s, ok := call.args[1].(*ast.StringExpr); ok {
			subcommand = s.Value
		}
	}
	known, found := command.Lookup(call.name, subcommand)
	switch {
	case !found:
		c.findf(call.pos, "%q is not a Redis command; mend its spelling", call.name)
		return
	case known.Flags&command.NoScript != 0:
		c.findf(call.pos, "%q cannot be called from a script", call.name)
	case !call.open && !known.Takes(len(call.args)):
		c.findf(call.pos, "%q takes another number of arguments than the %d given here", call.name, len(call.args)-1)
	}
	if known.Flags&command.Write != 0 && !c.script.Mode.Write {
		c.findf(call.pos, "%q writes, but the header says mode: %s; use mode: write", call.name, c.script.Mode)
	}
	if c.script.Mode.Cached {
		c.cached(call, known)
	}
}

// cached refuses answers that change though the key does not: a cache would
// freeze them.
func (c *checker) cached(call call, known command.Command) {
	if known.Flags&command.Random != 0 {
		c.findf(call.pos, "%q answers differently each time, which a cache would freeze; use mode: read", call.name)
	}
	switch known.Name {
	case "pttl", "ttl", "object idletime", "object freq":
		c.findf(call.pos, "%q changes though the key does not, which a cache would freeze; the cached call reports the remaining time by itself", call.name)
	}
}
