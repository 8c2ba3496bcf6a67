// Package draft writes a first header for a script without a header. It guesses from the body, and lets
// package check judge each guess. Of several guesses it keeps the one with the fewest findings. It does not
// know what the script is for, so a user has to read the header.
package draft

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/analyze"
	"github.com/rlock-go/toolkit/generator/internal/check"
	"github.com/rlock-go/toolkit/generator/internal/finding"
	"github.com/rlock-go/toolkit/generator/internal/script"
)

// ErrHasHeader is the error for a script that already has a header.
type ErrHasHeader struct {
	Path string
	Line int // of a directive
}

func (e *ErrHasHeader) Error() string {
	return fmt.Sprintf("%s has a header already, in line %d; -init writes only the first one", e.Path, e.Line)
}

// Of returns the text of a script with a first header, and the decisions that the user still has to make. The
// header uses the names of the script's locals, if there are some. If the text is not Lua, Of returns only
// findings.
func Of(path string, text []byte) ([]byte, []finding.Finding, error) {
	if len(bytes.TrimSpace(text)) == 0 {
		_, findings := script.Parse(path, text)
		return nil, findings, nil
	}
	f, err := newFrame(path, string(text))
	if err != nil {
		return nil, nil, err
	}
	d := &draft{frame: f, mode: "write", returns: "raw", judged: map[string][]finding.Finding{}}
	if f.readOnly() {
		d.mode = "read"
	}
	d.keys = []param{{place: "[1..]", name: "keys", typ: "key"}}
	d.args = []param{{place: "[1..]", name: "args", typ: "string"}}
	s, findings := d.parse()
	if s.Body == nil || len(findings) > 0 {
		return nil, d.withoutHeader(findings, string(text)), nil
	}
	d.evidence = gather(s)
	facts := analyze.Analyze(s)
	d.keys = d.entries("KEYS", facts.Keys)
	d.args = d.entries("ARGV", facts.Args)
	d.narrow("KEYS", &d.keys)
	d.narrow("ARGV", &d.args)
	d.chooseMode()
	d.chooseErrors(s)
	d.chooseTypes()
	d.chooseReply()
	return []byte(d.text()), finding.Sort(slices.Clone(d.judge())), nil
}

// withoutHeader returns findings with their places in the original text.
func (d *draft) withoutHeader(findings []finding.Finding, text string) []finding.Finding {
	above, added := len(d.before)+len(d.prose), strings.Count(d.text(), "\n")-strings.Count(text, "\n")
	for i, f := range findings {
		if f.Path == d.path && f.Line > above {
			findings[i].Line -= added
		}
	}
	return findings
}

// draft is a header in the making.
type draft struct {
	frame
	evidence
	keys, args    []param
	mode, returns string
	errors        []string
	judged        map[string][]finding.Finding // by the text of the script
}

// param is an entry of the header.
type param struct {
	index    int
	place    string // [1] or [1..]
	name     string
	typ      string // empty: the script does not use it
	doc      string
	variadic bool
}

// text returns the script with the header.
func (d *draft) text() string {
	var lines []string
	add := func(format string, args ...any) {
		lines = append(lines, strings.TrimRight("-- "+fmt.Sprintf(format, args...), " "))
	}
	add("mode: %s", d.mode)
	width, types := 0, 0
	for _, p := range slices.Concat(d.keys, d.args) {
		width, types = max(width, len(p.place)+len(p.name)), max(types, len(p.typ))
	}
	lines = append(lines, entryLines("KEYS", d.keys, width, types)...)
	lines = append(lines, entryLines("ARGV", d.args, width, types)...)
	add("returns: %s", d.returns)
	if len(d.errors) > 0 {
		add("errors: %s", strings.Join(d.errors, ", "))
	}
	return d.around(lines)
}

