package analyze

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// mapBytes replaces the letters of a range by the letters of another. The servers' Lua knows only the letters
// of ASCII.
func mapBytes(text string, from, to, start byte) string {
	mapped := []byte(text)
	for i, b := range mapped {
		if from <= b && b <= to {
			mapped[i] = b - from + start
		}
	}
	return string(mapped)
}

// hasPlaces reports whether a pattern may capture a place, which is a number.
func hasPlaces(pattern Value) bool {
	text, known := pattern.Str()
	return !known || strings.Contains(text, "()")
}

var (
	// sets matches the sets of a pattern, and first each text that only looks like the start of a set.
	sets     = regexp.MustCompile(`(?s)%b..|%.|\[\^?(?:%.|[^%])(?:%.|[^\]%])*\]`)
	captured = regexp.MustCompile(`\(([^()]*)\)`)
	digits   = regexp.MustCompile(`^(-\??)?((%d|\[0-9\])\+?)+$`)
)

// onlyDigits reports whether the matches of a pattern are digits, with or without a minus. Lua reads a
// pattern up to its first NUL. anchors says that a ^ at the start of the pattern is an anchor, and not a
// character.
func onlyDigits(pattern Value, anchors bool) bool {
	text, known := pattern.Str()
	text = sets.ReplaceAllStringFunc(text, func(part string) string {
		if part[0] == '%' || part == "[0-9]" {
			return part
		}
		return "." // parentheses in a set capture nothing
	})
	if !known || strings.Contains(text, "\x00") || strings.Contains(text, "%(") || strings.Contains(text, "%)") {
		return false
	}
	found := captured.FindAllStringSubmatch(text, -1)
	if len(found) == 0 {
		if anchors {
			text = strings.TrimPrefix(text, "^")
		}
		return digits.MatchString(strings.TrimSuffix(text, "$"))
	}
	return !slices.ContainsFunc(found, func(group []string) bool { return !digits.MatchString(group[1]) }) &&
		strings.Count(text, "(") == len(found)
}

// captures are the values of a match.
func captures(places, onlyDigits bool, unit Unit) List {
	class := Built
	if onlyDigits {
		class = Digits
	}
	l := List{Items: []Value{Of(Text{Class: class, Unit: unit}, Nil{})},
		Rest: Of(Text{Class: class, Unit: unit}), Open: true}
	if places {
		l.Items[0], l.Rest = Join(l.Items[0], anyIndex), Join(l.Rest, anyIndex)
	}
	return l
}

var directive = regexp.MustCompile(`%([-+ #0]*)([0-9]*)(\.[0-9]*)?([a-zA-Z%])`)

// format returns the class of the text that a format makes.
func (a *analyzer) format(args List) Value {
	pattern, known := args.at(0).Str()
	built := Of(Text{Class: Built, Unit: a.rewritten(args.from(1).all())})
	if !known {
		return built
	}
	found := directive.FindAllStringSubmatch(pattern, -1)
	switch {
	case !strings.Contains(pattern, "%"):
		return Of(Str{S: pattern})
	case len(found) == 0:
		return built
	}
	start, _, _ := strings.Cut(pattern, found[0][0])
	padded := found[0][1] != "" && found[0][1] != "0" || found[0][1] == "" && found[0][2] != "" // by spaces
	switch {
	case wording(Str{S: start}):
		return Of(Text{Class: Wording, Code: startsWith(Str{S: start})})
	case found[0][0] != pattern || padded:
		return built
	}
	unit, undefined := None, false
	for _, k := range args.at(1).kinds {
		if q, ok := a.operandOf(k); ok {
			if undefined = undefined || q.undefined; unit != None && q.unit != None && unit != q.unit {
				q.unit = Lost
			}
			unit = cmp.Or(q.unit, unit)
		}
	}
	precision, verb := found[0][3], found[0][4]
	whole := strings.ContainsAny(verb, "di")
	none := precision != "" && strings.Trim(precision, ".0") == "" // digits: "." means ".0"
	zeros := found[0][1] == "0" || whole && precision != ""        // %.3d
	switch {
	case whole && none: // the text of 0 is empty
		return built
	case verb == "f" && none && undefined: // nan or inf
		return Of(Text{Class: Fraction, Unit: unit, Undefined: true})
	case whole || verb == "f" && none:
		return Of(Text{Class: Integer, Unit: unit, Undefined: zeros})
	case strings.Contains("eEfgG", verb):
		return Of(Text{Class: Fraction, Unit: unit, Undefined: undefined || zeros})
	case verb == "s" && found[0][0] == "%s":
		return args.at(1).each(func(k Kind) Value {
			switch k := k.(type) {
			case Key: // a short key ends at its first NUL, and is then another text
				return Of(Text{Class: Built})
			case Str:
				if strings.Contains(k.S, "\x00") {
					return Of(Text{Class: Built})
				}
			case Arg:
				if class, _ := a.argClass(k.Index); class == Any {
					return Of(Text{Class: Built})
				}
			case Read:
				return Of(Text{Class: Any})
			}
			return a.asText(k)
		})
	}
	return built
}
