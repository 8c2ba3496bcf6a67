package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/output"
)

// Text writes one paragraph for every script.
func Text(w io.Writer, c Client, scripts []Script) error {
	var b bytes.Buffer
	for _, s := range scripts {
		fmt.Fprintf(&b, "%s (%s)\n", s.Name, s.File)
		if len(s.Unproved) > 0 {
			fmt.Fprintf(&b, "  not proved: %s\n", strings.Join(s.Unproved, "; "))
		}
		for _, row := range rows(s) {
			fmt.Fprintf(&b, "  %-10s %s\n", row[0], row[1])
		}
		if len(s.Includes) > 0 {
			fmt.Fprintln(&b, "  text")
			for line := range strings.Lines(s.Text) {
				fmt.Fprintf(&b, "  | %s", line)
			}
		}
		fmt.Fprintln(&b)
	}
	b.WriteString(c.note)
	_, err := w.Write(b.Bytes())
	return err
}

// JSON writes the audit for machines: a list of scripts.
func JSON(w io.Writer, scripts []Script) error {
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(scripts)
}

// Markdown returns the audit as a file of the generated package.
func Markdown(c Client, scripts []Script) output.File {
	var b bytes.Buffer
	fmt.Fprintf(&b, "<!-- %s -->\n\n# Audit\n\n", output.Header("all scripts"))
	b.WriteString("What each script is, what it touches, and the smallest ACL rule that permits its calls.\n" +
		"In a rule, `~<name>` and `&<name>` stand for the keys and channels that the caller passes as that name.\n" +
		regexp.MustCompile(`\+[a-z|]+`).ReplaceAllString(c.note, "`$0`"))
	for _, s := range scripts {
		fmt.Fprintf(&b, "\n## %s\n\n", s.Name)
		if len(s.Unproved) > 0 {
			fmt.Fprintf(&b, "**Not proved:** %s.\n\n", prose(strings.Join(s.Unproved, "; ")))
		}
		if s.Doc != "" {
			fmt.Fprintf(&b, "%s\n\n", prose(s.Doc))
		}
		fmt.Fprint(&b, "| | |\n| --- | --- |\n")
		fmt.Fprintf(&b, "| file | %s |\n", code(s.File))
		for _, row := range rows(s) {
			fmt.Fprintf(&b, "| %s | %s |\n", row[0], cell(row))
		}
	}
	return output.File{Name: "AUDIT.md", Text: b.Bytes()}
}

// cell returns the value of a row, as code unless it is prose.
func cell(row [2]string) string {
	switch row[0] {
	case "cluster", "read only", "waives":
		return prose(row[1])
	}
	return code(row[1])
}

// marks are the characters that Markdown, or HTML in it, does not take as plain text.
var marks = []struct {
	mark *regexp.Regexp
	as   string
}{
	{regexp.MustCompile("[\\\\`*<|~_]"), `\$0`},
	{regexp.MustCompile(`([A-Za-z0-9])\\_([A-Za-z0-9])`), `${1}_$2`}, // an _ within a word is plain
	{regexp.MustCompile(`\]([(\[:])`), `\]$1`},
	{regexp.MustCompile(`&(#?[A-Za-z0-9]+;)`), `\&$1`},
	{regexp.MustCompile(`(?m)^([ \t]*)([-+=#>])`), `$1\$2`},
	{regexp.MustCompile(`(?m)^([ \t]*[0-9]+)([.)])`), `$1\$2`},
}

// prose returns words of a script as Markdown that shows them unchanged. So a script cannot hide other parts
// of the audit.
func prose(text string) string {
	for _, m := range marks {
		text = m.mark.ReplaceAllString(text, m.as)
	}
	return text
}

var characters = regexp.MustCompile(`[^ A-Za-z0-9]`)

// code returns a text as code in a table. A bar would end the cell, so code escapes it. It writes characters
// that a span of code cannot have by their numbers.
func code(text string) string {
	if !strings.Contains(text, "`") && !strings.Contains(text, `\|`) {
		return "`" + strings.ReplaceAll(text, "|", `\|`) + "`"
	}
	return "<code>" + characters.ReplaceAllStringFunc(text, func(s string) string {
		return fmt.Sprintf("&#%d;", []rune(s)[0])
	}) + "</code>"
}

// rows returns the facts about a script, in the order in which a reader needs them.
func rows(s Script) [][2]string {
	table := [][2]string{{"mode", s.Mode}}
	add := func(name string, values []string) {
		if len(values) > 0 {
			table = append(table, [2]string{name, strings.Join(values, ", ")})
		}
	}
	var keys, args, commands []string
	for _, k := range s.Keys {
		text := k.Place + " " + k.Name
		if k.Access != "" {
			text += " (" + k.Access + ")"
		}
		keys = append(keys, text)
	}
	for _, a := range s.Args {
		args = append(args, a.Place+" "+a.Name+" "+a.Type)
	}
	for _, c := range s.Commands {
		commands = append(commands, fmt.Sprintf("%s ×%d", c.Name, c.Count))
	}
	add("keys", keys)
	add("arguments", args)
	add("commands", commands)
	if s.ReadOnly {
		table = append(table, [2]string{"read only", "proved: none of its commands writes"})
	}
	if s.Guard != "" {
		table = append(table, [2]string{"guard", s.Guard})
	}
	table = append(table, [2]string{"cluster", s.Cluster})
	for _, w := range s.Waivers {
		table = append(table, [2]string{"waives", w.Rule + ": " + w.Reason})
	}
	add("includes", s.Includes)
	rule := strings.Join(s.ACL, " ")
	if !s.ACLWhole {
		rule += " … (and what is not proved)"
	}
	return append(table,
		[2]string{"acl", rule},
		[2]string{"sha1", s.SHA1},
		[2]string{"sha256", s.SHA256},
	)
}
