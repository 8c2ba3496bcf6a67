package script

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/rlock-go/toolkit/generator/internal/finding"
)

// header fills a Script from the comment lines at the start of the file.
type header struct {
	script   *Script
	findings []finding.Finding
	seen     map[string]bool // directives that the header has
	meant    map[string]bool // directives that a line with a finding looks like
	fields   []*Field        // fields of the reply that wait for a text; nil outside of returns:
	field    *Field          // the field that got the last text
	doc      *string         // the text that an indented line continues; nil outside of an entry
}

var (
	directive = regexp.MustCompile(`^(name|mode|returns|errors|guard|allow):(.*)$`)
	entry     = regexp.MustCompile(`^(KEYS|ARGV)\[(\d+)(\.\.)?\]\s*(.*)$`)

	// nearMiss finds misspelled directives. Prose hardly ever has a colon or a bracket right after one of
	// these words.
	nearMiss = regexp.MustCompile(
		`(?i)^(names?|modes?|returns?|errors?|allows?|includes?|guards?|keys?|argv|args?)\s*[:\[]`)

	// spelling maps a word that nearMiss finds to its directive.
	spelling = map[string]string{
		"name": "name:", "mode": "mode:", "return": "returns:", "error": "errors:", "allow": "allow:",
		"guard":   "guard:",
		"include": "include: below the header", "key": "KEYS[n] or KEYS[n..]", "argv": "ARGV[n] or ARGV[n..]",
		"arg": "ARGV[n] or ARGV[n..]",
	}

	identifier = regexp.MustCompile(`^[A-Z][A-Za-z0-9]*$`)
	paramName  = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)
	errorCode  = regexp.MustCompile(`^[A-Z][A-Z0-9_]*$`)
)

// readHeader reads the comment lines from line first on.
func readHeader(s *Script, lines []string, first int) []finding.Finding {
	h := &header{script: s, seen: map[string]bool{}, meant: map[string]bool{}}
	for i := first; i < len(lines) && strings.HasPrefix(lines[i], "--") &&
		!strings.HasPrefix(lines[i], "--["); i++ {
		h.line(i+1, lines[i])
	}
	h.finish()
	return h.findings
}

func (h *header) line(number int, line string) {
	text := strings.TrimPrefix(line, "--")
	trimmed := strings.TrimSpace(text)
	pos := Pos{Line: number, Column: 3 + len(text) - len(strings.TrimLeftFunc(text, unicode.IsSpace))}

	if m := directive.FindStringSubmatch(trimmed); m != nil {
		h.doc, h.fields = nil, nil
		h.directive(pos, m[1], strings.TrimSpace(m[2]))
		return
	}
	if m := entry.FindStringSubmatch(trimmed); m != nil {
		h.fields = nil
		h.entry(pos, m)
		return
	}
	if m := nearMiss.FindStringSubmatch(trimmed); m != nil {
		word := strings.TrimSuffix(strings.ToLower(m[1]), "s")
		h.meant[word] = true
		h.findf(pos,
			"%s is not a directive but looks like one; if it is meant as one, write %s, spelled exactly so",
			quote(firstWord(trimmed)), spelling[word])
		return
	}
	if h.fields != nil && strings.HasPrefix(text, "   ") && trimmed != "" {
		h.fieldText(pos, trimmed)
		return
	}
	h.fields = nil
	if h.doc != nil && strings.HasPrefix(text, "   ") {
		*h.doc = strings.TrimSpace(*h.doc + " " + trimmed)
		return
	}
	h.doc = nil
	h.script.Doc = append(h.script.Doc, strings.TrimPrefix(strings.TrimRight(text, " \t"), " "))
}

