package emit

import (
	"go/format"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits for the lines of the bindings, in characters. A tab counts as one.
const (
	codeWidth    = 110
	commentWidth = 100
)

// breakLines returns formatted Go source without long lines. A line stays long if a name or a string in it is
// too long.
func breakLines(text []byte) ([]byte, error) {
	lines := strings.Split(string(text), "\n")
	var out []string
	for i := 0; i < len(lines); {
		if n := paragraph(lines[i:]); n > 0 {
			out = append(out, wrap(lines[i:i+n])...)
			i += n
			continue
		}
		out = append(out, breakLine(lines[i])...)
		i++
	}
	return format.Source([]byte(strings.Join(out, "\n")))
}

var (
	prose  = regexp.MustCompile(`^\t*// [^\s]`)
	marked = regexp.MustCompile(`^\t*// ([-*+#]|\d+[.)]|\[[^]]*\]: |Code generated )`)
)

// paragraph returns how many of the first lines form one paragraph of a comment. It returns 0 for code, for
// an indented block, and for a line that means something to Go.
func paragraph(lines []string) int {
	n := 0
	for n < len(lines) && prose.MatchString(lines[n]) && !marked.MatchString(lines[n]) {
		n++
	}
	if n < len(lines) && marked.MatchString(lines[n]) {
		return 0
	}
	return n
}

// wrap breaks the lines of a paragraph again if one of them is too long.
func wrap(lines []string) []string {
	if !slices.ContainsFunc(lines, func(line string) bool { return width(line) > commentWidth }) {
		return lines
	}
	tabs, _, _ := strings.Cut(lines[0], "//")
	var words []string
	for _, line := range lines {
		words = append(words, strings.Fields(strings.TrimPrefix(line, tabs+"//"))...)
	}
	if slices.ContainsFunc(words, func(word string) bool { return marked.MatchString("// " + word + " ") }) {
		return lines // at the start of a line, the word would mean something to Go
	}
	return fill(words, tabs+"// ", tabs+"// ")
}

// fill breaks words into lines, each with a prefix.
func fill(words []string, first, others string) []string {
	var out []string
	line := first
	for i, word := range words {
		switch {
		case i == 0:
		case width(line)+1+width(word) > commentWidth:
			out = append(out, line)
			line = others
		default:
			line += " "
		}
		line += word
	}
	return append(out, line)
}

func width(line string) int { return utf8.RuneCountInString(line) }

var trailing = regexp.MustCompile(`^(\t+)(\S+\s+\S.*?)\s+// (.*)$`)

// breakLine breaks one line of code if it is too long. A comment after the code moves above the code. The
// longest list in brackets gets lines of its own.
func breakLine(line string) []string {
	if width(line) <= codeWidth {
		return []string{line}
	}
	if m := trailing.FindStringSubmatch(line); m != nil {
		above := fill(strings.Fields(m[3]), m[1]+"// ", m[1]+"// ")
		return append(above, breakLine(m[1]+m[2])...)
	}
	opens, closes := longestList(line)
	tabs := line[:len(line)-len(strings.TrimLeft(line, "\t"))]
	if closes == 0 {
		return []string{line}
	}
	inner := line[opens+1 : closes]
	out := []string{line[:opens+1]}
	if whole := tabs + "\t" + inner + ","; width(whole) <= codeWidth {
		out = append(out, whole)
	} else {
		for _, part := range elements(inner) {
			out = append(out, breakLine(tabs+"\t"+strings.TrimSpace(part)+",")...)
		}
	}
	return append(out, tabs+line[closes:])
}

// longestList returns where the longest list in round brackets begins and ends. It looks only at lists in no
// other brackets. If there is none, closes is 0.
func longestList(line string) (opens, closes int) {
	var open []int
	scan(line, func(i, depth int) {
		switch line[i] {
		case '(', '[', '{':
			open = append(open, i)
		case ')', ']', '}':
			if len(open) == 0 {
				return
			}
			begin := open[len(open)-1]
			open = open[:len(open)-1]
			if line[i] == ')' && len(open) == 0 && i-begin > max(closes-opens, 1) {
				opens, closes = begin, i
			}
		}
	})
	return opens, closes
}

// elements splits a list at the commas outside of brackets and strings.
func elements(list string) []string {
	var out []string
	begin := 0
	scan(list, func(i, depth int) {
		if list[i] == ',' && depth == 0 {
			out = append(out, list[begin:i])
			begin = i + 1
		}
	})
	return append(out, list[begin:])
}

// scan calls visit for each byte outside of strings, with the number of brackets around it.
func scan(code string, visit func(i, depth int)) {
	depth := 0
	for i := 0; i < len(code); i++ {
		switch c := code[i]; c {
		case '"', '`', '\'':
			for i++; i < len(code) && code[i] != c; i++ {
				if code[i] == '\\' && c != '`' {
					i++
				}
			}
			continue
		case ')', ']', '}':
			depth--
		}
		visit(i, depth)
		if strings.IndexByte("([{", code[i]) >= 0 {
			depth++
		}
	}
}
