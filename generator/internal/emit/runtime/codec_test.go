package runtime

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// decodeCase runs a decoder over what a script returns.
func decodeCase[T any](lua string, decode func(message) (T, error), want T, wrong string) func(t *testing.T, client client) {
	return func(t *testing.T, client client) {
		s := &luaScript{name: "Script"}
		got, err := decodeValue(s, reply(t, client, lua), decode)
		require.Equal(t, want, got)
		if wrong == "" {
			require.NoError(t, err)
			return
		}
		require.EqualError(t, err, "runtime: Script: reply "+wrong)
		var facts *ReplyError
		require.ErrorAs(t, err, &facts)
		require.Equal(t, "Script", facts.Script)
	}
}

type point struct{ X int }

type pair struct {
	member string
	score  int64
}

func readPair(values []message) (p pair, err error) {
	if p.member, err = decodeString(values[0]); err != nil {
		return pair{}, &fieldError{"member", err}
	}
	if p.score, err = decodeInt(values[1]); err != nil {
		return pair{}, &fieldError{"score", err}
	}
	return p, nil
}

func TestDecode(t *testing.T) {
	t.Parallel()
	server := newClient(t)
	for name, test := range map[string]func(*testing.T, client){
		"string":               decodeCase(`'a'`, decodeString, "a", ""),
		"string, status":       decodeCase(`redis.status_reply('PONG')`, decodeString, "PONG", ""),
		"string, integer":      decodeCase(`1`, decodeString, "", "is not a string but the integer 1"),
		"string, nil":          decodeCase(`false`, decodeString, "", "is not a string but nil"),
		"bytes":                decodeCase(`'a\0b'`, decodeBytes, []byte("a\x00b"), ""),
		"bytes, list":          decodeCase(`{}`, decodeBytes, nil, "is not a string but a list"),
		"int":                  decodeCase(`-7`, decodeInt, int64(-7), ""),
		"int, text":            decodeCase(`'42'`, decodeInt, int64(42), ""),
		"int, words":           decodeCase(`'42 and more'`, decodeInt, 0, `is not an integer but the string "42 and more"`),
		"int, nil":             decodeCase(`nil`, decodeInt, 0, "is not an integer but nil"),
		"bool, true":           decodeCase(`true`, decodeBool, true, ""),
		"bool, false":          decodeCase(`false`, decodeBool, false, ""),
		"bool, 1":              decodeCase(`1`, decodeBool, true, ""),
		"bool, 0":              decodeCase(`0`, decodeBool, false, ""),
		"bool, 2":              decodeCase(`2`, decodeBool, false, "is not 0, 1, nil or OK but the integer 2"),
		"bool, OK":             decodeCase(`redis.status_reply('OK')`, decodeBool, true, ""),
		"bool, stored":         decodeCase(`'1'`, decodeBool, true, ""),
		"bool, stored false":   decodeCase(`'0'`, decodeBool, false, ""),
		"bool, text":           decodeCase(`'true'`, decodeBool, false, `is not 0, 1, nil or OK but the string "true"`),
		"bool, empty":          decodeCase(`''`, decodeBool, false, `is not 0, 1, nil or OK but the string ""`),
		"bool, list":           decodeCase(`{1}`, decodeBool, false, `is not 0, 1, nil or OK but a list`),
		"ok":                   decodeCase(`redis.status_reply('OK')`, decodeOK, struct{}{}, ""),
		"ok, other":            decodeCase(`redis.status_reply('QUEUED')`, decodeOK, struct{}{}, `is not OK but the string "QUEUED"`),
		"nothing":              decodeCase(`nil`, decodeNothing, struct{}{}, ""),
		"nothing, list":        decodeCase(`{1, 2}`, decodeNothing, struct{}{}, "is not nil but a list"),
		"float":                decodeCase(`'2.5'`, decodeFloat, 2.5, ""),
		"float, integer":       decodeCase(`2`, decodeFloat, 0.0, "is not a string but the integer 2, which has lost its fraction; return a string, as of tostring or string.format('%.17g', …)"),
		"float, words":         decodeCase(`'x'`, decodeFloat, 0.0, `is not a number but the string "x"`),
		"duration":             decodeCase(`1500`, decodeDuration, 1500*time.Millisecond, ""),
		"duration, PTTL's -1":  decodeCase(`-1`, decodeDuration, -time.Millisecond, ""),
		"duration, too long":   decodeCase(`10000000000000`, decodeDuration, math.MaxInt64, ""),
		"duration, words":      decodeCase(`'x'`, decodeDuration, 0, `is not an integer but the string "x"`),
		"time":                 decodeCase(`1700000000123`, decodeTime, time.UnixMilli(1700000000123), ""),
		"time, nil":            decodeCase(`false`, decodeTime, time.Time{}, "is not an integer but nil"),
		"json":                 decodeCase(`'{"a":1}'`, decodeJSON, json.RawMessage(`{"a":1}`), ""),
		"json, broken":         decodeCase(`'{'`, decodeJSON, nil, `is not JSON but the string "{"`),
		"json, number":         decodeCase(`1`, decodeJSON, nil, "is not a string but the integer 1"),
		"nullable":             decodeCase(`'a'`, nullable(decodeString), Null[string]{"a", true}, ""),
		"nullable, nil":        decodeCase(`false`, nullable(decodeString), Null[string]{}, ""),
		"nullable, wrong":      decodeCase(`1`, nullable(decodeString), Null[string]{}, "is not a string but the integer 1"),
		"list":                 decodeCase(`{1, '2'}`, list(decodeInt), []int64{1, 2}, ""),
		"list, empty":          decodeCase(`{}`, list(decodeInt), []int64{}, ""),
		"list, wrong element":  decodeCase(`{1, 'x'}`, list(decodeInt), nil, `at position 2 is not an integer but the string "x"`),
		"list, no list":        decodeCase(`'x'`, list(decodeInt), nil, `is not a list but the string "x"`),
		"list of nullables":    decodeCase(`{'a', false}`, list(nullable(decodeString)), []Null[string]{{"a", true}, {}}, ""),
		"nested lists":         decodeCase(`{{1}, {}, {2, 3}}`, list(list(decodeInt)), [][]int64{{1}, {}, {2, 3}}, ""),
		"nested, wrong":        decodeCase(`{{1}, {2, 'x'}}`, list(list(decodeInt)), nil, `at position 2 at position 2 is not an integer but the string "x"`),
		"map":                  decodeCase(`{'a', 1, 'b', '2'}`, mapping(decodeInt), map[string]int64{"a": 1, "b": 2}, ""),
		"map, empty":           decodeCase(`{}`, mapping(decodeInt), map[string]int64{}, ""),
		"map, wrong value":     decodeCase(`{'a', 'x'}`, mapping(decodeInt), nil, `at key "a" is not an integer but the string "x"`),
		"map, odd":             decodeCase(`{"a", 1, "b"}`, mapping(decodeInt), nil, "is not a map but a list of 3 values, of which the last key has none"),
		"map, twice":           decodeCase(`{'a', 1, 'a', 2}`, mapping(decodeInt), nil, `is not a map: it has the key "a" twice`),
		"map, pairs":           decodeCase(`{{'a', 1}, {'b', 2}}`, mapping(decodeInt), nil, "at position 1, where a key is due, is not a string but a list"),
		"map, nil":             decodeCase(`false`, mapping(decodeInt), nil, "is not a map but nil"),
		"map?":                 decodeCase(`false`, nullable(mapping(decodeInt)), Null[map[string]int64]{}, ""),
		"list?":                decodeCase(`false`, nullable(list(decodeInt)), Null[[]int64]{}, ""),
		"list?, empty":         decodeCase(`{}`, nullable(list(decodeInt)), Null[[]int64]{[]int64{}, true}, ""),
		"list, nil":            decodeCase(`false`, list(decodeInt), nil, "is not a list but nil"),
		"duration?, stored":    decodeCase(`''`, nullableOrEmpty(decodeDuration), Null[time.Duration]{}, ""),
		"duration?, nil":       decodeCase(`false`, nullableOrEmpty(decodeDuration), Null[time.Duration]{}, ""),
		"duration?":            decodeCase(`'1500'`, nullableOrEmpty(decodeDuration), Null[time.Duration]{1500 * time.Millisecond, true}, ""),
		"struct":               decodeCase(`{'a', 1}`, structure(2, readPair), pair{"a", 1}, ""),
		"struct, short":        decodeCase(`{'a'}`, structure(2, readPair), pair{}, "has 1 values where 2 are declared"),
		"struct, long":         decodeCase(`{'a', 1, 2}`, structure(2, readPair), pair{}, "has 3 values where 2 are declared"),
		"struct, nil":          decodeCase(`false`, structure(2, readPair), pair{}, "is not a list but nil"),
		"struct?":              decodeCase(`false`, nullable(structure(2, readPair)), Null[pair]{}, ""),
		"structs, flat":        decodeCase(`{'a', 1, 'b', '2'}`, structs(2, readPair), []pair{{"a", 1}, {"b", 2}}, ""),
		"structs, nested":      decodeCase(`{{'a', 1}, {'b', '2'}}`, structs(2, readPair), []pair{{"a", 1}, {"b", 2}}, ""),
		"structs, none":        decodeCase(`{}`, structs(2, readPair), []pair{}, ""),
		"structs, odd":         decodeCase(`{'a', 1, 'b'}`, structs(2, readPair), nil, "has 3 values, which is no multiple of the 2 of each element"),
		"structs, mixed":       decodeCase(`{{'a', 1}, 'b', 2}`, structs(2, readPair), nil, `at position 2 is not a list but the string "b"`),
		"structs, mixed late":  decodeCase(`{'a', 1, {'b', 2}, 3}`, structs(2, readPair), nil, "at position 2 field member is not a string but a list"),
		"structs, wrong":       decodeCase(`{{'a', 1}, {'b'}}`, structs(2, readPair), nil, "at position 2 has 1 values where 2 are declared"),
		"structs, nil":         decodeCase(`false`, structs(2, readPair), nil, "is not a list but nil"),
		"error in a list":      decodeCase(`{redis.error_reply('OH no')}`, list(decodeInt), nil, `at position 1 is not an integer but the error "OH no"`),
		"map, no map":          decodeCase(`1`, mapping(decodeInt), nil, "is not a map but the integer 1"),
		"map of lists":         decodeCase(`{'a', {1, 2}}`, mapping(list(decodeInt)), map[string][]int64{"a": {1, 2}}, ""),
		"json as":              decodeCase(`'{"X":1}'`, decodeJSONAs[point], point{X: 1}, ""),
		"json as, wrong":       decodeCase(`'{"X":"a"}'`, decodeJSONAs[point], point{}, "is not JSON of the Go type runtime.point: json: cannot unmarshal string into Go struct field point.X of type int"),
		"json as, nil":         decodeCase(`false`, decodeJSONAs[point], point{}, "is not a string but nil"),
		"long text is cut":     decodeCase(`string.rep('x', 100)`, decodeInt, 0, `is not an integer but the string "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"`),
		"error reply of sorts": decodeCase(`{{}, 1}`, list(decodeInt), nil, "at position 1 is not an integer but a list"),
	} {
		t.Run(name, func(t *testing.T) { test(t, server) })
	}
}