func (h *header) directive(pos Pos, word, value string) {
	if word != "allow" && h.seen[word] {
		h.findf(pos, "%s: stands twice; keep one", word)
		return
	}
	h.seen[word] = true
	switch word {
	case "name":
		if !identifier.MatchString(value) {
			h.findf(pos, "name %s is not an exported Go identifier; want one like AcquireAll", quote(value))
		}
		h.script.Name = value
	case "mode":
		mode, known := modes[strings.Join(strings.Fields(value), " ")]
		if !known {
			h.findf(pos, "unknown mode %s; want write, write retryable, read or read cached", quote(value))
		}
		h.script.Mode = mode
	case "returns":
		h.returns(pos, value)
	case "errors":
		h.errors(pos, value)
	case "guard":
		h.guard(pos, value)
	case "allow":
		rule, reason, _ := strings.Cut(value, " ")
		reason = strings.TrimSpace(reason)
		if !slices.Contains(Rules, rule) {
			h.findf(pos, "unknown rule %s; allow: takes one of %s, then the reason", quote(rule),
				strings.Join(Rules, ", "))
		} else if reason == "" {
			h.findf(pos, "allow: %s gives no reason; write one behind the rule, because the audit prints it", rule)
		}
		h.script.Waivers = append(h.script.Waivers, Waiver{Rule: rule, Reason: reason, Pos: pos})
	}
}

// Rules are the checks that an allow directive can waive.
var Rules = []string{"dynamic-command", "undeclared-channel", "undeclared-key", "unknown-command",
	"unknown-option"}

func (h *header) entry(pos Pos, m []string) {
	table, index, rest := m[1], m[2], words(m[4])
	n, err := strconv.Atoi(index)
	p := Param{Index: n, Variadic: m[3] != "", Pos: pos}
	place := table + p.String()
	want := fmt.Sprintf("%s name type  text, with type %s|channel|enum(a|b)", place, strings.Join(Bases, "|"))
	if table == "KEYS" {
		want = place + " name key  text"
	}

	switch {
	case err != nil || n < 1:
		h.findf(pos, "%s[%s] does not exist; number the entries from 1", table, index)
		return
	case len(rest) == 0:
		h.findf(pos, "%s has no name and no type; want %q", place, want)
		return
	case rest[0] == skipped:
		h.skip(pos, p, table, strings.Join(rest[1:], " "))
		return
	case len(rest) == 1:
		h.findf(pos, "%s has no type; want %q", place, want)
		return
	case !paramName.MatchString(rest[0]):
		h.findf(pos, "%s: name %s is not a lower-case word; want one like owner_token", place, quote(rest[0]))
	}
	p.Name = rest[0]
	p.Doc = strings.Join(rest[2:], " ")

	list := &h.script.Args
	if table == "KEYS" {
		list = &h.script.Keys
		p.Type.Base = rest[1]
		if !slices.Contains([]string{KeyType, ChannelType, ChannelsType}, rest[1]) {
			h.findf(pos, "%s has type %s; a KEYS entry has type key, channel or channels", place, quote(rest[1]))
		}
	} else {
		if p.Type, err = parseArgType(rest[1]); err != nil {
			h.findf(pos, "%s: %v", place, err)
		}
	}
	h.sequence(*list, p, table)
	*list = append(*list, p)
	h.doc = &(*list)[len(*list)-1].Doc
}

// skipped is the name of an ARGV entry that the script does not read.
const skipped = "_"

// skip declares a skipped entry.
func (h *header) skip(pos Pos, p Param, table, text string) {
	p.Name, p.Skipped, p.Doc = skipped, true, text
	switch {
	case table == "KEYS":
		h.findf(pos, "KEYS%s cannot be unused, because the server checks and routes every key that it is sent; "+
			"remove it from the script", p)
		return
	case p.Variadic:
		h.findf(pos, "ARGV%s stands for any number of arguments; declare an unused one by itself, as ARGV[%d] _", p,
			p.Index)
		return
	}
	h.sequence(h.script.Args, p, table)
	h.script.Args = append(h.script.Args, p)
	h.doc = &h.script.Args[len(h.script.Args)-1].Doc
}

