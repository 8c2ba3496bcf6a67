package check

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/command"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// guard checks that a guarded script compares before it writes. The script compares the lock's key with the
// caller's token, or the stored fence with the caller's fence. A fenced script also has to store the fence on
// every way that writes.
func (c *checker) guard() {
	g := c.script.Guard
	if g == nil || c.cut { // the analysis did not follow the whole script, so it proves nothing
		return
	}
	rule := ruleHeld
	if g.Fenced {
		rule = ruleFenced
	}
	c.ask(rule)
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
		c.findf(g.Pos, "guard: the script writes nothing, so there is nothing to guard; remove guard:, and "+
			"write mode: read")
		return
	}
	if !g.Fenced {
		return
	}
	c.stored(g)
}

// stored checks that the first write of a fenced script stores the fence, and that no write takes the fence
// away. After an error between two writes, the data would otherwise accept smaller fences.
func (c *checker) stored(g *script.Guard) {
	if len(c.facts.Owed) == 0 {
		return
	}
	first := slices.MinFunc(c.facts.Owed, func(a, b analyze.Debt) int {
		return cmp.Or(cmp.Compare(a.Pos.Line, b.Pos.Line), cmp.Compare(a.Pos.Column, b.Pos.Column))
	})
	where := fmt.Sprintf("SET KEYS[%d] to ARGV[%d]", g.Key, g.Arg)
	for source := range c.facts.Fences {
		if source.Command == "hget" {
			where = fmt.Sprintf("HSET %q of KEYS[%d] to ARGV[%d]", source.Field, g.Key, g.Arg)
		}
	}
	if first.Stored {
		c.findf(first.Pos, "guard: this can remove the fence that is stored in KEYS[%d], overwrite it or let it "+
			"expire, so an older fence would pass later; write other keys and fields only", g.Key)
		return
	}
	c.findf(first.Pos, "guard: this write does not store the fence ARGV[%d] in KEYS[%d], so after an "+
		"error in a later command an older fence would pass; %s in this command or before it, with "+
		"redis.call, which stops at an error, and with neither a condition nor an expiry",
		g.Arg, g.Key, where)
}

// wanted shows the comparison that a guard needs.
func (c *checker) wanted(g *script.Guard) string {
	if !g.Fenced {
		return fmt.Sprintf("compare GET of KEYS[%d] with ARGV[%d], as in: if redis.call('GET', KEYS[%[1]d]) ~= "+
			"ARGV[%[2]d] then return … end", g.Key, g.Arg)
	}
	if len(c.facts.Fences) > 1 {
		return fmt.Sprintf("compare tonumber(ARGV[%d]) with what one field of KEYS[%d] remembers: here it is "+
			"compared with several", g.Arg, g.Key)
	}
	for source := range c.facts.Fences {
		if source.Chosen {
			return fmt.Sprintf("compare tonumber(ARGV[%d]) with a field of KEYS[%d] whose name is a literal: a "+
				"caller who picks the field picks the fence", g.Arg, g.Key)
		}
	}
	return fmt.Sprintf("compare tonumber(ARGV[%d]) with tonumber() of what GET or HGET reads from KEYS[%d], "+
		"and return where it is smaller", g.Arg, g.Key)
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
