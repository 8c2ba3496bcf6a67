package script

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Type is the declared type of a key, of an argument, or of a reply's value.
type Type struct {
	Kind     TypeKind
	Base     string   // of a scalar: one of Bases, or key, channel, enum, raw
	Named    string   // of json: the Go type, as import/path.Name or Name; empty: any
	Values   []string // of enum: its possible values
	Elem     *Type    // of a list or a map
	Fields   []Field  // of a struct, in the order of the reply
	Optional bool     // T?: absent as an argument, nil in a reply
}

// TypeKind is scalar, or a way to build a type from others.
type TypeKind int

// The kinds of types. Keys and arguments are always scalars.
const (
	Scalar TypeKind = iota
	List
	Map    // from string
	Struct // a list with one value for each field
)

// Field is one named value of a struct.
type Field struct {
	Name string
	Type Type
	Doc  string
}

// Bases are the scalar types of arguments and replies, in the order that messages show.
var Bases = []string{"string", "bytes", "int", "bool", "float", "duration", "time", "json"}

// Types that are for one place only.
const (
	KeyType      = "key"      // KEYS entries
	ChannelType  = "channel"  // KEYS and ARGV entries: a channel of PUBLISH or SPUBLISH
	ChannelsType = "channels" // KEYS entries: the start of channel names
	EnumType     = "enum"     // ARGV entries: one of the texts that the header lists
	RawType      = "raw"      // replies: any message
)

// optionalArgs are the types that can be absent, because no present value looks like an absent one. No lease
// is zero, no instant is the zero time, and no channel and no enum value is empty.
var optionalArgs = []string{"duration", "time", ChannelType, EnumType}

// String returns the type as a header spells it.
func (t Type) String() string {
	text := t.Base
	switch t.Kind {
	case List:
		text = "[]" + t.Elem.String()
	case Map:
		text = "map[string]" + t.Elem.String()
	case Struct:
		text = "(" + FieldList(t.Fields) + ")"
	case Scalar:
		if t.Named != "" {
			text += "(" + t.Named + ")"
		}
		if t.Base == EnumType {
			text += "(" + strings.Join(t.Values, "|") + ")"
		}
	}
	switch {
	case !t.Optional:
		return text
	case t.Kind == List || t.Kind == Map: // []T? would be a list of T?
		return "(" + text + ")?"
	}
	return text + "?"
}

// Sends reports whether a call may send the text as a present value of the type.
func (t Type) Sends(text string) bool {
	whole, err := strconv.ParseInt(text, 10, 64)
	isInt := err == nil && strconv.FormatInt(whole, 10) == text
	switch t.Base {
	case "int", "time":
		return isInt
	case "duration":
		return isInt && whole > 0
	case "bool":
		return text == "0" || text == "1"
	case "float":
		f, err := strconv.ParseFloat(text, 64)
		return err == nil && text != "-0" && strconv.FormatFloat(f, 'f', -1, 64) == text
	case "json":
		return json.Valid([]byte(text))
	case EnumType:
		return slices.Contains(t.Values, text)
	case KeyType, ChannelType, ChannelsType:
		return text != ""
	}
	return true
}

// FieldList returns fields as a header spells them, without parentheses.
func FieldList(fields []Field) string {
	var list []string
	for _, f := range fields {
		list = append(list, f.Name+" "+f.Type.String())
	}
	return strings.Join(list, ", ")
}

