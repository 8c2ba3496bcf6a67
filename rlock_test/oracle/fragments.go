package oracle

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// files returns the program as the files of a directory, by name. The files are the script and its
// fragments.
func (p *Program) files() map[string]string {
	whole := map[string]string{p.Name + ".lua": p.Text()}
	lines := strings.SplitAfter(p.Body, "\n")
	lines = lines[:len(lines)-1] // the last line is the empty rest
	points := boundaries(lines)
	if p.Cut == 0 || len(points) < 4 {
		return whole
	}
	r := rand.New(rand.NewPCG(p.Cut, 0))
	r.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
	at := points[:4]
	slices.Sort(at)
	text := func(from, to int) string { return strings.Join(lines[at[from]:at[to]], "") }
	head, tail := p.header()+strings.Join(lines[:at[0]], ""), strings.Join(lines[at[3]:], "")
	include := func(n int) string { return fmt.Sprintf("-- include: parts/%s.%d.lua\n", p.Name, n) }
	within := func(n int) string { return fmt.Sprintf("-- include: %s.%d.lua\n", p.Name, n) }
	var main string
	parts := map[int]string{}
	switch r.IntN(3) {
	case 0:
		main = head + include(1) + tail
		parts[1] = text(0, 3)
	case 1:
		main = head + include(1) + tail
		parts[1] = text(0, 1) + within(2) + text(2, 3)
		parts[2] = text(1, 2)
	case 2: // the third fragment stays in its place
		main = head + include(1) + include(2) + tail
		parts[1] = within(3) + text(1, 2)
		parts[2] = within(3) + text(2, 3)
		parts[3] = text(0, 1)
	}
	files := map[string]string{p.Name + ".lua": main}
	for n, part := range parts {
		files[fmt.Sprintf("parts/%s.%d.lua", p.Name, n)] = part
	}
	return files
}

// opening is the first line of a statement outside all blocks.
var opening = regexp.MustCompile(
	`^(local|redis|if|for|while|repeat|do|pcall|function|table|rawset|assert|[a-zA-Z]\w*[.(:])`)

// boundaries returns the lines before which a fragment may begin or end. The first line is empty,
// and ends the header.
func boundaries(lines []string) []int {
	var points []int
	for i, line := range lines {
		if i > 0 && opening.MatchString(line) {
			points = append(points, i)
		}
	}
	return points
}

var includeLine = regexp.MustCompile(`(?m)^-- include: (parts/)?p\d{6}\.\d\.lua\n`)

// assembled returns what is wrong with the text that runs, as the audit shows it. Without its
// include lines, this text must be the program.
func (p *Program) assembled(r rule) *fault {
	if text := includeLine.ReplaceAllString(r.Text, ""); text != p.Text() {
		return &fault{kind: "text", why: fmt.Sprintf("the text that runs is not that of the files:\n%s", r.Text)}
	}
	return nil
}
