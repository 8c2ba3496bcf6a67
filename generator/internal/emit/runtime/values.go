package runtime

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/redis/rueidis"
)

// encodeDuration writes d as whole milliseconds.
func encodeDuration(script, param string, d time.Duration) (string, error) {
	switch {
	case d < time.Millisecond:
		return "", &ParamError{script, param, fmt.Sprintf("%v is below 1ms", d)}
	case d%time.Millisecond != 0:
		return "", &ParamError{script, param, fmt.Sprintf("%v is not a whole number of milliseconds; truncate it", d)}
	}
	return strconv.FormatInt(d.Milliseconds(), 10), nil
}

// encodeOptionalDuration writes an absent lease, which is zero, as the empty string.
func encodeOptionalDuration(script, param string, d time.Duration) (string, error) {
	if d == 0 {
		return "", nil
	}
	return encodeDuration(script, param, d)
}

// encodeTime writes t as milliseconds since 1970, cutting off smaller parts.
func encodeTime(script, param string, t time.Time) (string, error) {
	if t.IsZero() {
		return "", &ParamError{script, param, "it is the zero time; give one"}
	}
	return strconv.FormatInt(t.UnixMilli(), 10), nil
}

// encodeOptionalTime writes an absent instant, the zero time, as the empty string.
func encodeOptionalTime(script, param string, t time.Time) (string, error) {
	if t.IsZero() {
		return "", nil
	}
	return encodeTime(script, param, t)
}

func encodeInt(n int64) string { return strconv.FormatInt(n, 10) }

func encodeFloat(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

func encodeBool(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func encodeJSON(script, param string, v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", &ParamError{script, param, err.Error()}
	}
	return string(text), nil
}

// describe tells what a message is, for errors; long values are cut.
func describe(m rueidis.RedisMessage) string {
	switch {
	case m.IsNil():
		return "nil"
	case m.IsInt64():
		n, _ := m.ToInt64()
		return fmt.Sprintf("the integer %d", n)
	case m.IsString():
		text, _ := m.ToString()
		if len(text) > 40 {
			text = text[:40] + "…"
		}
		return fmt.Sprintf("the string %q", text)
	case m.IsBool():
		b, _ := m.ToBool()
		return fmt.Sprintf("the boolean %t", b)
	case m.IsArray():
		return "a list"
	case m.IsMap():
		return "a map"
	}
	return "of another type"
}

func mismatch(m rueidis.RedisMessage, want string) error {
	return errors.New("is not " + want + " but " + describe(m))
}

func decodeString(m rueidis.RedisMessage) (string, error) {
	if !m.IsString() {
		return "", mismatch(m, "a string")
	}
	return m.ToString()
}

func decodeBytes(m rueidis.RedisMessage) ([]byte, error) {
	if !m.IsString() {
		return nil, mismatch(m, "a string")
	}
	return m.AsBytes()
}

// decodeInt takes an integer, and a string that is one, as GET of a counter answers.
func decodeInt(m rueidis.RedisMessage) (int64, error) {
	if m.IsInt64() {
		return m.ToInt64()
	}
	if m.IsString() {
		text, _ := m.ToString()
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n, nil
		}
	}
	return 0, mismatch(m, "an integer")
}

// decodeBool takes what Lua's true and false become (1 and nil, or booleans after
// redis.setresp(3)), 0, and the OK of a command that succeeded.
func decodeBool(m rueidis.RedisMessage) (bool, error) {
	if m.IsNil() {
		return false, nil
	}
	if m.IsBool() {
		return m.ToBool()
	}
	if m.IsInt64() {
		switch n, _ := m.ToInt64(); n {
		case 0:
			return false, nil
		case 1:
			return true, nil
		}
	}
	if _, err := decodeOK(m); err == nil {
		return true, nil
	}
	return false, mismatch(m, "0, 1, nil or OK")
}

func decodeOK(m rueidis.RedisMessage) (struct{}, error) {
	if m.IsString() {
		if text, _ := m.ToString(); text == "OK" {
			return struct{}{}, nil
		}
	}
	return struct{}{}, mismatch(m, "OK")
}

