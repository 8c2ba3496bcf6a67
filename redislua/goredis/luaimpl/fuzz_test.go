package luaimpl

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
)

// serve answers EVAL with the next of answers, and what a client asks of its own
// accord as Redis does.
func serve(conn net.Conn, answers <-chan string) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		var words, size int
		if _, err := fmt.Fscanf(in, "*%d\r\n", &words); err != nil {
			return
		}
		command := make([]string, words)
		for i := range command {
			_, _ = fmt.Fscanf(in, "$%d\r\n", &size)
			word, _ := io.ReadAll(io.LimitReader(in, int64(size)+2))
			command[i] = string(word)
		}
		answer := "+OK\r\n"
		switch strings.ToUpper(command[0]) {
		case "HELLO\r\n":
			answer = "%2\r\n+version\r\n+7.0.15\r\n+proto\r\n:3\r\n"
		case "EVAL\r\n":
			answer = <-answers
		}
		_, _ = io.WriteString(conn, answer)
	}
}

// tree is a RESP3 value.
type tree struct {
	kind  byte // as in RESP; N for nil
	text  string
	n     int64
	items []tree
	wire  string
}

// seed reads trees out of a fuzzer's bytes.
type seed struct{ rest string }

func (s *seed) take(n int) string {
	n = min(n, len(s.rest))
	taken := s.rest[:n]
	s.rest = s.rest[n:]
	return taken
}

func (s *seed) byte() byte { return (s.take(1) + "\x00")[0] }

// texts are those that some decoder takes a special interest in.
var texts = []string{
	"", "OK", "0", "1", "-7", "2.5", "1e999", "nan", "-nan", "-inf", "0x10",
	"9223372036854775807", "9223372036854775808",
	"-9223372036854775808", `{"X":1}`, `{"X":"a"}`, `null`, `[1]`, "{", "STALE now", "\xff",
}

func (s *seed) text() string {
	b := int(s.byte())
	if b < len(texts) {
		return texts[b]
	}
	return s.take(b % 16)
}

func (s *seed) number() int64 {
	ends := []int64{math.MaxInt64, math.MinInt64, math.MaxInt64 / int64(time.Millisecond),
		math.MinInt64/int64(time.Millisecond) - 1}
	if b := int(s.byte()); b < 20 {
		return append(ends, -2, -1, 0, 1, 2, 1000)[b%10]
	}
	return int64(binary.BigEndian.Uint64([]byte(s.take(8) + "01234567")))
}

const kinds = "+$:N*%~-,#!=(|"

func (s *seed) tree(depth int) tree {
	t := tree{kind: kinds[int(s.byte())%len(kinds)]}
	if depth == 0 && strings.IndexByte("*%~|", t.kind) >= 0 {
		t.kind = 'N'
	}
	switch t.kind {
	case '+', '-', ',', '(':
		t.text = strings.NewReplacer("\r", "", "\n", "").Replace(s.text())
		t.wire = string(t.kind) + t.text + "\r\n"
	case '$', '!', '=':
		t.text = s.text()
		t.wire = fmt.Sprintf("%c%d\r\n%s\r\n", t.kind, len(t.text), t.text)
	case ':':
		t.n = s.number()
		t.wire = fmt.Sprintf(":%d\r\n", t.n)
	case '#':
		t.n = int64(s.byte() % 2)
		t.wire = []string{"#f\r\n", "#t\r\n"}[t.n]
	case 'N':
		t.wire = []string{"_\r\n", "$-1\r\n", "*-1\r\n"}[s.byte()%3]
	case '|': // an attribute stands before a value and says nothing of it
		key, value, t := s.tree(depth-1), s.tree(depth-1), s.tree(depth-1)
		t.wire = "|1\r\n" + key.wire + value.wire + t.wire
		return t
	default:
		n := int(s.byte()) % 5
		t.wire = fmt.Sprintf("%c%d\r\n", t.kind, n)
		if t.kind == '%' {
			n *= 2
		}
		for range n {
			t.items = append(t.items, s.tree(depth-1))
			t.wire += t.items[len(t.items)-1].wire
		}
	}
	return t
}

