package check

import (
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/command"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// commands checks every call of a Redis command that the script makes.
func (c *checker) commands() {
	for _, call := range c.facts.calls {
		if len(call.names) == 0 {
			c.report.Dynamic++
			if !c.waived("dynamic-command") {
				c.findf(call.pos, `the command is not a literal, so nothing can be proved about it; write it out, or take responsibility with "-- allow: dynamic-command reason"`)
			}
			continue
		}
		for _, name := range call.names {
			c.command(name, call)
		}
	}
}

func (c *checker) command(name string, call call) {
	subcommand := ""
	if len(call.words) > 1 && len(call.words[1].value.texts) == 1 && call.words[1].value.kind == text {
		subcommand = call.words[1].value.texts[0]
	}
	known, found := command.Lookup(name, subcommand)
	if !found {
		c.report.Commands[strings.ToLower(name)]++
		c.report.Dynamic++
		if _, container := command.Lookup(name, ""); container {
			name += " " + subcommand
		}
		if !c.waived("unknown-command") {
			c.findf(call.pos, `%q is not a command of Redis 7.0; mend its spelling or, if a newer server or a module has it, take responsibility with "-- allow: unknown-command reason"`, name)
		}
		return
	}
	shown := strings.ToUpper(known.Name)
	open := len(call.words) > 0 && call.words[len(call.words)-1].open
	if known.Flags&command.NoScript != 0 {
		c.findf(call.pos, "%q cannot be called from a script", shown)
		return
	}
	if !open && !known.Takes(len(call.words)) {
		c.findf(call.pos, "%q takes another number of arguments than the %d given here", shown, len(call.words)-1)
		return
	}
	for _, w := range call.words {
		if no := unsendable(w.expr); no != "" {
			c.findf(w.pos, "%s cannot be an argument of a command; send a string or a number", no)
		}
	}
	if known.Flags&command.Write != 0 && !c.script.Mode.Write {
		writes := "writes"
		if replicated[known.Name] {
			writes = "counts as a write inside a script, as it may be replicated"
		}
		c.findf(call.pos, "%q %s, but the header says mode: %s; use mode: write", shown, writes, c.script.Mode)
	}
	c.report.Commands[known.Name]++
	c.keysOf(known, shown, call)
	c.reaches(known, shown, call)
	if known.Name == "publish" || known.Name == "spublish" {
		c.channel(shown, call)
	}
	if c.script.Mode.Cached {
		c.cached(shown, known, call)
	}
}

// unsendable names what Redis refuses as a word of a command.
func unsendable(e ast.Expr) string {
	switch e.(type) {
	case *ast.NilExpr:
		return "nil"
	case *ast.TrueExpr, *ast.FalseExpr:
		return "a boolean"
	case *ast.TableExpr:
		return "a table"
	case *ast.FunctionExpr:
		return "a function"
	}
	return ""
}

// replicated are commands that change nothing, or nothing that is seen, and are
// passed on to replicas all the same.
var replicated = map[string]bool{"publish": true, "spublish": true, "pfcount": true}

// sweeping are commands that reach keys which nobody names.
var sweeping = map[string]bool{"flushall": true, "flushdb": true, "keys": true, "scan": true, "randomkey": true, "swapdb": true}

// channel checks that the channel of a call is declared or a literal.
func (c *checker) channel(shown string, call call) {
	if len(call.words) < 2 {
		return
	}
	w, sharded := call.words[1], shown == "SPUBLISH"
	switch v := w.value; {
	case v.kind == nothing:
		return
	case v.kind == text:
		for _, literal := range v.texts {
			c.report.Channels = append(c.report.Channels, Channel{Literal: literal, Sharded: sharded})
		}
		return
	case v.kind == key && v.index >= 1 && v.index <= len(c.script.Keys):
		c.report.Channels = append(c.report.Channels, Channel{Entry: c.script.Keys[v.index-1].Name, Sharded: sharded})
		return
	case v.kind == arg && v.index >= 1 && v.index <= len(c.script.Args):
		p := c.script.Args[v.index-1]
		if p.Type.Base != script.ChannelType {
			c.findf(w.pos, "ARGV%s %s is a channel of %q, but the header says %s; give it the type channel", p, p.Name, shown, p.Type)
			return
		}
		c.report.Channels = append(c.report.Channels, Channel{Entry: p.Name, Sharded: sharded})
		return
	case c.waived("undeclared-channel"):
		return
	}
	c.findf(w.pos, `the channel of %q is not declared, so that an ACL may refuse it; pass it in ARGV or KEYS with the type channel, or take responsibility with "-- allow: undeclared-channel reason"`, shown)
}

// reaches finds commands that use keys beside those that they name.
func (c *checker) reaches(known command.Command, shown string, call call) {
	far := sweeping[known.Name]
	if known.Name == "sort" || known.Name == "sort_ro" {
		for i, w := range call.words[:len(call.words)-1] {
			option, isText := w.expr.(*ast.StringExpr)
			if !isText || i == 0 || !strings.EqualFold(option.Value, "BY") && !strings.EqualFold(option.Value, "GET") {
				continue
			}
			pattern, isText := call.words[i+1].expr.(*ast.StringExpr)
			c.report.Patterns = c.report.Patterns || !isText || strings.EqualFold(option.Value, "GET") || strings.Contains(pattern.Value, "*")
			far = far || !isText || strings.Contains(pattern.Value, "*")
		}
	}
	if !far {
		return
	}
	c.report.Undeclared = true
	if !c.waived("undeclared-key") {
		c.findf(call.pos, `%q reaches keys that are not in KEYS; name them, or take responsibility with "-- allow: undeclared-key reason"`, shown)
	}
}

// cached refuses answers that change though the key does not: a cache would
// freeze them.
func (c *checker) cached(shown string, known command.Command, call call) {
	if known.Flags&command.Random != 0 {
		c.findf(call.pos, "%q answers differently each time, which a cache would freeze; use mode: read", shown)
	}
	if len(known.Keys) == 0 && known.Flags&command.Random == 0 {
		c.findf(call.pos, "%q does not ask about KEYS[1], and a cached script must ask about nothing else; use mode: read", shown)
	}
	switch known.Name {
	case "pttl", "ttl", "object idletime", "object freq":
		c.findf(call.pos, "%q changes though the key does not, which a cache would freeze; the cached call reports the remaining time by itself", shown)
	}
}

// keysOf checks that the keys of a call come from KEYS, and notes what is done to
// them.
func (c *checker) keysOf(known command.Command, shown string, call call) {
	for _, spec := range known.Keys {
		for _, w := range keyWords(spec, call.words) {
			switch w.value.kind {
			case nothing: // it stands in a function that is never called
			case key:
				c.report.Keys[w.value.index] |= spec.Access
			default:
				c.report.Undeclared = true
				if c.script.Mode.Cached {
					c.findf(w.pos, "a key of %q does not come from KEYS; a cached script must read KEYS[1] and nothing else, as nobody tells the cache of other changes", shown)
				} else if !c.waived("undeclared-key") {
					c.findf(w.pos, `a key of %q does not come from KEYS, so that a cluster may not have it and an ACL may refuse it; pass it in KEYS, or take responsibility with "-- allow: undeclared-key reason"`, shown)
				}
			}
		}
	}
}

// keyWords returns the words of a call that a specification says are keys.
func keyWords(spec command.Keys, words []word) []word {
	first := spec.First
	if spec.Keyword != "" {
		first = behind(spec, words)
	}
	if first <= 0 || first >= len(words) {
		if n := len(words); first > 0 && words[n-1].open && n > 1 {
			return words[n-1:] // it is among the words that unpack brings
		}
		return nil
	}
	last := first + spec.Last
	switch {
	case spec.NumKeys:
		first, last = counted(first, words)
	case spec.Limit > 1:
		last = first + (len(words)-first)/spec.Limit - 1
		if words[len(words)-1].open {
			last = len(words) - 1
		}
	case spec.Last < 0:
		last = len(words) + spec.Last
	}
	var found []word
	for i := first; i <= last && i < len(words); i += max(spec.Step, 1) {
		found = append(found, words[i])
		if words[i].open {
			break
		}
	}
	return found
}

// behind returns the position of the first key behind the keyword; 0: there is none.
func behind(spec command.Keys, words []word) int {
	for i := max(spec.First, 1); i < len(words); i++ {
		if s, ok := words[i].expr.(*ast.StringExpr); ok && strings.EqualFold(s.Value, spec.Keyword) {
			return i + 1
		}
	}
	return 0
}

// counted returns the first and last key of a call that counts its keys. Where
// the count is not a literal, all words up to the next literal are keys.
func counted(at int, words []word) (first, last int) {
	first = at + 1
	if n := words[at].value; n.kind == number {
		return first, at + n.index
	}
	for last = at; last+1 < len(words); last++ {
		if _, literal := words[last+1].expr.(*ast.StringExpr); literal {
			break
		}
	}
	return first, last
}