// words splits an entry at its spaces, but keeps an enum with its values together.
func words(text string) []string {
	words := strings.Fields(text)
	if len(words) < 3 || !strings.HasPrefix(words[1], EnumType+"(") {
		return words
	}
	for len(words) > 2 && !strings.Contains(words[1], ")") {
		words = slices.Concat(words[:1], []string{words[1] + words[2]}, words[3:])
	}
	return words
}

// sequence checks that the numbers of entries have no gaps, and that a variadic entry comes last.
func (h *header) sequence(before []Param, p Param, table string) {
	want := 1
	if len(before) > 0 {
		last := before[len(before)-1]
		want = last.Index + 1
		if last.Variadic {
			h.findf(p.Pos, "%s%s follows %s%s, which already stands for all the rest; put the variadic entry last",
				table, p, table, last)
			return
		}
	}
	if p.Index != want {
		h.findf(p.Pos, "%s%s stands where %s[%d] is due; number the entries 1, 2, 3 without gaps", table, p, table,
			want)
	}
}

func (h *header) returns(pos Pos, value string) {
	r := Returns{Pos: pos}
	defer func() { h.script.Returns = r }()
	switch value {
	case "":
		h.findf(pos, "returns: says nothing; want none, ok, a type, or a list such as: acquired bool, remaining "+
			"duration")
		return
	case "none":
		return
	case "ok":
		r.Kind = ReturnOK
		return
	}
	t, err := parseReply(value)
	r.Kind, r.Type = ReturnValue, t
	h.fields, h.field = fieldsOf(&r.Type), nil
	for _, err := range parts(err) {
		if t.Kind == Struct {
			h.findf(pos, "returns: %v", err)
		} else {
			h.findf(pos, "returns: %v, none, ok, or a list such as: acquired bool, remaining duration", err)
		}
	}
}

// fieldsOf returns the fields of all structs in a type, outer structs first.
func fieldsOf(t *Type) []*Field {
	var all []*Field
	if t.Elem != nil {
		all = fieldsOf(t.Elem)
	}
	for i := range t.Fields {
		all = append(all, &t.Fields[i])
	}
	for i := range t.Fields {
		all = append(all, fieldsOf(&t.Fields[i].Type)...)
	}
	return all
}

// fieldText reads an indented line below returns:. The line starts with the name of a field and has its text,
// or it continues the text of the line above.
func (h *header) fieldText(pos Pos, text string) {
	name, rest, _ := strings.Cut(text, " ")
	named := slices.IndexFunc(h.fields, func(f *Field) bool { return f.Name == name })
	switch {
	case named >= 0 && h.fields[named].Doc == "":
		h.field = h.fields[named]
		h.field.Doc = strings.TrimSpace(rest)
	case h.field != nil:
		h.field.Doc += " " + text
	default:
		var names []string
		for _, f := range h.fields {
			names = append(names, f.Name)
		}
		h.findf(pos, "%s names no field of returns:; start the text with one of %s, or indent it less if it is "+
			"prose", quote(name), strings.Join(names, ", "))
	}
}

// parts returns the errors that err joins.
func parts(err error) []error {
	var joined interface{ Unwrap() []error }
	switch {
	case err == nil:
		return nil
	case !errors.As(err, &joined):
		return []error{err}
	}
	var all []error
	for _, part := range joined.Unwrap() {
		all = append(all, parts(part)...)
	}
	return all
}

func (h *header) errors(pos Pos, value string) {
	for part := range strings.SplitSeq(value, ",") {
		code := strings.TrimSpace(part)
		if !errorCode.MatchString(code) {
			h.findf(pos, "errors: %s is not an error code; want capitals such as STALE, NO_STOCK", quote(code))
			continue
		}
		e := ErrorCode{Code: code, Pos: pos}
		if slices.ContainsFunc(h.script.Errors,
			func(other ErrorCode) bool { return other.Sentinel() == e.Sentinel() }) {
			h.findf(pos, "errors: %s stands twice, or becomes the same Go name %s as another; keep one", code,
				e.Sentinel())
			continue
		}
		h.script.Errors = append(h.script.Errors, e)
	}
}