// decodeFloat takes a string or a double. An integer is refused: it is a number of
// Lua that has lost its fraction on the way.
func decodeFloat(m rueidis.RedisMessage) (float64, error) {
	switch {
	case m.IsFloat64():
		return m.ToFloat64()
	case m.IsInt64():
		return 0, fmt.Errorf("%w, which has lost its fraction; return a string, as of tostring or string.format('%%.17g', …)", mismatch(m, "a string"))
	case m.IsString():
		text, _ := m.ToString()
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f, nil
		}
	}
	return 0, mismatch(m, "a number")
}

// decodeDuration reads milliseconds. Negative ones keep their meaning, such as
// the -1 of PTTL; what is too long for Go becomes the longest duration
// of its sign.
func decodeDuration(m rueidis.RedisMessage) (time.Duration, error) {
	const longest = int64(math.MaxInt64 / time.Millisecond)
	n, err := decodeInt(m)
	switch {
	case n > longest:
		return math.MaxInt64, err
	case n < -longest:
		return math.MinInt64, err
	}
	return time.Duration(n) * time.Millisecond, err
}

// decodeTime reads milliseconds since 1970.
func decodeTime(m rueidis.RedisMessage) (time.Time, error) {
	n, err := decodeInt(m)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(n), nil
}

func decodeJSON(m rueidis.RedisMessage) (json.RawMessage, error) {
	text, err := decodeBytes(m)
	if err != nil {
		return nil, err
	}
	if !json.Valid(text) {
		return nil, mismatch(m, "JSON")
	}
	return text, nil
}

// decodeJSONAs reads JSON into a Go type.
func decodeJSONAs[T any](m rueidis.RedisMessage) (T, error) {
	var v T
	text, err := decodeBytes(m)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return *new(T), fmt.Errorf("is not JSON of the Go type %T: %w", v, err)
	}
	return v, nil
}

// decodeNothing takes any reply as none.
func decodeNothing(rueidis.RedisMessage) (struct{}, error) { return struct{}{}, nil }

// nullable turns a decoder of T into one of T?.
func nullable[T any](decode func(rueidis.RedisMessage) (T, error)) func(rueidis.RedisMessage) (Null[T], error) {
	return func(m rueidis.RedisMessage) (Null[T], error) {
		if m.IsNil() {
			return Null[T]{}, nil
		}
		if m.IsBool() {
			if present, _ := m.ToBool(); !present { // false, after redis.setresp(3)
				return Null[T]{}, nil
			}
		}
		v, err := decode(m)
		if err != nil {
			return Null[T]{}, err
		}
		return Null[T]{V: v, Valid: true}, nil
	}
}

// list turns a decoder of T into one of []T.
func list[T any](decode func(rueidis.RedisMessage) (T, error)) func(rueidis.RedisMessage) ([]T, error) {
	return func(m rueidis.RedisMessage) ([]T, error) {
		messages, err := m.ToArray()
		if err != nil {
			return nil, mismatch(m, "a list")
		}
		values := make([]T, len(messages))
		for i := range messages {
			if values[i], err = decode(messages[i]); err != nil {
				return nil, fmt.Errorf("at position %d %w", i+1, err)
			}
		}
		return values, nil
	}
}

// mapping turns a decoder of T into one of map[string]T. It takes a map, and a list
// of keys and values in turn, as HGETALL answers.
func mapping[T any](decode func(rueidis.RedisMessage) (T, error)) func(rueidis.RedisMessage) (map[string]T, error) {
	return func(m rueidis.RedisMessage) (map[string]T, error) {
		if !m.IsArray() && !m.IsMap() {
			return nil, mismatch(m, "a map")
		}
		messages, err := m.AsMap()
		if err != nil {
			return nil, fmt.Errorf("is not a map: %w", err)
		}
		values := make(map[string]T, len(messages))
		for key, message := range messages {
			if values[key], err = decode(message); err != nil {
				return nil, fmt.Errorf("at key %q %w", key, err)
			}
		}
		return values, nil
	}
}

// decodeValue reads a reply that is one value.
func decodeValue[T any](s *luaScript, reply rueidis.RedisResult, decode func(rueidis.RedisMessage) (T, error)) (T, error) {
	var none T
	m, err := s.message(reply)
	if err != nil {
		return none, err
	}
	v, err := decode(m)
	if err != nil {
		return none, s.wrong("", err)
	}
	return v, nil
}
