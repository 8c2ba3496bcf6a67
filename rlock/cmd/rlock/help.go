package main

import (
	_ "embed"
	"slices"
	"strings"
)

//go:embed doc.go
var source string

// manual returns the sections of the package's documentation, which is the manual, and their titles in
// order. The first one, before all titles, is "".
func manual() (sections map[string]string, titles []string) {
	sections = map[string]string{}
	title := ""
	titles = append(titles, title)
	for line := range strings.Lines(source) {
		text, comment := strings.CutPrefix(line, "//")
		if !comment {
			break
		}
		text = strings.ReplaceAll(strings.TrimPrefix(text, " "), "\t", "    ")
		if heading, is := strings.CutPrefix(text, "# "); is {
			title = strings.TrimSpace(heading)
			titles = append(titles, title)
			text = strings.ToUpper(title) + "\n"
			if strings.HasPrefix(title, "rlock ") {
				text = title + "\n"
			}
		}
		sections[title] += text
	}
	return sections, titles
}

// help prints the manual of a command, or what all have in common.
func (p *program) help(args []string) error {
	sections, titles := manual()
	if len(args) == 0 {
		var b strings.Builder
		for _, title := range titles {
			if !strings.HasPrefix(title, "rlock ") && title != "Install" {
				b.WriteString(sections[title])
			}
		}
		return p.write(b.String())
	}
	title := "rlock " + args[0]
	if !slices.Contains(titles, title) {
		return failure(exitFailed, "there is no command %s; see rlock -h", quote(args[0]))
	}
	return p.write(strings.TrimPrefix(sections[title], title+"\n\n"))
}
