package oracle

import "strings"

// replyType is the type of a reply's value.
type replyType struct {
	Name     string      // name of a scalar type, or list, map, struct
	Elem     *replyType  // of a list or a map
	Fields   []replyType // of a struct
	Optional bool
}

// parseType reads a type as a header spells it.
func parseType(text string) replyType {
	text = strings.TrimSpace(text)
	if fields := outside(text, ','); len(fields) > 1 {
		t := replyType{Name: "struct"}
		for _, field := range fields {
			_, kind, _ := strings.Cut(strings.TrimSpace(field), " ")
			t.Fields = append(t.Fields, parseType(kind))
		}
		return t
	}
	for prefix, name := range map[string]string{"[]": "list", "map[string]": "map"} {
		if rest, ok := strings.CutPrefix(text, prefix); ok {
			elem := parseType(rest)
			return replyType{Name: name, Elem: &elem}
		}
	}
	rest, optional := strings.CutSuffix(text, "?")
	if inner, ok := strings.CutPrefix(rest, "("); ok {
		t := parseType(strings.TrimSuffix(inner, ")"))
		t.Optional = optional
		return t
	}
	return replyType{Name: rest, Optional: optional}
}

// outside splits text at the separators outside parentheses.
func outside(text string, separator rune) []string {
	var parts []string
	depth, start := 0, 0
	for i, r := range text {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		case separator:
			if depth == 0 {
				parts = append(parts, text[start:i])
				start = i + 1
			}
		}
	}
	return append(parts, text[start:])
}

// scalar reports whether the type has no parts.
func (t replyType) scalar() bool { return t.Elem == nil && t.Fields == nil }
