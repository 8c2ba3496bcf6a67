// Package audit says what each script is, what it touches, and which rights its user needs. It takes these
// facts from package check, and proves nothing itself.
package audit

import (
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/check"
	"github.com/rlock-go/toolkit/generator/internal/command"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

type Script struct {
	Name     string    `json:"name"`
	File     string    `json:"file"`
	Unproved []string  `json:"not_proved,omitempty"` // what its waivers leave unproved
	Doc      string    `json:"doc"`
	Mode     string    `json:"mode"`
	SHA1     string    `json:"sha1"`
	SHA256   string    `json:"sha256"`
	Keys     []Key     `json:"keys"`
	Args     []Arg     `json:"arguments"`
	Commands []Command `json:"commands"`
	Guard    string    `json:"guard,omitempty"`
	Includes []string  `json:"includes,omitempty"`
	Waivers  []Waiver  `json:"waivers,omitempty"`
	ReadOnly bool      `json:"read_only"` // proved: none of its commands writes
	Cluster  string    `json:"cluster"`
	// Words of ACL SETUSER. ~<name> and &<name> stand for the key and the channel that the caller passes as
	// name.
	ACL      []string `json:"acl"`
	ACLWhole bool     `json:"acl_whole"` // false: the script has waivers, and may need more rights
	Text     string   `json:"text"`

	Rules map[string]int `json:"rules"` // how often the checker asked each rule about the script
}

// Key is one entry of KEYS, and what the script does to the key.
type Key struct {
	Place  string `json:"place"`
	Name   string `json:"name"`
	Access string `json:"access"` // reads, writes or both; empty: no command reads or writes the key
	Doc    string `json:"doc,omitempty"`
}

// Arg is one entry of ARGV.
type Arg struct {
	Place string `json:"place"`
	Name  string `json:"name"`
	Type  string `json:"type"`
	Doc   string `json:"doc,omitempty"`
}

// Command is a command, and how often the script has it.
type Command struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Waiver is a check that the header waives.
type Waiver struct {
	Rule   string `json:"rule"`
	Reason string `json:"reason"`
}

// Of returns the audit of a script without findings, for a client.
func Of(s *script.Script, report check.Report, c Client) Script {
	a := Script{
		Name: s.Name, File: s.Base, Doc: strings.Join(s.Doc, "\n"), Mode: s.Mode.String(),
		Keys: []Key{}, Args: []Arg{}, Commands: []Command{},
		Includes: fragments(s), Unproved: unproved(s), ACLWhole: len(s.Waivers) == 0, Text: s.Source,
		ReadOnly: !s.Mode.Write && !s.Waived("dynamic-command") && !s.Waived("unknown-command"),
	}
	a.SHA1, a.SHA256 = s.SHA1(), s.SHA256()
	for _, p := range s.Keys {
		a.Keys = append(a.Keys, Key{Place: "KEYS" + p.String(), Name: p.Name, Access: access(p, report.Keys),
			Doc: p.Doc})
	}
	for _, p := range s.Args {
		arg := Arg{Place: "ARGV" + p.String(), Name: p.Name, Type: p.Type.String(), Doc: p.Doc}
		if p.Skipped {
			arg.Type = "not used"
		}
		a.Args = append(a.Args, arg)
	}
	for _, name := range slices.Sorted(maps.Keys(report.Commands)) {
		a.Commands = append(a.Commands, Command{Name: strings.ToUpper(name), Count: report.Commands[name]})
	}
	for _, w := range s.Waivers {
		a.Waivers = append(a.Waivers, Waiver{Rule: w.Rule, Reason: w.Reason})
	}
	if s.Guard != nil {
		a.Guard = s.Guard.String()
	}
	a.Cluster = cluster(s, report)
	a.Rules = report.Asked
	a.ACL = acl(s, report, c)
	return a
}

// access says what the script does to an entry. The script uses the index of the entry, or any of KEYS.
func access(p script.Param, used map[int]command.Access) string {
	all := used[0]
	for index, a := range used {
		if index == p.Index || p.Variadic && index > p.Index {
			all |= a
		}
	}
	var words []string
	if all&command.Reads != 0 {
		words = append(words, "reads")
	}
	if all&command.Writes != 0 {
		words = append(words, "writes")
	}
	return strings.Join(words, ", ")
}

// opened says what each waiver leaves unproved.
var opened = map[string]string{
	"dynamic-command":    "which commands it runs, and on which keys and channels",
	"unknown-command":    "what a command that Redis 7.0 does not have does",
	"unknown-option":     "what a command does with options that Redis 7.0 does not have",
	"undeclared-key":     "which keys it uses",
	"undeclared-channel": "which channels it publishes to",
}

func unproved(s *script.Script) []string {
	var open []string
	for _, rule := range script.Rules {
		if s.Waived(rule) {
			open = append(open, opened[rule])
		}
	}
	return open
}

func cluster(s *script.Script, report check.Report) string {
	if s.Waived("dynamic-command") || s.Waived("unknown-command") || s.Waived("unknown-option") ||
		s.Waived("undeclared-key") {
		return "not proved: it may use keys that are not declared"
	}
	safe := "safe: it uses no key but those it declares, which must be in one slot"
	switch {
	case len(s.Keys) == 0:
		safe = "safe: it uses no keys"
	case len(s.Keys) == 1 && !s.Keys[0].Variadic:
		safe = "safe: it uses the one key that it declares"
	}
	if strayShards(s, report.Channels) {
		return "not proved: SPUBLISH needs a channel that the node has, as it needs keys; pass it in KEYS"
	}
	return safe
}

// strayShards reports whether a channel of SPUBLISH does not come from KEYS. A call checks only the slots of
// KEYS.
func strayShards(s *script.Script, channels []check.Channel) bool {
	return slices.ContainsFunc(channels, func(c check.Channel) bool {
		return c.Sharded && !slices.ContainsFunc(s.Keys, func(p script.Param) bool { return p.Name == c.Entry })
	})
}

// acl returns the smallest rule that permits every call of the script from the client. It has the keys and
// channels, the commands that call the script, and the commands in the script.
func acl(s *script.Script, report check.Report, c Client) []string {
	readOnly := c.Replicas && !s.Mode.Write
	var words []string
	for _, p := range s.Keys {
		words = append(words, "~<"+p.Name+">")
	}
	if report.Patterns { // the server cannot tell which keys match a pattern
		words = append(words, "%R~*")
	}
	for _, channel := range report.Channels {
		word := "&<" + channel.Entry + ">"
		if channel.Start {
			word += "*"
		}
		if channel.Entry == "" {
			word = "&" + literal.Replace(channel.Literal)
		}
		if !slices.Contains(words, word) {
			words = append(words, word)
		}
	}
	if c.Caches { // the client sends CLIENT TRACKING when it connects, unless its cache is disabled
		words = append(words, "+client|tracking")
	}
	if readOnly {
		words = append(words, "+eval_ro", "+evalsha_ro")
	} else {
		words = append(words, "+eval", "+evalsha")
	}
	names := maps.Clone(report.Commands)
	if s.Mode.Cached && c.Caches {
		if !readOnly && !s.IsGet() { // otherwise the client sends GET
			words = append(words, "+eval_ro")
		}
		words = append(words, "+multi", "+exec", "+client|caching")
		names["pttl"]++ // the client asks how long it may keep the answer
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		words = append(words, "+"+strings.ReplaceAll(name, " ", "|"))
	}
	return words
}

// literal escapes the special characters in a channel pattern of an ACL. A pattern cannot have a space, so a
// ? stands for the space. The ? permits any byte.
var literal = strings.NewReplacer(`*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `\`, `\\`, ` `, `?`)

// fragments returns the paths of the included files, relative to the script. They do not depend on where the
// generator runs.
func fragments(s *script.Script) []string {
	var paths []string
	for _, included := range s.Includes {
		if relative, err := filepath.Rel(filepath.Dir(s.Path), included); err == nil {
			included = filepath.ToSlash(relative)
		}
		paths = append(paths, included)
	}
	return paths
}
