package fuzz

import (
	"encoding/binary"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
)

// value is a RESP3 value.
type value struct {
	kind  byte // as in RESP; N for nil
	text  string
	n     int64
	items []value
	wire  string
}

func integer(n int64) value { return value{kind: ':', n: n, wire: fmt.Sprintf(":%d\r\n", n)} }

func text(s string) value {
	return value{kind: '$', text: s, wire: fmt.Sprintf("$%d\r\n%s\r\n", len(s), s)}
}

func list(items ...value) value {
	v := value{kind: '*', items: items, wire: fmt.Sprintf("*%d\r\n", len(items))}
	for _, item := range items {
		v.wire += item.wire
	}
	return v
}

// int is what the value says where an integer is wanted.
func (v value) int() (int64, bool) {
	if v.kind == ':' {
		return v.n, true
	}
	n, err := strconv.ParseInt(v.text, 10, 64)
	return n, err == nil && v.isText()
}

func (v value) isText() bool { return v.kind == '$' || v.kind == '+' }

// isError reports whether the value is a refusal.
func (v value) isError() bool { return v.kind == '-' || v.kind == '!' }

// yes is whether the value says so where yes or no is wanted. A script may have stored a
// bool argument as the text 1.
func (v value) yes() bool {
	return v.isText() && (v.text == "OK" || v.text == "1") || (v.kind == ':' || v.kind == '#') && v.n == 1
}

// isBool reports whether the value is yes or no.
func (v value) isBool() bool {
	return v.yes() || v.isNil() || v.isText() && v.text == "0" || v.kind == ':' && v.n == 0
}

// isNil reports what stands for no value.
func (v value) isNil() bool { return v.kind == 'N' || v.kind == '#' && v.n == 0 }

// isList reports whether the value is a list of n values.
func (v value) isList(n int) bool { return (v.kind == '*' || v.kind == '~') && len(v.items) == n }

// isListOf reports whether the value is a list of which each item is of a kind.
func (v value) isListOf(is func(value) bool) bool {
	return v.isList(len(v.items)) && !slices.ContainsFunc(v.items, func(item value) bool { return !is(item) })
}

// source has the bytes of a fuzzer, of which values and choices are made. When there are
// no more it goes on with zeros.
type source struct{ rest []byte }

func (b *source) take(n int) []byte {
	taken := make([]byte, n)
	b.rest = b.rest[copy(taken, b.rest):]
	return taken
}

func (b *source) byte() byte { return b.take(1)[0] }

// of chooses one of n.
func (b *source) of(n int) int { return int(b.byte()) % n }

// number is an interesting one or any.
func (b *source) number() int64 {
	interesting := []int64{math.MaxInt64, math.MinInt64, math.MaxInt64 / 1_000_000, math.MinInt64/1_000_000 - 1,
		-2, -1, 0, 1, 2, 1000, 1_000_000, 60_000_000_000}
	if i := b.of(2 * len(interesting)); i < len(interesting) {
		return interesting[i]
	}
	return int64(binary.BigEndian.Uint64(b.take(8)))
}

// texts are those that somebody takes a special interest in.
var texts = []string{
	"", "OK", "token", "0", "1", "-7", "9223372036854775808", "nan", "\xff",
	"NOPERM no", "NOSCRIPT no", "LOADING data", "READONLY replica", "TRYAGAIN later", "MOVED 1 a:1", "ASK 1 a:1",
	"ERR no",
}

func (b *source) text() string {
	if i := b.of(2 * len(texts)); i < len(texts) {
		return texts[i]
	}
	return string(b.take(b.of(16)))
}

// replies are those that scripts give, so that a fuzzer need not find them.
var replies = []value{
	joined, behind, queued,
	reply(gen.RequeueResult{Freed: true}),
	reply(gen.RequeueResult{Freed: true, Granted: true, Fence: 6, Remaining: 1000}),
	reply(gen.RequeueResult{Freed: true, Score: 9}),
	reply(gen.RequeueResult{}),
	reply(gen.HandOverResult{HandedOver: true, Fence: 5, Fences: 1}),
	reply(gen.HandOverResult{}),
	reply(gen.AcquireAllResult{Acquired: true, Remaining: 1000, Fence: 5}),
	reply(gen.AcquireAllResult{Remaining: 1000, Held: 1}),
	reply(gen.AttachResult{Remaining: 1000}),
	reply(gen.InspectResult{
		Values: []redislua.Null[string]{{V: "token", Valid: true}}, Remaining: []time.Duration{1000},
	}),
	reply(gen.InspectResult{Values: []redislua.Null[string]{{}}, Remaining: []time.Duration{-2}}), // free
	reply([]gen.AcquireManyItem{{Outcome: 1, Value: 5}, {Outcome: 2, Value: 1000}}),
	integer(0), integer(1), nothingLost, list(integer(1)), text("token"),
	taken, busy, undone,
}

