package analyze

import (
	"fmt"
	"strconv"
	"strings"
)

// reason says where and why the knowledge was lost, for a message.
func (k Unknown) reason() string { return fmt.Sprintf("line %d: %s", k.Pos.Line, k.Why) }

// Found reports whether a finding already names the place where the knowledge was lost.
func (v Value) Found() bool {
	k, top := v.Top()
	return top && k.Found
}

// Reason says where and why the value is unknown; empty: it is known.
func (v Value) Reason() string {
	if k, top := v.Top(); top {
		return k.reason()
	}
	return ""
}

// DescribeValue names what a value may be, for a message.
func DescribeValue(v Value) string {
	var list []string
	for _, k := range v.kinds {
		if d := Describe(k); len(list) == 0 || list[len(list)-1] != d {
			list = append(list, d)
		}
	}
	return strings.Join(list, " or ")
}

// Describe names a kind, for a message.
func Describe(k Kind) string {
	switch k := k.(type) {
	case Nil, Absent:
		return "nil"
	case Missing:
		if k.Nil {
			return "nil"
		}
		return "false"
	case Bool:
		return strconv.FormatBool(k.V)
	case Str:
		return "the string " + strconv.Quote(k.S)
	case Empty:
		return "the empty string"
	case Num:
		return "the number " + numberText(k.F)
	case Text, Raised:
		return "a string"
	case Number:
		return "a number"
	case Key:
		return placeOf("KEYS", k.Index)
	case Arg:
		return placeOf("ARGV", k.Index)
	case Read:
		if k.Number {
			return "a number"
		}
		return "what " + strings.ToUpper(k.Command) + " answers"
	case Ref:
		return "a table"
	case Command, Closure:
		return "a function"
	case Builtin:
		return k.Name
	}
	return "unknown"
}

func placeOf(table string, index int) string {
	if index == 0 {
		return "one of " + table
	}
	return fmt.Sprintf("%s[%d]", table, index)
}
