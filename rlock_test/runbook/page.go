// Package runbook runs the commands of docs/RUNBOOK.md, each on a server that is in the state which its
// section describes, and compares what they print with the page.
package runbook

import (
	"regexp"
	"strings"
)

// section is a heading of the page with the commands below it.
type section struct {
	title    string
	commands []command
}

// command is what stands behind a "$ " in a block of sh, and what it prints.
type command struct {
	line   string
	prints string
}

// sections reads the page. hidden are outputs that stand before any command.
func sections(page string) (list []section, hidden []string) {
	list = []section{{}}
	var fence string // of the block that has begun
	for line := range strings.Lines(page) {
		s := &list[len(list)-1]
		switch {
		case strings.HasPrefix(line, "```"):
			if fence == "" {
				fence = strings.TrimSpace(line)
			} else {
				fence = ""
			}
		case fence == "" && strings.HasPrefix(line, "#"):
			list = append(list, section{title: strings.TrimSpace(strings.TrimLeft(line, "#"))})
		case fence != "```sh":
		case strings.HasPrefix(line, "$ "):
			s.commands = append(s.commands, command{line: strings.TrimSpace(line[2:])})
		case len(s.commands) == 0:
			hidden = append(hidden, line)
		default:
			s.commands[len(s.commands)-1].prints += line
		}
	}
	return list, hidden
}

var spaces = regexp.MustCompile(`[ \t]+`)

// pattern returns what matches an output of the page: "…" stands for any text of a line, and alone in a line
// for any lines; spaces and tabs are alike.
func pattern(prints string) *regexp.Regexp {
	var b strings.Builder
	for line := range strings.Lines(prints) {
		line = strings.TrimSuffix(line, "\n")
		if line == "…" {
			b.WriteString(`(?:.*\n)*`)
			continue
		}
		line = spaces.ReplaceAllString(regexp.QuoteMeta(line), `[ \t]+`)
		b.WriteString(strings.ReplaceAll(line, "…", ".*") + `\n`)
	}
	return regexp.MustCompile("^" + b.String() + "$")
}

// fits reports whether a command has printed what the page says.
func fits(prints, printed string) bool {
	printed = strings.ReplaceAll(printed, "\r\n", "\n") // as INFO has it
	if printed != "" && !strings.HasSuffix(printed, "\n") {
		printed += "\n"
	}
	return pattern(prints).MatchString(printed)
}
