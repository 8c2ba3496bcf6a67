package main

import (
	"flag"
	"slices"
	"strings"
)

// wantUsage is the error of a command that was asked for its usage with -h.
type wantUsage struct{ flags *flag.FlagSet }

func (*wantUsage) Error() string { return "usage" }

// usage is what -h prints: of the manual, how the command is called, its flags, and two examples. flags are
// nil for rlock itself.
func (p *program) usage(flags *flag.FlagSet) error {
	sections, _ := manual()
	var b strings.Builder
	block := func(lines []string) {
		for _, line := range lines {
			b.WriteString("  " + line + "\n")
		}
		b.WriteString("\n")
	}
	const examples = 2
	if flags == nil {
		block(codeOf(sections["Commands"])[0])
		b.WriteString("RLOCK_URL names the server:\n\n")
		block(codeOf(sections[""])[0][:examples])
		b.WriteString("rlock COMMAND -h prints the flags, rlock help [COMMAND] prints the manual.\n")
		return p.write(b.String())
	}
	title := "rlock " + flags.Name()
	blocks := codeOf(sections[title])
	block(blocks[0])
	var known, shown []string
	for _, line := range slices.Concat(append(blocks[1:], codeOf(sections["rlock run"])...)...) {
		names := namesIn(line)
		if len(names) > 0 && !slices.Contains(known, names[0]) && flags.Lookup(names[0]) != nil {
			known = append(known, names...)
			shown = append(shown, line)
		}
	}
	block(shown)
	shown = nil
	for _, line := range slices.Concat(blocks[1:]...) {
		if strings.Contains(line, title) && len(shown) < examples {
			shown = append(shown, line)
		}
	}
	block(shown)
	b.WriteString("The manual: rlock help " + flags.Name() + "\n")
	return p.write(b.String())
}

// codeOf returns the indented blocks of a section, without the indentation.
func codeOf(section string) (blocks [][]string) {
	inside := false
	for line := range strings.Lines(section) {
		code, is := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		switch {
		case is && inside:
			blocks[len(blocks)-1] = append(blocks[len(blocks)-1], code)
		case is:
			blocks = append(blocks, []string{code})
		}
		inside = is
	}
	return blocks
}

// namesIn returns the names of the flag that a line of the manual explains, none if it explains none.
func namesIn(line string) (names []string) {
	for _, word := range strings.Fields(line) {
		name, dashed := strings.CutPrefix(strings.TrimSuffix(word, ","), "-")
		if !dashed {
			break
		}
		names = append(names, strings.TrimPrefix(name, "-"))
	}
	return names
}