func TestDecodeStruct(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	s := &luaScript{name: "Script"}
	got, err := decodeStruct(s, reply(t, client, `{'a', 2}`), 2, readPair)
	require.NoError(t, err)
	require.Equal(t, pair{"a", 2}, got)
	for lua, wrong := range map[string]string{
		`{1}`:        "runtime: Script: reply has 1 values where 2 are declared",
		`1`:          "runtime: Script: reply is not a list but the integer 1",
		`false`:      "runtime: Script: reply is not a list but nil",
		`{'a', 'b'}`: `runtime: Script: reply field score is not an integer but the string "b"`,
	} {
		_, err := decodeStruct(s, reply(t, client, lua), 2, readPair)
		require.EqualError(t, err, wrong)
		var facts *ReplyError
		require.ErrorAs(t, err, &facts)
		require.Equal(t, lua == `{'a', 'b'}`, facts.Field == "score")
	}
}

type kind string

func TestEncode(t *testing.T) {
	t.Parallel()
	text := func(s string, err error) string {
		require.NoError(t, err)
		return s
	}
	require.Equal(t, "1", encodeBool(true))
	require.Equal(t, "0", encodeBool(false))
	require.Equal(t, "-9223372036854775808", encodeInt(math.MinInt64))
	for f, want := range map[float64]string{
		0.1: "0.1", 1e6: "1000000", -2.5: "-2.5", 1e21: "1000000000000000000000", 1e-7: "0.0000001",
		math.Copysign(0, -1): "0", 1<<53 + 2: "9007199254740994",
	} {
		require.Equal(t, want, text(encodeFloat("S", "p", f)))
	}
	for _, f := range []float64{math.MaxFloat64, math.SmallestNonzeroFloat64, 1e100} {
		back, err := strconv.ParseFloat(text(encodeFloat("S", "p", f)), 64)
		require.NoError(t, err)
		require.Equal(t, f, back)
	}
	require.Equal(t, "news", text(encodeChannel("S", "p", "news")))
	require.Equal(t, "a", text(encodeEnum("S", "p", kind("a"), "a", "b")))
	require.Equal(t, "", text(encodeOptionalEnum("S", "p", kind(""), "a", "b")))
	require.NoError(t, checkKeys("S", "p"))
	require.NoError(t, checkKeys("S", "p", "a", "b"))
	require.NoError(t, checkChannels("S", "p", "a:{1}:", "{1}"))
	require.Equal(t, "1", text(encodeDuration("S", "p", time.Millisecond)))
	require.Equal(t, "86400000", text(encodeDuration("S", "p", 24*time.Hour)))
	require.Equal(t, "1000", text(encodeOptionalDuration("S", "p", time.Second)))
	require.Equal(t, "", text(encodeOptionalDuration("S", "p", 0)))
	require.Equal(t, "1700000000123", text(encodeTime("S", "p", time.UnixMilli(1700000000123).Add(time.Microsecond))))
	require.Equal(t, "1700000000123", text(encodeOptionalTime("S", "p", time.UnixMilli(1700000000123))))
	require.Equal(t, "", text(encodeOptionalTime("S", "p", time.Time{})))
	require.Equal(t, `{"a":1}`, text(encodeJSON("S", "p", map[string]int{"a": 1})))

	for name, f := range map[string]func() (string, error){
		"S: p: it is the zero time; give one": func() (string, error) { return encodeTime("S", "p", time.Time{}) },
		"S: p: 0s is below 1ms":               func() (string, error) { return encodeDuration("S", "p", 0) },
		"S: p: -1s is below 1ms": func() (string, error) {
			return encodeOptionalDuration("S", "p", -time.Second)
		},
		"S: p: 1.5ms is not a whole number of milliseconds; truncate it": func() (string, error) {
			return encodeDuration("S", "p", 1500*time.Microsecond)
		},
		"S: p: NaN is not a number that a script can count with":                                      func() (string, error) { return encodeFloat("S", "p", math.NaN()) },
		"S: p: +Inf is not a number that a script can count with":                                     func() (string, error) { return encodeFloat("S", "p", math.Inf(1)) },
		"S: p: it is an empty channel; give its name":                                                 func() (string, error) { return encodeChannel("S", "p", "") },
		`S: p: "c" is not one of ["a" "b"]`:                                                           func() (string, error) { return encodeEnum("S", "p", kind("c"), "a", "b") },
		`S: p: "" is not one of ["a" "b"]`:                                                            func() (string, error) { return encodeEnum("S", "p", kind(""), "a", "b") },
		"S: p: it is an empty key; give its name":                                                     func() (string, error) { return "", checkKeys("S", "p", "") },
		`S: p: "" has no hash tag, such as {1}, so channels that start with it are in many slots`:     func() (string, error) { return "", checkChannels("S", "p", "") },
		`S: p: "a{" has no hash tag, such as {1}, so channels that start with it are in many slots`:   func() (string, error) { return "", checkChannels("S", "p", "{1}", "a{") },
		`S: p: "{}{1" has no hash tag, such as {1}, so channels that start with it are in many slots`: func() (string, error) { return "", checkChannels("S", "p", "{}{1") },
		"S: p: number 2 is an empty key; give its name":                                               func() (string, error) { return "", checkKeys("S", "p", "a", "") },
		"S: p: json: unsupported type: chan int":                                                      func() (string, error) { return encodeJSON("S", "p", make(chan int)) },
	} {
		_, err := f()
		require.EqualError(t, err, "runtime: "+name)
		var facts *ParamError
		require.ErrorAs(t, err, &facts)
		require.Equal(t, "p", facts.Param)
	}
}
