package script

import (
	"fmt"
	"strconv"
	"strings"
)

// insideText returns the lines that start inside a string or a long comment.
func insideText(text string) map[int]bool {
	inside := map[int]bool{}
	s := stringScanner{text: text, line: 1, crossed: func(line int) { inside[line] = true }}
	for s.next() { // syntax reports the complaints
	}
	return inside
}

// stringScanner finds escapes in quoted strings that Lua 5.1 does not have.
type stringScanner struct {
	text      string
	at        int
	line      int
	lineStart int
	complaint string
	found     int // offset of the wrong escape

	unclosed opened // the first string or long comment without an end

	within  bool           // the scanner is inside a string or a long comment
	crossed func(line int) // gets every line that starts within; may be nil
}

func (s *stringScanner) pos() Pos { return Pos{Line: s.line, Column: s.found - s.lineStart + 1} }

// next moves to the next complaint, and reports whether there is one.
func (s *stringScanner) next() bool {
	for s.at < len(s.text) {
		rest := s.text[s.at:]
		switch {
		case strings.HasPrefix(rest, "--"):
			s.at += 2
			if !s.long() {
				s.skip(strings.IndexByte(s.text[s.at:], '\n'))
			}
		case rest[0] == '[':
			if !s.long() {
				s.at++
			}
		case rest[0] == '"' || rest[0] == '\'':
			s.at++
			s.within = true
			complained := s.quoted(rest[0])
			s.within = false
			if complained {
				return true
			}
		default:
			s.step()
		}
	}
	return false
}

// step moves one byte on, and counts lines.
func (s *stringScanner) step() {
	if s.text[s.at] == '\n' {
		s.line++
		s.lineStart = s.at + 1
		if s.within && s.crossed != nil {
			s.crossed(s.line)
		}
	}
	s.at++
}

// skip moves n bytes on, or to the end if n is negative.
func (s *stringScanner) skip(n int) {
	end := s.at + n
	if n < 0 {
		end = len(s.text)
	}
	for s.at < end {
		s.step()
	}
}

// long skips a string or a comment in long brackets, if one starts here.
func (s *stringScanner) long() bool {
	rest := s.text[s.at:]
	level := strings.TrimLeft(strings.TrimPrefix(rest, "["), "=")
	if !strings.HasPrefix(rest, "[") || !strings.HasPrefix(level, "[") {
		return false
	}
	start := Pos{s.line, s.at - s.lineStart + 1}
	closing := "]" + strings.Repeat("=", len(rest)-len(level)-1) + "]"
	end := strings.Index(rest, closing)
	if end >= 0 {
		end += len(closing)
	} else if s.unclosed.what == "" {
		s.unclosed = opened{start, "text in long brackets", closing}
	}
	s.within = true
	s.skip(end)
	s.within = false
	return true
}

// quoted moves to the end of a string, or to a wrong escape in it. The scanner then reads the rest of the
// string as code, and finds nothing worse there.
func (s *stringScanner) quoted(quote byte) bool {
	start := Pos{s.line, s.at - s.lineStart}
	for s.at < len(s.text) && s.text[s.at] != quote && s.text[s.at] != '\n' {
		if s.text[s.at] != '\\' || s.at+1 == len(s.text) {
			s.step()
			continue
		}
		s.found = s.at
		s.at++
		switch c := s.text[s.at]; {
		case c >= '0' && c <= '9':
			digits := s.at
			for s.at < len(s.text) && s.at < digits+3 && s.text[s.at] >= '0' && s.text[s.at] <= '9' {
				s.at++
			}
			if n, err := strconv.Atoi(s.text[digits:s.at]); err == nil && n > 255 {
				s.complaint = fmt.Sprintf(`the escape \%d is above 255, which Lua 5.1 refuses`, n)
				s.finish(quote)
				return true
			}
		case c == 'x' || c == 'z' || c == 'u':
			s.complaint = fmt.Sprintf(
				`the escape \%c is not Lua 5.1, which takes it for the letter; write \ddd with decimal digits`, c)
			s.finish(quote)
			return true
		default:
			s.step()
		}
	}
	if s.at >= len(s.text) || s.text[s.at] == '\n' {
		if s.unclosed.what == "" {
			s.unclosed = opened{start, "string", string(quote)}
		}
		return false
	}
	s.at++
	return false
}

// finish leaves a string after a complaint. It stays on the line of the complaint if it can, so that the
// position of the complaint is right.
func (s *stringScanner) finish(quote byte) {
	for s.at < len(s.text) && s.text[s.at] != quote && s.text[s.at] != '\n' {
		if s.text[s.at] == '\\' && s.at+1 < len(s.text) && s.text[s.at+1] != '\n' {
			s.at++
		}
		s.at++
	}
	if s.at < len(s.text) && s.text[s.at] == quote {
		s.at++
	}
}
