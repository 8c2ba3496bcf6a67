package try

import (
	"math"
	"strconv"
	"strings"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// level says how much a value excuses. If a call fails with an ordinary value, the script is at fault.
type level int

const (
	ordinary level = iota
	extreme        // the prose may exclude it, so the script may fail; a reply must fit
	free           // the script may expect something that the header does not say
)

// value is a possible value of an argument.
type value struct {
	text  string
	level level
	large bool // it may cause as many loops, or as much memory in the server
}

// prefix begins all keys and channels of a run. Its hash tag puts them into one slot.
const prefix = "{redislua-try}:"

// valuesOf returns the values of an argument to try, the plainest first.
func valuesOf(p script.Param) []value {
	if p.Skipped {
		return []value{{}}
	}
	var values []value
	switch p.Type.Base {
	case "string", "bytes":
		values = append(levels(ordinary, "a", "b", "5"),
			levels(extreme, "", "1.5", "nan", "1e300", "\x00\xff", strings.Repeat("x", 1024))...)
	case "int":
		values = append(levels(ordinary, "1", "2", "10"), levels(extreme, "0", "-1")...)
		for _, n := range []int64{1 << 31, 1 << 53, -1 << 53, math.MaxInt64} {
			values = append(values, value{strconv.FormatInt(n, 10), extreme, true})
		}
	case "float":
		values = append(levels(ordinary, "1", "2", "10"), levels(extreme, "0.5", "0", "-1")...)
		values = append(values, value{strconv.FormatFloat(1e300, 'f', -1, 64), extreme, true})
	case "duration":
		values = levels(ordinary, "1500", "3600000")
		values = append(values, value{"1", extreme, false}, value{"315360000000", extreme, true},
			value{strconv.FormatInt(math.MaxInt64/1_000_000, 10), extreme, true})
	case "time":
		values = append(levels(ordinary, "1700000000000", "4102444800000"), value{"1", extreme, true})
	case "bool":
		values = levels(ordinary, "1", "0")
	case "json":
		values = levels(free, `{}`, `{"a":1}`, `[]`, `["a"]`, `null`, `1`, `"a"`)
	case script.EnumType:
		values = levels(ordinary, p.Type.Values...)
	case script.ChannelType:
		values = levels(ordinary, prefix+p.Name)
	}
	if p.Type.Optional {
		values = append(values, value{})
	}
	return values
}

// isText reports whether an argument may be any text.
func isText(p script.Param) bool { return p.Type.Base == "string" || p.Type.Base == "bytes" }

func levels(l level, texts ...string) []value {
	var values []value
	for _, text := range texts {
		values = append(values, value{text: text, level: l})
	}
	return values
}

// count is the number of words of a variadic entry.
type count struct {
	n     int
	level level
}

// countsOf returns the numbers of words to try for the variadic entries: of keys, and of arguments. A script
// may take its arguments in pairs or in threes, and one for each key.
func countsOf(s *script.Script) []count {
	keys, args := variadic(s.Keys), variadic(s.Args)
	switch {
	case args:
		return []count{{6, ordinary}, {300, ordinary}, {1, free}, {0, free}, {2, free}}
	case keys:
		return []count{{2, ordinary}, {1, ordinary}, {300, ordinary}, {0, free}}
	}
	return []count{{}}
}

func variadic(params []script.Param) bool {
	return len(params) > 0 && params[len(params)-1].Variadic
}