var guardForm = regexp.MustCompile(`^KEYS\[(\d+)\]\s+(held|fenced)\s+by\s+ARGV\[(\d+)\]$`)

func (h *header) guard(pos Pos, value string) {
	m := guardForm.FindStringSubmatch(value)
	if m == nil {
		h.findf(pos, "guard: %s is not a guard; want \"KEYS[n] held by ARGV[m]\" or \"KEYS[n] fenced by ARGV[m]\"",
			quote(value))
		return
	}
	g := &Guard{Fenced: m[2] == "fenced", Pos: pos}
	g.Key, _ = strconv.Atoi(m[1])
	g.Arg, _ = strconv.Atoi(m[3])
	h.script.Guard = g
}

// guarded checks that the guard names entries of the right types.
func (h *header) guarded() {
	g := h.script.Guard
	if g == nil {
		return
	}
	if !h.script.Mode.Write {
		h.findf(g.Pos, "guard: is for scripts that write; this one has mode: %s", h.script.Mode)
	}
	if g.Key < 1 || g.Key > len(h.script.Keys) || h.script.Keys[g.Key-1].Variadic ||
		h.script.Keys[g.Key-1].Type.Base != KeyType {
		h.findf(g.Pos, "guard: KEYS[%d] is not a declared single key; name one of the type key", g.Key)
	}
	want := "string"
	if g.Fenced {
		want = "int"
	}
	if g.Arg < 1 || g.Arg > len(h.script.Args) || h.script.Args[g.Arg-1].Variadic ||
		h.script.Args[g.Arg-1].Type.String() != want {
		h.findf(g.Pos, "guard: ARGV[%d] is not a declared single argument of type %s; name one of that type", g.Arg,
			want)
	}
}

// finish checks what needs the whole header.
func (h *header) finish() {
	top := Pos{Line: 1, Column: 1}
	if len(h.seen)+len(h.meant)+len(h.script.Keys)+len(h.script.Args)+len(h.findings) == 0 {
		h.findf(top, "the script has no header; redislua -init %s writes a first one", h.script.Path)
		h.seen["mode"], h.seen["returns"] = true, true
	}
	for _, word := range []string{"mode", "returns"} {
		if !h.seen[word] && !h.meant[strings.TrimSuffix(word, "s")] {
			h.findf(top, "the header has no %s: directive; add \"-- %s: …\" to the -- lines that open the file", word,
				word)
		}
	}
	if h.script.Name == "" {
		h.script.Name = defaultName(h.script.Base)
		if !identifier.MatchString(h.script.Name) {
			h.findf(top, "the file name %s makes no Go identifier; add \"-- name: …\"", quote(h.script.Base))
		}
	}
	if m := h.script.Mode; m.Cached {
		if len(h.script.Keys) != 1 || h.script.Keys[0].Variadic {
			h.findf(top, "a cached script takes exactly one key, because the cache keeps one answer for each key; "+
				"declare KEYS[1] only, or use mode: read")
		}
		if len(h.script.Args) > 1 || len(h.script.Args) == 1 && h.script.Args[0].Variadic {
			h.findf(top, "a cached script takes at most one argument, because rueidis joins arguments without a "+
				"separator in its cache key; use mode: read")
		}
	}
	h.duplicateNames()
	h.guarded()
	h.script.Doc = trimBlank(h.script.Doc)
}

// duplicateNames finds entries that have the same Go field.
func (h *header) duplicateNames() {
	seen := map[string]bool{}
	for _, p := range slices.Concat(h.script.Keys, h.script.Args) {
		if p.Skipped {
			continue
		}
		field := Camel(p.Name)
		if seen[field] {
			h.findf(p.Pos, "name %s is already taken by another entry; names become the fields of one struct, this "+
				"one %s", quote(p.Name), field)
		}
		seen[field] = true
	}
}

func (h *header) findf(pos Pos, format string, args ...any) {
	h.findings = append(h.findings, h.script.Findf(pos, format, args...))
}