// want is what a decoder must answer, and whether it must answer at all.
type want[T any] func(tree) (T, bool)

// as is want for a decoder of strings that some other decoder takes, too.
func as[T any](parse func(string) (T, error)) want[T] {
	return func(m tree) (T, bool) {
		v, err := parse(m.text)
		return v, err == nil && (m.kind == '+' || m.kind == '$')
	}
}

func fromJSON[T any](text string) (v T, err error) {
	err = json.Unmarshal([]byte(text), &v)
	return v, err
}

func wantInt(m tree) (int64, bool) {
	if m.kind == ':' {
		return m.n, true
	}
	return as(func(text string) (int64, error) { return strconv.ParseInt(text, 10, 64) })(m)
}

func wantBool(m tree) (bool, bool) {
	isText, isNumber := m.kind == '+' || m.kind == '$', m.kind == ':' || m.kind == '#'
	yes := isText && (m.text == "OK" || m.text == "1") || isNumber && m.n == 1
	return yes, yes || m.kind == 'N' || isText && m.text == "0" || isNumber && m.n == 0
}

func wantFloat(m tree) (float64, bool) {
	if m.kind == ',' {
		m.kind = '+'
	}
	return as(func(text string) (float64, error) {
		if text == "-nan" {
			text = "nan"
		}
		return strconv.ParseFloat(text, 64)
	})(m)
}

// wantDuration: what is too long for Go keeps its sign and becomes the longest.
func wantDuration(m tree) (time.Duration, bool) {
	n, ok := wantInt(m)
	switch longest := int64(math.MaxInt64 / time.Millisecond); {
	case n > longest:
		return math.MaxInt64, ok
	case n < -longest:
		return math.MinInt64, ok
	}
	return time.Duration(n) * time.Millisecond, ok
}

func wantTime(m tree) (time.Time, bool) {
	n, ok := wantInt(m)
	return time.UnixMilli(n), ok
}

func wantNull[T any](want want[T]) want[redislua.Null[T]] {
	return func(m tree) (redislua.Null[T], bool) {
		v, ok := want(m)
		if m.kind == 'N' || m.kind == '#' && m.n == 0 {
			return redislua.Null[T]{}, true
		}
		return redislua.Null[T]{V: v, Valid: true}, ok
	}
}

func wantList[T any](want want[T]) want[[]T] {
	return func(m tree) ([]T, bool) {
		values, all := make([]T, len(m.items)), m.kind == '*' || m.kind == '~'
		for i, item := range m.items {
			v, ok := want(item)
			values[i], all = v, all && ok
		}
		return values, all
	}
}

func wantMap[T any](want want[T]) want[map[string]T] {
	return func(m tree) (map[string]T, bool) {
		if len(m.items)%2 != 0 || strings.IndexByte("*~%", m.kind) < 0 {
			return nil, false
		}
		values, all, last, twice := map[string]T{}, true, map[string]bool{}, false
		for i := 0; i < len(m.items); i += 2 {
			key, value := m.items[i], m.items[i+1]
			v, ok := want(value)
			all = all && (key.kind == '+' || key.kind == '$')
			_, seen := last[key.text]
			twice = twice || seen
			values[key.text], last[key.text] = v, ok // a map that repeats a key has its last value
		}
		if twice && m.kind != '%' {
			return nil, false
		}
		for _, ok := range last {
			all = all && ok
		}
		return values, all
	}
}

// wantPairs: lists of two values, or all of them in turn.
func wantPairs(m tree) ([]pair, bool) {
	items := m.items
	if len(items) > 0 && (items[0].kind == '*' || items[0].kind == '~') {
		items = nil
		for _, item := range m.items {
			if len(item.items) != 2 || item.kind != '*' && item.kind != '~' {
				return nil, false
			}
			items = append(items, item.items...)
		}
	}
	if len(items)%2 != 0 || m.kind != '*' && m.kind != '~' {
		return nil, false
	}
	pairs := []pair{}
	for i := 0; i < len(items); i += 2 {
		member, ok1 := as(func(text string) (string, error) { return text, nil })(items[i])
		score, ok2 := wantInt(items[i+1])
		if !ok1 || !ok2 {
			return nil, false
		}
		pairs = append(pairs, pair{member, score})
	}
	return pairs, true
}

