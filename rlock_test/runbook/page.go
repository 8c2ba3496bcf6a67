// Package runbook runs the commands of docs/RUNBOOK.md, and compares their output with the page. Each command
// runs on a server in the state that the command's section describes.
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

// command is a line after "$ " in a block of sh, and the output that follows it.
type command struct {
	line   string
	prints string
}

// sections reads the page. hidden are outputs that stand before any command.
func sections(page string) (list []section, hidden []string) {
	list = []section{{}}
	var fence string // of the open block
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

// pattern returns an expression for an output of the page. In a line, "…" stands for any text. Alone in a
// line, "…" stands for any lines. Spaces and tabs match each other.
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
	printed = strings.ReplaceAll(printed, "\r\n", "\n") // INFO ends its lines so
	if printed != "" && !strings.HasSuffix(printed, "\n") {
		printed += "\n"
	}
	return pattern(prints).MatchString(printed)
}
