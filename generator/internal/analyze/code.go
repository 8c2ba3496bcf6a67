package analyze

import (
	"regexp"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

var code = regexp.MustCompile(`^([A-Z][A-Z0-9_]*)( |$)`)

// codeOf returns the first word of a text, if the word may be the code of an error.
func codeOf(k Kind) string {
	switch k := k.(type) {
	case Str:
		if m := code.FindStringSubmatch(k.S); m != nil {
			return m[1]
		}
	case Text:
		return k.Code
	}
	return ""
}

// errorText is the text that redis.error_reply makes of a text.
func errorText(k Kind) Value {
	if s, ok := k.(Str); ok {
		word, _, _ := strings.Cut(s.S, " ")
		return Of(Text{Class: Built, Code: word})
	}
	return Of(Text{Class: Built, Code: codeOf(k)})
}

// startsWith is codeOf for the first part of a text. A star at the end of the word says that the word may go
// on.
func startsWith(k Kind) string {
	word := codeOf(k)
	if s, ok := k.(Str); ok && word != "" && !strings.Contains(s.S, " ") {
		return word + "*"
	}
	return word
}

// isCode reports whether a word, which may end with a star, may be a code.
func isCode(word, code string) bool {
	start, open := strings.CutSuffix(word, "*")
	return word == code || open && strings.HasPrefix(code, start)
}

func (a *analyzer) makesError(n ast.Expr, text Value) {
	pos := a.script.Pos(n)
	a.facts.Errors[pos] = Join(a.facts.Errors[pos], text)
}

// Replies reports whether an error with this text may have the code. A text from outside of the script may
// start with any code.
func (v Value) Replies(word string) bool {
	return v.mayBe(func(k Kind) bool {
		switch t := k.(type) {
		case Str, Raised: // another place raised the error that pcall answers
			return codeOf(k) == word
		case Text:
			return isCode(t.Code, word) || t.Code == "" && t.Class != Wording
		}
		return TypeOf(k) == "string" || TypeOf(k) == ""
	})
}

// Starts reports whether a text may start with a word.
func (v Value) Starts(word string) bool {
	return v.mayBe(func(k Kind) bool { return isCode(codeOf(k), word) })
}

// Replies reports whether an error with the code may be the value, or a part of it.
func (h Heap) Replies(v Value, word string) bool { return h.replies(v, word, map[*site]bool{}) }

func (h Heap) replies(v Value, word string, seen map[*site]bool) bool {
	return v.mayBe(func(k Kind) bool {
		r, ok := k.(Ref)
		if !ok || seen[r.site] {
			return false
		}
		seen[r.site] = true
		t := h.Table(r)
		if text, isError := t.Fields["err"]; isError {
			return text.Replies(word)
		}
		return h.replies(t.everything(), word, seen)
	})
}