// holds checks that a decoder answers what it must, or says why it cannot.
func holds[T any](
	t *testing.T, name string, m tree, reply Result, decode func(Message) (T, error), want want[T],
) {
	t.Helper()
	s := &Lua{pkg: "bindings", name: "Script", errors: map[string]error{"STALE": errStale}}
	got, err := DecodeReply(s, reply, decode)
	answer, ok := want(m)
	refused := m.kind == '-' || m.kind == '!'
	if ok && !refused {
		require.NoError(t, err, "%s of %q", name, m.wire)
		require.Equal(t, fmt.Sprintf("%#v", answer), fmt.Sprintf("%#v", got), "%s of %q", name, m.wire)
		return
	}
	require.Error(t, err, "%s of %q is %#v", name, m.wire, got)
	require.Zero(t, got, "%s of %q", name, m.wire)
	code, _, _ := strings.Cut(m.text, " ")
	require.Equal(t, !refused, errors.As(err, new(*redislua.ReplyError)), "%s of %q: %v", name, m.wire, err)
	require.Equal(t, refused && code == "STALE", errors.Is(err, errStale), "%s of %q: %v", name, m.wire, err)
}

// FuzzDecode: of any reply, a decoder answers what the reply means or an error.
func FuzzDecode(f *testing.F) {
	for i := range 24 * len(kinds) {
		f.Add(string([]byte{byte(i), byte(i / len(kinds)), 1, 0, 2, 3, 1, 7, 0, 2, 1, 1}))
	}
	f.Add("\x04\x82\x04\x01\x02\x09\x04\x02\x01\x00\x02\x0a")         // lists in a list
	f.Add("\x04\x02\x04\x02\x01\x04\x02\x03\x04\x02\x01\x04\x02\x03") // pairs
	f.Add("\x05\x02\x01\x04\x02\x03\x01\x04\x01\x03")                 // a map with a key twice
	answer := newPuppet(f)
	str := as(func(text string) (string, error) { return text, nil })
	f.Fuzz(func(t *testing.T, data string) {
		m := (&seed{data}).tree(4)
		if !readable(m) {
			return
		}
		reply := answer(t.Context(), m.wire)
		holds(t, "string", m, reply, DecodeString, str)
		holds(t, "bytes", m, reply, DecodeBytes, as(func(text string) ([]byte, error) { return []byte(text), nil }))
		holds(t, "int", m, reply, DecodeInt, wantInt)
		holds(t, "bool", m, reply, DecodeBool, wantBool)
		holds(t, "ok", m, reply, DecodeOK, func(m tree) (struct{}, bool) {
			return struct{}{}, m.text == "OK" && (m.kind == '+' || m.kind == '$')
		})
		holds(
			t, "nothing", m, reply, DecodeNothing, func(m tree) (struct{}, bool) { return struct{}{}, m.kind == 'N' },
		)
		holds(t, "float", m, reply, DecodeFloat, wantFloat)
		holds(t, "duration", m, reply, DecodeDuration, wantDuration)
		holds(t, "time", m, reply, DecodeTime, wantTime)
		holds(t, "json", m, reply, DecodeJSON, as(func(text string) (json.RawMessage, error) {
			_, err := fromJSON[json.RawMessage](text)
			return json.RawMessage(text), err
		}))
		holds(t, "json as", m, reply, DecodeJSONAs[point], as(fromJSON[point]))
		holds(t, "int?", m, reply, DecodeNull(DecodeInt), wantNull(wantInt))
		holds(t, "[]string?", m, reply, DecodeList(DecodeNull(DecodeString)), wantList(wantNull(str)))
		holds(t, "[][]float", m, reply, DecodeList(DecodeList(DecodeFloat)), wantList(wantList(wantFloat)))
		holds(t, "[](member string, score int)", m, reply, DecodeStructs(2, readPair), wantPairs)
		holds(t, "map[string]int", m, reply, DecodeMap(DecodeInt), wantMap(wantInt))
		holds(t, "map[string][]time", m, reply, DecodeMap(DecodeList(DecodeTime)), wantMap(wantList(wantTime)))
	})
}