// What scripts reply: of wait.lua, of extend.lua, and of acquire.lua.
var (
	joined = reply(gen.WaitResult{Granted: true, Fence: 5, Remaining: 1000})
	behind = reply(gen.WaitResult{Remaining: 1000}) // another has the lock, and the caller has no place
	queued = reply(gen.WaitResult{Remaining: 1000, Score: 9})

	nothingLost = reply([]int64{})

	taken  = reply(gen.AcquireResult{Outcome: 1, Value: 5})
	busy   = reply(gen.AcquireResult{Outcome: 2, Value: 1000})
	undone = reply(gen.AcquireResult{}) // the script has done nothing
)

// reply is the reply that the bindings decode as result. A time.Duration in it is a number of milliseconds, so
// that a server can say any number.
func reply(result any) value { return replyOf(reflect.ValueOf(result)) }

func replyOf(v reflect.Value) value {
	switch v.Kind() {
	case reflect.Bool:
		return integer(map[bool]int64{true: 1}[v.Bool()])
	case reflect.Int64:
		return integer(v.Int())
	case reflect.String:
		return text(v.String())
	}
	if null, is := v.Interface().(redislua.Null[string]); is {
		if !null.Valid {
			return value{kind: 'N', wire: "_\r\n"}
		}
		return text(null.V)
	}
	var items []value
	if v.Kind() == reflect.Struct {
		for i := range v.NumField() {
			items = append(items, replyOf(v.Field(i)))
		}
		return list(items...)
	}
	for i := range v.Len() {
		item := replyOf(v.Index(i))
		if item.kind == '*' { // a list of records has their values one after the other
			items = append(items, item.items...)
		} else {
			items = append(items, item)
		}
	}
	return list(items...)
}

// choice is what a source has to say for b.value to return one of replies.
func choice(v value) byte {
	i := slices.IndexFunc(replies, func(r value) bool { return r.wire == v.wire })
	return byte(len(kinds) + i)
}

// mostItems is more than a list that the fuzzer makes up has.
const mostItems = 7

const kinds = "+$:N*%~-,#!=(|"

// value is a reply of a script, or any value.
func (b *source) value(depth int) value {
	i := b.of(len(kinds) + len(replies))
	if i >= len(kinds) {
		return replies[i-len(kinds)]
	}
	v := value{kind: kinds[i]}
	if depth == 0 && strings.IndexByte("*%~|", v.kind) >= 0 {
		v.kind = 'N'
	}
	switch v.kind {
	case '+', '-', ',', '(':
		v.text = strings.NewReplacer("\r", "", "\n", "").Replace(b.text())
		v.wire = string(v.kind) + v.text + "\r\n"
	case '$', '!', '=':
		v.text = b.text()
		v.wire = fmt.Sprintf("%c%d\r\n%s\r\n", v.kind, len(v.text), v.text)
	case ':':
		return integer(b.number())
	case '#':
		v.n = int64(b.of(2))
		v.wire = []string{"#f\r\n", "#t\r\n"}[v.n]
	case 'N':
		v.wire = []string{"_\r\n", "$-1\r\n", "*-1\r\n"}[b.of(3)]
	case '|': // an attribute stands before a value and says nothing of it
		key, fact, v := b.value(depth-1), b.value(depth-1), b.value(depth-1)
		v.wire = "|1\r\n" + key.wire + fact.wire + v.wire
		return v
	default:
		items := b.of(mostItems)
		v.wire = fmt.Sprintf("%c%d\r\n", v.kind, items)
		if v.kind == '%' {
			items *= 2
		}
		for range items {
			v.items = append(v.items, b.value(depth-1))
			v.wire += v.items[len(v.items)-1].wire
		}
	}
	return v
}
