package main

import (
	"os"
	"strings"
	"unicode/utf8"
)

// table is what a person sees of a list: columns with a head. Nothing is cut, because people copy what they
// see.
type table struct {
	head []string
	rows [][]string
}

// between are the spaces between two columns.
const between = "  "

// text returns the table for a terminal of a width. No cell that is wider than two fifths of it makes its
// column wider, so that one long key does not push all other rows out of sight. A key that is wider than its
// column has a line of its own, with the rest of its row below. Any other such cell moves the rest of its
// row.
func (t *table) text(width int) string {
	if len(t.rows) == 0 {
		return ""
	}
	widths := make([]int, len(t.head))
	for _, row := range append([][]string{t.head}, t.rows...) {
		for i, cell := range row {
			if n := utf8.RuneCountInString(cell); n <= width*2/5 {
				widths[i] = max(widths[i], n)
			}
		}
	}
	var b strings.Builder
	for _, row := range append([][]string{t.head}, t.rows...) {
		line := ""
		for i, cell := range row {
			room := widths[i] - utf8.RuneCountInString(cell)
			if i == 0 && room < 0 {
				b.WriteString(cell + "\n")
				cell, room = "", widths[i]
			}
			line += cell + strings.Repeat(" ", max(room, 0)) + between
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String()
}

// table begins one for a person, nil if nobody looks: a program that reads the output needs the tabs.
func (p *program) table(head ...string) *table {
	if p.json || !isTerminal(p.stdout) {
		return nil
	}
	return &table{head: head}
}

// print shows the table.
func (p *program) print(t *table) error {
	width, _ := terminalWidth(p.stdout.(*os.File))
	return p.write(t.text(width))
}