func entryLines(table string, list []param, width, types int) []string {
	var lines []string
	for _, p := range list {
		line := fmt.Sprintf("-- %s%s %s%s %-*s  %s", table, p.place, p.name,
			strings.Repeat(" ", width-len(p.place)-len(p.name)), types, p.typ, p.doc)
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

func (d *draft) parse() (*script.Script, []finding.Finding) {
	return script.Parse(d.path, []byte(d.text()))
}

// judge returns the findings about the script with the current header.
func (d *draft) judge() []finding.Finding {
	text := d.text()
	if findings, known := d.judged[text]; known {
		return findings
	}
	s, findings := d.parse()
	if len(findings) == 0 {
		_, findings = check.Script(s)
	}
	d.judged[text] = findings
	return findings
}

// count returns the number of findings of some rules. Without rules, it counts all findings.
func (d *draft) count(rules ...string) int {
	n := 0
	for _, f := range d.judge() {
		if len(rules) == 0 || slices.Contains(rules, f.Rule) {
			n++
		}
	}
	return n
}

// choose sets a part of the header to the choice with the fewest findings. If several have the fewest, the
// first wins.
func (d *draft) choose(set func(choice string), choices ...string) {
	best, fewest := choices[0], -1
	for _, choice := range choices {
		set(choice)
		if n := d.count(); fewest < 0 || n < fewest {
			best, fewest = choice, n
		}
		if fewest == 0 {
			break
		}
	}
	set(best)
}

// chooseMode declares that the script only reads, unless it may write.
func (d *draft) chooseMode() {
	d.choose(func(mode string) { d.mode = mode }, "read", "write")
	if d.mode == "read" && d.count("dynamic-command", "unknown-command") > 0 && !d.readOnly() {
		d.mode = "write" // the commands are not known
	}
}

// entries declares the entries of KEYS or ARGV that the script uses.
func (d *draft) entries(table string, used analyze.Uses) []param {
	last, names := 0, d.names[table]
	inUse := map[int]bool{}
	for _, use := range used.Constant {
		inUse[use.Index] = true
		last = max(last, use.Index)
	}
	for index := range names {
		inUse[index] = true
		last = max(last, index)
	}
	variadic := used.All || len(used.Computed) > 0
	if variadic && table == "KEYS" && len(names) == 0 {
		last = 0 // KEYS[1] is the first of many
	}
	var list []param
	for i := 1; i <= last; i++ {
		p := param{index: i, place: fmt.Sprintf("[%d]", i), name: d.free(names[i], strings.ToLower(table[:3]), i),
			doc: d.docs[table][i]}
		switch {
		case table == "KEYS":
			p.typ = script.KeyType
		case inUse[i]:
			p.typ = "string"
		default:
			p.name = "_"
		}
		list = append(list, p)
	}
	if variadic {
		p := param{index: last + 1, place: fmt.Sprintf("[%d..]", last+1), typ: script.KeyType, variadic: true}
		if table == "ARGV" {
			p.name, p.typ = d.free("", "args", 0), "string"
		} else {
			p.name = d.free("", "keys", 0)
		}
		list = append(list, p)
	}
	return list
}

// narrow drops the variadic entry of a table if the other entries are enough. A script that unpacks KEYS to
// locals is an example.
func (d *draft) narrow(table string, list *[]param) {
	all := *list
	n := len(all)
	if n < 2 || !all[n-1].variadic || !d.unpacked[table] {
		return
	}
	before := d.count()
	if *list = all[:n-1]; d.count() > before {
		*list = all
	}
}

var errorStart = regexp.MustCompile(`^([A-Z][A-Z0-9_]+)( |$)`)

func (d *draft) chooseErrors(s *script.Script) {
	for _, text := range d.replied {
		m := errorStart.FindStringSubmatch(text)
		if m == nil || m[1] == "ERR" || slices.Contains(d.errors, m[1]) {
			continue
		}
		before := d.count()
		d.errors = append(d.errors, m[1])
		if d.count() > before {
			d.errors = d.errors[:len(d.errors)-1]
		}
	}
}