var (
	namedJSON = regexp.MustCompile(`^json\(((?:[A-Za-z0-9_.~/-]+\.)?[A-Z][A-Za-z0-9_]*)\)$`)
	enumForm  = regexp.MustCompile(`^enum\(([^()]*)\)$`)
	enumValue = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_.:-]*$`)
)

// scalar reads T or T?, where T is one of Bases or json(GoType).
func scalar(text string) (Type, error) {
	base, optional := strings.CutSuffix(text, "?")
	t := Type{Base: base, Optional: optional}
	if m := namedJSON.FindStringSubmatch(base); m != nil {
		t.Base, t.Named = "json", m[1]
	}
	if strings.HasPrefix(base, "json(") && t.Named == "" {
		return t,
			fmt.Errorf("%s names no Go type; want an exported name as in json(Order) or json(example.com/shop.Order)",
				quote(text))
	}
	if !slices.Contains(Bases, t.Base) {
		return t, fmt.Errorf("unknown type %s; want %s", quote(text), strings.Join(Bases, "|"))
	}
	return t, nil
}

// parseArgType reads the type of an ARGV entry.
func parseArgType(text string) (Type, error) {
	base, optional := strings.CutSuffix(text, "?")
	switch {
	case base == ChannelType:
		return Type{Base: ChannelType, Optional: optional}, nil
	case base == EnumType || strings.HasPrefix(base, EnumType+"("):
		t, err := parseEnum(base)
		t.Optional = optional
		return t, err
	}
	t, err := scalar(text)
	if err != nil {
		return t, fmt.Errorf("%w, channel, enum(a|b) or json(GoType)", err)
	}
	if t.Optional && !slices.Contains(optionalArgs, t.Base) {
		return t,
			fmt.Errorf("an argument of type %s cannot be optional, because its zero value is a value; only %s can",
				t.Base, strings.Join(optionalArgs, ", "))
	}
	return t, nil
}

// parseEnum reads enum(a|b).
func parseEnum(text string) (Type, error) {
	t := Type{Base: EnumType}
	m := enumForm.FindStringSubmatch(text)
	if m == nil {
		return t, fmt.Errorf("%s lists no values; want them as in enum(publish|spublish)", quote(text))
	}
	names := map[string]string{}
	for value := range strings.SplitSeq(m[1], "|") {
		value = strings.TrimSpace(value)
		if !enumValue.MatchString(value) {
			return t, fmt.Errorf("enum: %s is not a value; want letters, digits and _.:- as in enum(publish|spublish)",
				quote(value))
		}
		name := ValueName(value)
		if other, taken := names[name]; taken {
			return t, fmt.Errorf("enum: %s and %s become the same Go name %s", quote(other), quote(value), name)
		}
		names[name] = value
		t.Values = append(t.Values, value)
	}
	return t, nil
}

// ValueName returns the part of a Go name for an enum value: PUBLISH and publish become Publish.
func ValueName(value string) string {
	if value == strings.ToUpper(value) {
		value = strings.ToLower(value)
	}
	return Camel(strings.ReplaceAll(value, ":", "_"))
}

// parseReply reads the text of a returns directive. It is one type, or names with types, which are a struct.
func parseReply(text string) (Type, error) {
	text = strings.TrimSpace(text)
	if len(cut(text, ',')) == 1 && len(cut(text, ' ')) <= 1 {
		return parseResultType(text)
	}
	return parseFields(text)
}

// parseFields reads names with types. Its error joins the faults of all fields.
func parseFields(text string) (Type, error) {
	t := Type{Kind: Struct}
	var failed error
	names := map[string]bool{}
	for _, part := range cut(text, ',') {
		part = strings.TrimSpace(part)
		words := cut(part, ' ')
		if len(words) != 2 || !paramName.MatchString(words[0]) {
			failed = errors.Join(failed,
				fmt.Errorf("%s is not a name and a type; want a list such as: acquired bool, remaining duration",
					quote(part)))
			continue
		}
		typ, err := parseResultType(words[1])
		if err != nil {
			failed = errors.Join(failed, fmt.Errorf("%s: %w", words[0], err))
		}
		if field := Camel(words[0]); names[field] {
			failed = errors.Join(failed,
				fmt.Errorf("%s is taken twice; names become the fields of one struct, this one %s", words[0], field))
		} else {
			names[field] = true
		}
		t.Fields = append(t.Fields, Field{Name: words[0], Type: typ})
	}
	return t, failed
}

// parseResultType reads the type of a value in a reply.
func parseResultType(text string) (Type, error) {
	if rest, found := strings.CutPrefix(text, "[]"); found {
		elem, err := parseResultType(rest)
		return Type{Kind: List, Elem: &elem}, err
	}
	if rest, found := strings.CutPrefix(text, "map[string]"); found {
		elem, err := parseResultType(rest)
		return Type{Kind: Map, Elem: &elem}, err
	}
	if strings.HasPrefix(text, "(") {
		return parseGroup(text)
	}
	switch text {
	case RawType:
		return Type{Base: RawType}, nil
	case RawType + "?":
		return Type{Base: RawType}, fmt.Errorf("a raw reply may be nil anyway; leave the ? out")
	}
	t, err := scalar(text)
	if err != nil {
		return t,
			fmt.Errorf(
				"%w, json(GoType), raw, T?, []T, map[string]T, or a struct such as (member string, score float)", err)
	}
	return t, nil
}

// parseGroup reads (T), (T)? or (name T, name T)?.
func parseGroup(text string) (Type, error) {
	inner, rest, ok := group(text)
	if !ok || rest != "" && rest != "?" {
		return Type{}, fmt.Errorf("the parentheses of %s do not match", quote(text))
	}
	t, err := parseReply(inner)
	switch {
	case err != nil || rest == "":
		return t, err
	case t.Optional:
		return t, fmt.Errorf("%s is optional twice; one ? is enough", quote(text))
	case t.Base == RawType:
		return t, fmt.Errorf("a raw reply may be nil anyway; leave the ? out")
	}
	t.Optional = true
	return t, nil
}

// cut splits text at separators outside of parentheses. Several spaces in a row are one separator.
func cut(text string, separator rune) []string {
	var parts []string
	depth, start := 0, 0
	for i, r := range text {
		switch r {
		case '(':
			depth++
		case ')':
			depth--
		}
		if r == separator && depth == 0 {
			parts = append(parts, text[start:i])
			start = i + 1
		}
	}
	parts = append(parts, text[start:])
	if separator == ' ' {
		parts = slices.DeleteFunc(parts, func(part string) bool { return part == "" })
	}
	return parts
}

// group returns the text between the first parenthesis and its match, and the rest after the match.
func group(text string) (inner, rest string, ok bool) {
	depth := 0
	for i, r := range text {
		switch r {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				return text[1:i], text[i+1:], true
			}
		}
	}
	return "", "", false
}
