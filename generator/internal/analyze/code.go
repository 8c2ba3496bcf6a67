package analyze

import (
	"regexp"
	"strings"

	"github.com/yuin/gopher-lua/ast"
)

var code = regexp.MustCompile(`^([A-Z][A-Z0-9_]*)( |$)`)

// codeOf returns the first word of a text, if it may be the code of an error.
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

// errorText is what redis.error_reply makes of a text.
func errorText(k Kind) Value {
	if s, ok := k.(Str); ok {
		word, _, _ := strings.Cut(s.S, " ")
		return Of(Text{Class: Built, Code: word})
	}
	return Of(Text{Class: Built, Code: codeOf(k)})
}

// startsWith is codeOf for a text of which a kind is the first part. A star ends a word that may go on.
func startsWith(k Kind) string {
	word := codeOf(k)
	if s, ok := k.(Str); ok && word != "" && !strings.Contains(s.S, " ") {
		return word + "*"
	}
	return word
}

// isCode reports whether a word may be a code, as far as it is known.
func isCode(word, code string) bool {
	start, open := strings.CutSuffix(word, "*")
	return word == code || open && strings.HasPrefix(code, start)
}

// makesError notes that the script makes an error.
func (a *analyzer) makesError(n ast.Expr, text Value) {
	pos := a.script.Pos(n)
	a.facts.Errors[pos] = Join(a.facts.Errors[pos], text)
}

// Replies reports whether an error of which a value is the text has the code, or may have it: of a text
// that the script takes from elsewhere nobody knows how it starts.
func (v Value) Replies(word string) bool {
	return v.mayBe(func(k Kind) bool {
		switch t := k.(type) {
		case Str, Raised: // what pcall answers was raised elsewhere
			return codeOf(k) == word
		case Text:
			return isCode(t.Code, word) || t.Code == "" && t.Class != Wording
		}
		return TypeOf(k) == "string" || TypeOf(k) == ""
	})
}

// Starts reports whether a text starts with a word.
func (v Value) Starts(word string) bool {
	return v.mayBe(func(k Kind) bool { return isCode(codeOf(k), word) })
}

// Replies reports whether an error with the code is all of a value, or a part of it.
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
