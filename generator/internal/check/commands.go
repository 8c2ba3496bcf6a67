package check

import (
	"fmt"
	"strings"

	"github.com/yuin/gopher-lua/ast"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/command"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// counted is one command at one place of the text. The report counts it once.
type counted struct {
	node ast.Expr
	name string
}

// commands checks every call of a Redis command that the script makes.
func (c *checker) commands() {
	for _, call := range c.facts.Calls {
		c.ask(ruleDynamic)
		names, known := call.Names()
		if !known {
			c.dynamic(call)
			continue
		}
		for _, name := range names {
			c.command(name, call)
		}
	}
}

// dynamic checks a call whose command is not known.
func (c *checker) dynamic(call *analyze.Call) {
	c.report.Dynamic++
	if c.waived("dynamic-command") {
		return
	}
	if len(call.Words) > 0 && call.Words[0].Found() {
		return
	}
	why := ""
	if len(call.Words) == 0 {
		c.findf(call.Pos, "a command is called without a name; write it out, as in redis.call('GET', KEYS[1])")
		return
	}
	if reason := call.Words[0].Reason(); reason != "" {
		why = " (" + reason + ")"
	}
	c.once(fmt.Sprint("dynamic ", call.Pos), call.Pos,
		`the command is not a literal%s, so nothing can be proved about it; write it out, declare its choices as `+
			`an argument of type enum(a|b), or take responsibility with "-- allow: dynamic-command reason"`, why)
}

func (c *checker) count(call *analyze.Call, name string) {
	if at := (counted{call.Node, name}); !c.counted[at] {
		c.counted[at] = true
		c.report.Commands[name]++
	}
}

func (c *checker) command(name string, call *analyze.Call) {
	c.ask(ruleUnknown)
	subcommand := analyze.Subcommand(call.Words)
	known, found := command.Lookup(name, subcommand)
	if !found {
		c.count(call, strings.ToLower(name))
		c.report.Dynamic++
		if _, container := command.Lookup(name, ""); container {
			name += " " + subcommand
		}
		if !c.waived("unknown-command") {
			c.findf(call.Pos,
				`%q is not a command of Redis 7.0; mend its spelling or, if a newer server or a module has it, take `+
					`responsibility with "-- allow: unknown-command reason"`, name)
		}
		return
	}
	shown := strings.ToUpper(known.Name)
	open := call.Words[len(call.Words)-1].Open
	if known.Flags&command.Container != 0 && (len(call.Words) > 1 || open) {
		c.findf(call.Pos, `which subcommand of %q is called is not known; write it out`, shown)
		return
	}
	c.ask(ruleNoScript)
	if known.Flags&command.NoScript != 0 {
		c.findf(call.Pos, "%q cannot be called from a script; let the caller send it", shown)
		return
	}
	c.ask(ruleArity)
	if !open && !known.Takes(len(call.Words)) {
		c.findf(call.Pos, "%q takes %s, but %d are given here; add or remove some", shown, takes(known),
			len(call.Words)-1)
		return
	}
	c.ask(ruleArgument)
	for _, w := range call.Words {
		if no := unsendable(w); no != "" {
			c.findf(w.Pos, "%s cannot be an argument of a command; send a string or a number", no)
		} else if w.MayBe(func(k analyze.Kind) bool {
			r, ok := k.(analyze.Ref)
			return ok && call.Heap.Table(r).Err
		}) {
			c.findf(w.Pos, "this may send an error of redis.pcall, which is a table; look first "+
				"whether there is one: if type(x) == 'table' and x.err then return x end")
		} else if no := unsent(w, call.Heap); no != "" {
			c.findf(w.Pos, "%s may be sent here, which cannot be an argument of a command; ask first for its type: "+
				"if type(x) == 'string' then …", no)
		}
	}
	if w := endsEarly(known, call.Words); w != nil {
		c.findf(w.Pos,
			`a word of %q has a NUL, and the servers read an option only up to a NUL, so this may be another option `+
				`than it looks; write the option without it, or pass what is data in ARGV`, shown)
		return
	}
	if !c.script.Mode.Write {
		c.ask(RuleReadOnly)
	}
	if known.Flags&command.Write != 0 && !c.script.Mode.Write {
		writes := "writes"
		if known.Effects()&command.Replicates != 0 {
			writes = "counts as a write inside a script, as it may be replicated"
		}
		c.findf(call.Pos, "%q %s, but the header says mode: %s; use mode: write", shown, writes, c.script.Mode)
	}
	if known.Effects()&command.Manages != 0 && !c.script.Mode.Write {
		c.findf(call.Pos, "%q changes the server, but the header says mode: %s; use mode: write", shown,
			c.script.Mode)
	}
	c.count(call, known.Name)
	m := analyze.Match(c.script, known, call.Words)
	if told := c.keysOf(known, shown, call); told {
		c.reaches(known, shown, call, m)
	}
	c.words(known, shown, call, m)
	if known.Name == "publish" || known.Name == "spublish" {
		c.channel(shown, call)
	}
	if c.script.Mode.Cached {
		c.cached(shown, known, call)
	}
}

// unsendable names the kind of a word, if Redis refuses the word in each case.
func unsendable(w analyze.Word) string {
	name := ""
	for _, k := range w.Kinds() {
		switch k.(type) {
		case analyze.Nil, analyze.Absent:
			name = "nil"
		case analyze.Bool, analyze.Missing:
			name = "a boolean"
		case analyze.Ref:
			name = "a table"
		case analyze.Closure, analyze.Command, analyze.Builtin:
			name = "a function"
		default:
			return ""
		}
	}
	if w.Open {
		return ""
	}
	return name
}

// unsent names the kind of a word that may be a function, or a table of the script. A value that cjson or the
// like decoded may be a table too. The checker trusts that it is none.
func unsent(w analyze.Word, heap analyze.Heap) string {
	for _, k := range w.Kinds() {
		switch k := k.(type) {
		case analyze.Ref:
			if t := heap.Table(k); t.Origin == analyze.Made {
				return "a table"
			}
		case analyze.Closure, analyze.Command:
			return "a function"
		case analyze.Builtin:
			if k.Name != "cjson.null" {
				return "a function"
			}
		}
	}
	return ""
}

// channel checks that the channel of a call is declared or a literal.
func (c *checker) channel(shown string, call *analyze.Call) {
	c.ask(ruleChannel)
	if len(call.Words) < 2 {
		return
	}
	w, sharded := call.Words[1], shown == "SPUBLISH"
	for _, k := range w.Kinds() {
		switch k := k.(type) {
		case analyze.Str:
			c.report.Channels = append(c.report.Channels, Channel{Literal: k.S, Sharded: sharded})
			continue
		case analyze.Key:
			if k.Index >= 1 && k.Index <= len(c.script.Keys) {
				p := c.script.Keys[k.Index-1]
				if p.Type.Base == script.KeyType {
					c.findf(w.Pos, "KEYS%s %s is a channel of %q, but the header says key; give it the type channel", p,
						p.Name, shown)
					return
				}
				c.report.Channels = append(c.report.Channels,
					Channel{Entry: p.Name, Start: p.Type.Base == script.ChannelsType, Sharded: sharded})
				continue
			}
		case analyze.Text:
			if k.Start != 0 {
				c.report.Channels = append(c.report.Channels,
					Channel{Entry: c.script.Keys[k.Start-1].Name, Start: true, Sharded: sharded})
				continue
			}
		case analyze.Arg:
			if p := c.entry(k.Index); p != nil && !k.Number {
				if p.Type.Base != script.ChannelType {
					c.findf(w.Pos, "ARGV%s %s is a channel of %q, but the header says %s; give it the type channel", p,
						p.Name, shown, p.Type)
					return
				}
				c.report.Channels = append(c.report.Channels, Channel{Entry: p.Name, Sharded: sharded})
				continue
			}
		case analyze.Nil, analyze.Absent, analyze.Missing, analyze.Bool: // raises an error at run time
			continue
		}
		if !c.waived("undeclared-channel") {
			c.findf(w.Pos,
				`the channel of %q is not declared, so an ACL may refuse it; pass it in ARGV or KEYS with the type `+
					`channel, or pass its prefix in KEYS with the type channels, or take responsibility with `+
					`"-- allow: undeclared-channel reason"`, shown)
		}
		return
	}
}

// entry returns the declared argument of an index.
func (c *checker) entry(index int) *script.Param {
	for i, p := range c.script.Args {
		if p.Index == index || p.Variadic && index > p.Index {
			return &c.script.Args[i]
		}
	}
	return nil
}

// reaches finds commands that use other keys than those in their words.
func (c *checker) reaches(known command.Command, shown string, call *analyze.Call, m *command.Match) {
	if far := known.Name == "move" || known.Name == "copy" &&
		(len(call.Words) > 3 && !isWord(call.Words[3], "REPLACE") || len(call.Words) > 4); far {
		c.ask(ruleKey)
		c.report.Undeclared = true
		if !c.waived("undeclared-key") {
			c.findf(call.Pos,
				`%q reaches another database, in which no key is declared; copy within this one, or take responsibility `+
					`with "-- allow: undeclared-key reason"`, shown)
		}
		return
	}
	far := known.Effects()&command.Sweeps != 0
	if known.Name == "sort" || known.Name == "sort_ro" {
		surely, perhaps := m.Has("BY", "GET")
		far = !m.OK || perhaps && !surely
		for i, places := range m.Places {
			for _, p := range places {
				if p.Option != "BY" && p.Option != "GET" {
					continue
				}
				pattern, constant := call.Words[i+1].Str()
				named := constant && !strings.Contains(pattern, "*")
				c.report.Patterns = c.report.Patterns || !named || p.Option == "GET"
				far = far || !named
			}
		}
	}
	if !far {
		return
	}
	c.ask(ruleKey)
	c.report.Undeclared = true
	if c.waived("undeclared-key") {
		return
	}
	if known.Name == "select" {
		c.findf(call.Pos,
			`"SELECT" goes to another database, in which no key is declared; give it a client of its own, or take `+
				`responsibility with "-- allow: undeclared-key reason"`)
		return
	}
	c.findf(call.Pos,
		`%q reaches keys that are not in KEYS; name them, or take responsibility with `+
			`"-- allow: undeclared-key reason"`, shown)
}

// cached refuses answers that change without a write of the key, because a cache would freeze them. The order
// that SMEMBERS and similar commands answer in may freeze, because no server promises an order.
func (c *checker) cached(shown string, known command.Command, call *analyze.Call) {
	c.ask(ruleCached)
	switch random := known.Flags&command.Random != 0; {
	case known.Name == "ttl", known.Name == "pttl":
		c.findf(call.Pos, "%q changes with time though the key does not, which a cache would freeze; use mode: "+
			"read. The cached call reports the remaining time by itself", shown)
	case known.Effects()&command.Ages != 0:
		c.findf(call.Pos, "%q changes with time or with other clients, and no write of the key tells the "+
			"cache, so the cache would freeze it; use mode: read", shown)
	case known.Name == "touch":
		c.findf(call.Pos, "%q is called to change the key's age, but a call that the cache answers does "+
			"not change it; use mode: read", shown)
	case whole[known.Name] != "":
		c.findf(call.Pos, "%q answers a part of the key and a cursor for the next call, and a cache "+
			"would freeze both; use mode: read, or read all, as with %q", shown, whole[known.Name])
	case random:
		c.findf(call.Pos, "%q answers differently each time, which a cache would freeze; use mode: read", shown)
	case len(known.Keys) == 0:
		c.findf(call.Pos, "%q does not ask about KEYS[1], and a cached script must ask about nothing else; use "+
			"mode: read", shown)
	}
}

// whole names the command that reads a whole key, by the command that reads it in parts.
var whole = map[string]string{"hscan": "HGETALL", "sscan": "SMEMBERS", "zscan": "ZRANGE"}

// keysOf checks that the keys of a call come from KEYS, and notes what the call does to them. It reports
// false if a finding says that the keys are not known.
func (c *checker) keysOf(known command.Command, shown string, call *analyze.Call) bool {
	told := true
	for _, spec := range known.Keys {
		words, unknown := keyWords(spec, call.Words)
		for _, w := range words {
			c.key(shown, spec.Access, w)
		}
		if unknown != nil {
			c.ask(ruleKey)
			c.report.Undeclared = true
			if !c.waived("undeclared-key") {
				told = false
				c.findf(unknown.Pos,
					`it is not known which words of %q are keys; write %s, or take responsibility with `+
						`"-- allow: undeclared-key reason"`, shown, mend(spec))
			}
		}
	}
	return told
}

// mend says how to write a call whose keys the generator can tell.
func mend(spec command.Keys) string {
	if spec.NumKeys {
		return "the number of keys as a number, as in 2, KEYS[1], KEYS[2], or pass nothing but keys behind it"
	}
	return "its options as literals"
}

func (c *checker) key(shown string, access command.Access, w analyze.Word) {
	c.ask(ruleKey)
	foreign := len(w.Kinds()) == 0
	for _, k := range w.Kinds() {
		switch k := k.(type) {
		case analyze.Key:
			if k.Index >= 1 && k.Index <= len(c.script.Keys) && c.script.Keys[k.Index-1].Type.Base != script.KeyType {
				p := c.script.Keys[k.Index-1]
				c.findf(w.Pos, "KEYS%s %s is a key of %q, but the header says %s; give it the type key", p, p.Name, shown,
					p.Type)
			}
			c.report.Keys[k.Index] |= access
		case analyze.Nil, analyze.Absent, analyze.Missing, analyze.Bool: // raises an error at run time
		default:
			foreign = true
		}
	}
	if !foreign {
		return
	}
	c.report.Undeclared = true
	if w.Found() {
		return
	}
	why := ""
	if reason := w.Reason(); reason != "" {
		why = " as far as can be told (" + reason + ")"
	}
	if c.script.Mode.Cached {
		c.findf(w.Pos, "a key of %q does not come from KEYS%s; a cached script must read KEYS[1] and nothing "+
			"else, because nothing tells the cache of other changes", shown, why)
	} else if !c.waived("undeclared-key") {
		c.findf(w.Pos,
			`a key of %q does not come from KEYS%s, so a cluster may not have it, and an ACL may refuse it; pass it `+
				`in KEYS, or take responsibility with "-- allow: undeclared-key reason"`, shown, why)
	}
}

// takes says how many arguments a command takes.
func takes(known command.Command) string {
	n := known.Arity - 1
	atLeast := ""
	if known.Arity < 0 {
		n, atLeast = -known.Arity-1, "at least "
	}
	if n == 1 {
		return atLeast + "1 argument"
	}
	return fmt.Sprintf("%s%d arguments", atLeast, n)
}
