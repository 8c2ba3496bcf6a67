package fuzz

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
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
	list(integer(1), integer(5), integer(1000), integer(0), integer(0)), // granted
	list(integer(0), integer(0), integer(1000), integer(0), integer(0)), // held; not freed, and nowhere
	list(integer(0), integer(0), integer(1000), integer(9), integer(0)), // queued
	list(integer(1), integer(0), integer(0), integer(0), integer(0)),    // freed
	list(integer(1), integer(1), integer(6), integer(1000), integer(0)), // freed, and granted again
	list(integer(1), integer(0), integer(0), integer(0), integer(9)),    // freed, and queued again
	list(integer(1), integer(0), integer(5)),                            // acquired without the queue
	list(integer(0), integer(1000), integer(0)),                         // held
	list(integer(1), integer(5), integer(1), integer(0)),                // handed over; a set is acquired
	list(list(text("token")), list(integer(1000))),                      // inspected
	list(list(value{kind: 'N', wire: "_\r\n"}), list(integer(-2))),      // and free
	list(list(), list()), // a set of none
	integer(0), integer(1), list(), list(integer(1)), text("token"),
	// a try: another's, and nothing is done
	taken, list(integer(2), integer(1000)), list(integer(0), integer(0)),
}

// taken is the reply to a try that a lock was acquired.
var taken = list(integer(1), integer(5))

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
		items := b.of(7)
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
