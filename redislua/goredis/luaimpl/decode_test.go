package luaimpl

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
)

// decodeCase runs a decoder over what a script returns.
func decodeCase[T any](
	lua string, decode func(Message) (T, error), want T, wrong string,
) func(t *testing.T, client Client) {
	return func(t *testing.T, client Client) {
		s := &Lua{pkg: "bindings", name: "Script"}
		got, err := DecodeReply(s, reply(t, client, lua), decode)
		require.Equal(t, want, got)
		if wrong == "" {
			require.NoError(t, err)
			return
		}
		require.EqualError(t, err, "bindings: Script: reply "+wrong)
		var facts *redislua.ReplyError
		require.ErrorAs(t, err, &facts)
		require.Equal(t, "Script", facts.Script)
	}
}

type point struct{ X int }

type pair struct {
	member string
	score  int64
}

func readPair(values []Message) (p pair, err error) {
	p.member, err = DecodeField(err, "member", values[0], DecodeString)
	p.score, err = DecodeField(err, "score", values[1], DecodeInt)
	return p, err
}

func TestDecode(t *testing.T) {
	t.Parallel()
	server := newClient(t)
	for name, test := range map[string]func(*testing.T, Client){
		"string":          decodeCase(`'a'`, DecodeString, "a", ""),
		"string, status":  decodeCase(`redis.status_reply('PONG')`, DecodeString, "PONG", ""),
		"string, integer": decodeCase(`1`, DecodeString, "", "is not a string but the integer 1"),
		"string, nil":     decodeCase(`false`, DecodeString, "", "is not a string but nil"),
		"bytes":           decodeCase(`'a\0b'`, DecodeBytes, []byte("a\x00b"), ""),
		"bytes, list":     decodeCase(`{}`, DecodeBytes, nil, "is not a string but a list"),
		"int":             decodeCase(`-7`, DecodeInt, int64(-7), ""),
		"int, text":       decodeCase(`'42'`, DecodeInt, int64(42), ""),
		"int, words": decodeCase(
			`'42 and more'`, DecodeInt, 0, `is not an integer but the string "42 and more"`,
		),
		"int, nil":           decodeCase(`nil`, DecodeInt, 0, "is not an integer but nil"),
		"bool, true":         decodeCase(`true`, DecodeBool, true, ""),
		"bool, false":        decodeCase(`false`, DecodeBool, false, ""),
		"bool, 1":            decodeCase(`1`, DecodeBool, true, ""),
		"bool, 0":            decodeCase(`0`, DecodeBool, false, ""),
		"bool, 2":            decodeCase(`2`, DecodeBool, false, "is not 0, 1, nil or OK but the integer 2"),
		"bool, OK":           decodeCase(`redis.status_reply('OK')`, DecodeBool, true, ""),
		"bool, stored":       decodeCase(`'1'`, DecodeBool, true, ""),
		"bool, stored false": decodeCase(`'0'`, DecodeBool, false, ""),
		"bool, text": decodeCase(
			`'true'`, DecodeBool, false, `is not 0, 1, nil or OK but the string "true"`,
		),
		"bool, empty": decodeCase(`''`, DecodeBool, false, `is not 0, 1, nil or OK but the string ""`),
		"bool, list":  decodeCase(`{1}`, DecodeBool, false, `is not 0, 1, nil or OK but a list`),
		"ok":          decodeCase(`redis.status_reply('OK')`, DecodeOK, struct{}{}, ""),
		"ok, other": decodeCase(
			`redis.status_reply('QUEUED')`, DecodeOK, struct{}{}, `is not OK but the string "QUEUED"`,
		),
		"nothing":       decodeCase(`nil`, DecodeNothing, struct{}{}, ""),
		"nothing, list": decodeCase(`{1, 2}`, DecodeNothing, struct{}{}, "is not nil but a list"),
		"float":         decodeCase(`'2.5'`, DecodeFloat, 2.5, ""),
		"float, integer": decodeCase(
			`2`,
			DecodeFloat,
			0.0,
			"is not a string but the integer 2, which has lost its fraction; "+
				"return a string, such as that of tostring or string.format('%.17g', …)",
		),
		"float, words":        decodeCase(`'x'`, DecodeFloat, 0.0, `is not a number but the string "x"`),
		"duration":            decodeCase(`1500`, DecodeDuration, 1500*time.Millisecond, ""),
		"duration, PTTL's -1": decodeCase(`-1`, DecodeDuration, -time.Millisecond, ""),
		"duration, too long":  decodeCase(`10000000000000`, DecodeDuration, math.MaxInt64, ""),
		"duration, words":     decodeCase(`'x'`, DecodeDuration, 0, `is not an integer but the string "x"`),
		"time":                decodeCase(`1700000000123`, DecodeTime, time.UnixMilli(1700000000123), ""),
		"time, nil":           decodeCase(`false`, DecodeTime, time.Time{}, "is not an integer but nil"),
		"json":                decodeCase(`'{"a":1}'`, DecodeJSON, json.RawMessage(`{"a":1}`), ""),
		"json, broken":        decodeCase(`'{'`, DecodeJSON, nil, `is not JSON but the string "{"`),
		"json, number":        decodeCase(`1`, DecodeJSON, nil, "is not a string but the integer 1"),
		"nullable": decodeCase(
			`'a'`, DecodeNull(DecodeString), redislua.Null[string]{V: "a", Valid: true}, "",
		),
		"nullable, nil": decodeCase(`false`, DecodeNull(DecodeString), redislua.Null[string]{}, ""),
		"nullable, wrong": decodeCase(
			`1`, DecodeNull(DecodeString), redislua.Null[string]{}, "is not a string but the integer 1",
		),
		"list":        decodeCase(`{1, '2'}`, DecodeList(DecodeInt), []int64{1, 2}, ""),
		"list, empty": decodeCase(`{}`, DecodeList(DecodeInt), []int64{}, ""),
		"list, wrong element": decodeCase(
			`{1, 'x'}`, DecodeList(DecodeInt), nil, `at position 2 is not an integer but the string "x"`,
		),
		"list, no list": decodeCase(`'x'`, DecodeList(DecodeInt), nil, `is not a list but the string "x"`),
		"list of nullables": decodeCase(
			`{'a', false}`,
			DecodeList(DecodeNull(DecodeString)),
			[]redislua.Null[string]{{V: "a", Valid: true}, {}},
			"",
		),
		"nested lists": decodeCase(
			`{{1}, {}, {2, 3}}`, DecodeList(DecodeList(DecodeInt)), [][]int64{{1}, {}, {2, 3}}, "",
		),
		"nested, wrong": decodeCase(
			`{{1}, {2, 'x'}}`,
			DecodeList(DecodeList(DecodeInt)),
			nil,
			`at position 2 at position 2 is not an integer but the string "x"`,
		),
		"map": decodeCase(
			`{'a', 1, 'b', '2'}`, DecodeMap(DecodeInt), map[string]int64{"a": 1, "b": 2}, "",
		),
		"map, empty": decodeCase(`{}`, DecodeMap(DecodeInt), map[string]int64{}, ""),
		"map, wrong value": decodeCase(
			`{'a', 'x'}`, DecodeMap(DecodeInt), nil, `at key "a" is not an integer but the string "x"`,
		),
		"map, odd": decodeCase(
			`{"a", 1, "b"}`,
			DecodeMap(DecodeInt),
			nil,
			"is not a map but a list of 3 values, whose last key has no value",
		),
		"map, twice": decodeCase(
			`{'a', 1, 'a', 2}`, DecodeMap(DecodeInt), nil, `is not a map: it has the key "a" twice`,
		),
		"map, pairs": decodeCase(
			`{{'a', 1}, {'b', 2}}`,
			DecodeMap(DecodeInt),
			nil,
			"at position 1, where a key is due, is not a string but a list",
		),
		"map, nil": decodeCase(`false`, DecodeMap(DecodeInt), nil, "is not a map but nil"),
		"map?": decodeCase(
			`false`, DecodeNull(DecodeMap(DecodeInt)), redislua.Null[map[string]int64]{}, "",
		),
		"list?": decodeCase(
			`false`, DecodeNull(DecodeList(DecodeInt)), redislua.Null[[]int64]{}, "",
		),
		"list?, empty": decodeCase(
			`{}`, DecodeNull(DecodeList(DecodeInt)), redislua.Null[[]int64]{V: []int64{}, Valid: true}, "",
		),
		"list, nil": decodeCase(`false`, DecodeList(DecodeInt), nil, "is not a list but nil"),
		"duration?, stored": decodeCase(
			`''`, DecodeNullOrEmpty(DecodeDuration), redislua.Null[time.Duration]{}, "",
		),
		"duration?, nil": decodeCase(
			`false`, DecodeNullOrEmpty(DecodeDuration), redislua.Null[time.Duration]{}, "",
		),
		"duration?": decodeCase(
			`'1500'`,
			DecodeNullOrEmpty(DecodeDuration),
			redislua.Null[time.Duration]{V: 1500 * time.Millisecond, Valid: true},
			"",
		),
		"struct": decodeCase(`{'a', 1}`, DecodeStruct(2, readPair), pair{"a", 1}, ""),
		"struct, short": decodeCase(
			`{'a'}`, DecodeStruct(2, readPair), pair{}, "has 1 values where 2 are declared",
		),
		"struct, long": decodeCase(
			`{'a', 1, 2}`, DecodeStruct(2, readPair), pair{}, "has 3 values where 2 are declared",
		),
		"struct, nil": decodeCase(`false`, DecodeStruct(2, readPair), pair{}, "is not a list but nil"),
		"struct?": decodeCase(
			`false`, DecodeNull(DecodeStruct(2, readPair)), redislua.Null[pair]{}, "",
		),
		"structs, flat": decodeCase(
			`{'a', 1, 'b', '2'}`, DecodeStructs(2, readPair), []pair{{"a", 1}, {"b", 2}}, "",
		),
		"structs, nested": decodeCase(
			`{{'a', 1}, {'b', '2'}}`, DecodeStructs(2, readPair), []pair{{"a", 1}, {"b", 2}}, "",
		),
		"structs, none": decodeCase(`{}`, DecodeStructs(2, readPair), []pair{}, ""),
		"structs, odd": decodeCase(
			`{'a', 1, 'b'}`,
			DecodeStructs(2, readPair),
			nil,
			"has 3 values, which is no multiple of the 2 of each element",
		),
		"structs, mixed": decodeCase(
			`{{'a', 1}, 'b', 2}`, DecodeStructs(2, readPair), nil, `at position 2 is not a list but the string "b"`,
		),
		"structs, mixed late": decodeCase(
			`{'a', 1, {'b', 2}, 3}`,
			DecodeStructs(2, readPair),
			nil,
			"at position 2 field member is not a string but a list",
		),
		"structs, wrong": decodeCase(
			`{{'a', 1}, {'b'}}`, DecodeStructs(2, readPair), nil, "at position 2 has 1 values where 2 are declared",
		),
		"structs, nil": decodeCase(`false`, DecodeStructs(2, readPair), nil, "is not a list but nil"),
		"error in a list": decodeCase(
			`{redis.error_reply('OH no')}`,
			DecodeList(DecodeInt),
			nil,
			`at position 1 is not an integer but the error "OH no"`,
		),
		"map, no map": decodeCase(`1`, DecodeMap(DecodeInt), nil, "is not a map but the integer 1"),
		"map of lists": decodeCase(
			`{'a', {1, 2}}`, DecodeMap(DecodeList(DecodeInt)), map[string][]int64{"a": {1, 2}}, "",
		),
		"json as": decodeCase(`'{"X":1}'`, DecodeJSONAs[point], point{X: 1}, ""),
		"json as, wrong": decodeCase(
			`'{"X":"a"}'`,
			DecodeJSONAs[point],
			point{},
			"is not JSON of the Go type luaimpl.point: json: "+
				"cannot unmarshal string into Go struct field point.X of type int",
		),
		"json as, nil": decodeCase(`false`, DecodeJSONAs[point], point{}, "is not a string but nil"),
		"long text is cut": decodeCase(
			`string.rep('x', 100)`,
			DecodeInt,
			0,
			`is not an integer but the string "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"`,
		),
		"error reply of sorts": decodeCase(
			`{{}, 1}`, DecodeList(DecodeInt), nil, "at position 1 is not an integer but a list",
		),
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}

func TestDecodeStruct(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	s := &Lua{pkg: "bindings", name: "Script"}
	got, err := DecodeStructReply(s, reply(t, client, `{'a', 2}`), 2, readPair)
	require.NoError(t, err)
	require.Equal(t, pair{"a", 2}, got)
	for lua, wrong := range map[string]string{
		`{1}`:        "bindings: Script: reply has 1 values where 2 are declared",
		`1`:          "bindings: Script: reply is not a list but the integer 1",
		`false`:      "bindings: Script: reply is not a list but nil",
		`{'a', 'b'}`: `bindings: Script: reply field score is not an integer but the string "b"`,
	} {
		_, err := DecodeStructReply(s, reply(t, client, lua), 2, readPair)
		require.EqualError(t, err, wrong)
		var facts *redislua.ReplyError
		require.ErrorAs(t, err, &facts)
		require.Equal(t, lua == `{'a', 'b'}`, facts.Field == "score")
	}
}
