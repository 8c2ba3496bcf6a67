package check

import (
	"fmt"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/command"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// guard checks that a guarded script writes nothing before it has compared the lock's
// key with the caller's token, or the remembered fence with the caller's; and that it
// stores the fence on every way on which it writes.
func (c *checker) guard() {
	g := c.script.Guard
	if g == nil || len(c.findings) > 0 { // what is not whole cannot be proved
		return
	}
	checked := false
	for _, call := range c.facts.Calls {
		if !writesData(call) {
			continue
		}
		checked = true
		if call.Progress == analyze.Unchecked {
			c.findf(call.Pos, "this can write before the guard has been checked; first %s", c.wanted(g))
			return
		}
	}
	if !checked {
		c.findf(g.Pos, "guard: the script never checks it; before the first write, %s", c.wanted(g))
		return
	}
	if !g.Fenced {
		return
	}
	for _, r := range c.facts.Returns {
		if r.Progress == analyze.Wrote {
			c.stored(g, r.Owed)
			return
		}
	}
	if end := c.facts.EndReached; end != nil && end.Progress == analyze.Wrote {
		c.stored(g, end.Owed)
	}
}

// stored finds a write on a way from which the fence is not stored.
func (c *checker) stored(g *script.Guard, pos script.Pos) {
	where := fmt.Sprintf("SET KEYS[%d] to ARGV[%d]", g.Key, g.Arg)
	for source := range c.facts.Fences {
		if source.Command == "hget" {
			where = fmt.Sprintf("HSET KEYS[%d] %q to ARGV[%d]", g.Key, source.Field, g.Arg)
		}
	}
	c.findf(pos, "guard: the fence ARGV[%d] is not stored in KEYS[%d] on every way that comes from this write, or this removes it, overwrites it or lets it expire, so that an older fence would pass later; %s, on every way",
		g.Arg, g.Key, where)
}

// wanted shows the check that a guard asks for.
func (c *checker) wanted(g *script.Guard) string {
	if !g.Fenced {
		return fmt.Sprintf("compare GET of KEYS[%d] with ARGV[%d], as in: if redis.call('GET', KEYS[%[1]d]) ~= ARGV[%[2]d] then return … end", g.Key, g.Arg)
	}
	if len(c.facts.Fences) > 1 {
		return fmt.Sprintf("compare tonumber(ARGV[%d]) with what one field of KEYS[%d] remembers: here it is compared with several", g.Arg, g.Key)
	}
	for source := range c.facts.Fences {
		if source.Chosen {
			return fmt.Sprintf("compare tonumber(ARGV[%d]) with a field of KEYS[%d] whose name is a literal: a caller who picks the field picks the fence", g.Arg, g.Key)
		}
	}
	return fmt.Sprintf("compare tonumber(ARGV[%d]) with tonumber() of what GET or HGET reads from KEYS[%d], and return where it is smaller", g.Arg, g.Key)
}

func writesData(call *analyze.Call) bool {
	names, known := call.Names()
	if !known {
		return true
	}
	for _, name := range names {
		found, ok := command.Lookup(strings.ToLower(name), analyze.Subcommand(call.Words))
		if !ok || found.Flags&command.Write != 0 {
			return true
		}
	}
	return false
}
