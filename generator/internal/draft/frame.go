package draft

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// frame is the text of a script without a header, and the place for one.
type frame struct {
	path                  string
	mark                  string                    // a byte order mark, which gives a finding
	before, prose, behind []string                  // lines: a shebang, the prose of the header, and the rest
	docs                  map[string]map[int]string // the script's own comments about its entries
}

var (
	isDirective = regexp.MustCompile(`^--\s*(name|mode|returns|errors|guard|allow):`)
	looksLike   = regexp.MustCompile(
		`(?i)^--\s*(names?|modes?|returns?|errors?|allows?|includes?|guards?|keys?|argv|args?)\s*[:\[]`)
	entryText = regexp.MustCompile(`\b(KEYS|ARGV)\[(\d+)\]\s*(?:[-:=,>]+\s*)?(.*)$`)
)

const byteOrderMark = "\ufeff"

// newFrame divides a text. The first comment becomes the prose of the header. The prose ends at a line that
// looks like a directive, which stays below the header.
func newFrame(path, text string) (frame, error) {
	f := frame{path: path, docs: map[string]map[int]string{"KEYS": {}, "ARGV": {}}}
	if plain, marked := strings.CutPrefix(text, byteOrderMark); marked {
		f.mark, text = byteOrderMark, plain
	}
	lines := strings.Split(text, "\n")
	if strings.HasPrefix(text, "#!") {
		f.before, lines = lines[:1], lines[1:]
	}
	n := 0
	for ; n < len(lines) && strings.HasPrefix(lines[n], "--") && !strings.HasPrefix(lines[n], "--["); n++ {
		if isDirective.MatchString(lines[n]) {
			return f, &ErrHasHeader{path, len(f.before) + n + 1}
		}
	}
	if directive := slices.IndexFunc(lines[:n], looksLike.MatchString); directive >= 0 {
		n = directive
	}
	f.prose, f.behind = lines[:n], lines[n:]
	f.describe(lines)
	return f, nil
}

// readOnly reports whether the first line says that the script only reads.
func (f frame) readOnly() bool {
	return len(f.before) > 0 && strings.Contains(f.before[0], "no-writes")
}

// describe reads the comments about KEYS[n] and ARGV[n] before the first statement.
func (f *frame) describe(lines []string) {
	long := false
	for _, line := range lines {
		text := strings.TrimSpace(line)
		long = long || strings.HasPrefix(text, "--[")
		if !long && text != "" && !strings.HasPrefix(text, "--") {
			return
		}
		if m := entryText.FindStringSubmatch(text); m != nil {
			if n, err := strconv.Atoi(m[2]); err == nil && f.docs[m[1]][n] == "" {
				f.docs[m[1]][n] = strings.TrimSpace(strings.TrimRight(m[3], "]"))
			}
		}
		long = long && !strings.Contains(text, "]]")
	}
}

// around returns the text with the lines of a header.
func (f frame) around(header []string) string {
	lines := append([]string{}, f.before...)
	lines = append(lines, f.prose...)
	if n := len(f.prose); n > 0 && strings.TrimSpace(f.prose[n-1]) != "--" {
		lines = append(lines, "--")
	}
	lines = append(lines, header...)
	if len(f.behind) > 0 && strings.TrimSpace(f.behind[0]) != "" {
		lines = append(lines, "")
	}
	return f.mark + strings.Join(append(lines, f.behind...), "\n")
}
