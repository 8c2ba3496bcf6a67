package luaimpl

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/rlock-go/toolkit/redislua"
)

// describe says what a message is, for an error text. It cuts long values.
func describe(m Message) string {
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
	case m.IsFloat64():
		f, _ := m.ToFloat64()
		return fmt.Sprintf("the double %v", f)
	}
	if err := m.Error(); err != nil {
		return fmt.Sprintf("the error %q", err.Error())
	}
	return "of another type"
}

func mismatch(m Message, want string) error {
	return errors.New("is not " + want + " but " + describe(m))
}

// DecodeString takes a string, and a status.
func DecodeString(m Message) (string, error) {
	if !m.IsString() {
		return "", mismatch(m, "a string")
	}
	return m.ToString()
}

// DecodeBytes is DecodeString as bytes.
func DecodeBytes(m Message) ([]byte, error) {
	if !m.IsString() {
		return nil, mismatch(m, "a string")
	}
	return m.AsBytes()
}

// DecodeInt takes an integer, or a string with an integer, such as the reply of GET for a counter.
func DecodeInt(m Message) (int64, error) {
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

// DecodeBool takes what Redis makes of Lua's true and false: 1 and nil, or booleans after
// redis.setresp(3). It also takes 0, the OK of a command that succeeded, and the strings 1
// and 0, because a bool argument that a script stores is one of these.
func DecodeBool(m Message) (bool, error) {
	switch {
	case m.IsNil():
		return false, nil
	case m.IsBool():
		return m.ToBool()
	case m.IsInt64():
		switch n, _ := m.ToInt64(); n {
		case 0:
			return false, nil
		case 1:
			return true, nil
		}
	case m.IsString():
		switch text, _ := m.ToString(); text {
		case "0":
			return false, nil
		case "1", "OK":
			return true, nil
		}
	}
	return false, mismatch(m, "0, 1, nil or OK")
}

// DecodeOK takes the status OK.
func DecodeOK(m Message) (struct{}, error) {
	if m.IsString() {
		if text, _ := m.ToString(); text == "OK" {
			return struct{}{}, nil
		}
	}
	return struct{}{}, mismatch(m, "OK")
}

// DecodeFloat takes a string or a double. It refuses an integer: Redis makes integers of Lua's numbers, and
// drops their fractions.
func DecodeFloat(m Message) (float64, error) {
	switch {
	case m.IsFloat64():
		return m.ToFloat64()
	case m.IsInt64():
		return 0, fmt.Errorf(
			"%w, which has lost its fraction; "+
				"return a string, such as that of tostring or string.format('%%.17g', …)",
			mismatch(m, "a string"),
		)
	case m.IsString():
		text, _ := m.ToString()
		if text == "-nan" { // of Lua, for 0 / 0
			return math.NaN(), nil
		}
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f, nil
		}
	}
	return 0, mismatch(m, "a number")
}

// DecodeDuration reads milliseconds. It keeps a negative number, because that has a meaning, such as the -1
// of PTTL. If the reply is too long for Go, it returns the longest duration of the same sign.
func DecodeDuration(m Message) (time.Duration, error) {
	const longest = int64(math.MaxInt64 / time.Millisecond)
	n, err := DecodeInt(m)
	switch {
	case n > longest:
		return math.MaxInt64, err
	case n < -longest:
		return math.MinInt64, err
	}
	return time.Duration(n) * time.Millisecond, err
}

// DecodeTime reads milliseconds since 1970.
func DecodeTime(m Message) (time.Time, error) {
	n, err := DecodeInt(m)
	if err != nil {
		return time.Time{}, err
	}
	return time.UnixMilli(n), nil
}

// DecodeJSON takes a string that is JSON.
func DecodeJSON(m Message) (json.RawMessage, error) {
	text, err := DecodeBytes(m)
	if err != nil {
		return nil, err
	}
	if !json.Valid(text) {
		return nil, mismatch(m, "JSON")
	}
	return text, nil
}

// DecodeJSONAs reads JSON into a Go type.
func DecodeJSONAs[T any](m Message) (T, error) {
	var v T
	text, err := DecodeBytes(m)
	if err != nil {
		return v, err
	}
	if err := json.Unmarshal(text, &v); err != nil {
		return *new(T), fmt.Errorf("is not JSON of the Go type %T: %w", v, err)
	}
	return v, nil
}

// DecodeNothing takes the reply of a script that returns no value.
func DecodeNothing(m Message) (struct{}, error) {
	if !m.IsNil() {
		return struct{}{}, mismatch(m, "nil")
	}
	return struct{}{}, nil
}

// DecodeNull turns a decoder of T into one of T?.
func DecodeNull[T any](decode func(Message) (T, error)) func(Message) (redislua.Null[T], error) {
	return func(m Message) (redislua.Null[T], error) {
		if m.IsNil() {
			return redislua.Null[T]{}, nil
		}
		if m.IsBool() {
			if present, _ := m.ToBool(); !present { // false, after redis.setresp(3)
				return redislua.Null[T]{}, nil
			}
		}
		v, err := decode(m)
		if err != nil {
			return redislua.Null[T]{}, err
		}
		return redislua.Null[T]{V: v, Valid: true}, nil
	}
}

// DecodeNullOrEmpty is DecodeNull for durations and times. It takes an empty string for nil: a call sends an
// absent argument as an empty string, and the script may have stored that string.
func DecodeNullOrEmpty[T any](decode func(Message) (T, error)) func(Message) (redislua.Null[T], error) {
	return func(m Message) (redislua.Null[T], error) {
		if m.IsString() {
			if text, _ := m.ToString(); text == "" {
				return redislua.Null[T]{}, nil
			}
		}
		return DecodeNull(decode)(m)
	}
}

// DecodeList turns a decoder of T into one of []T.
func DecodeList[T any](decode func(Message) (T, error)) func(Message) ([]T, error) {
	return func(m Message) ([]T, error) {
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

// DecodeMap turns a decoder of T into one of map[string]T. It takes a map, and a list of keys
// and values in turn, such as the reply of HGETALL. It refuses a list that has a key twice,
// because one of the values would be lost.
func DecodeMap[T any](decode func(Message) (T, error)) func(Message) (map[string]T, error) {
	return func(m Message) (map[string]T, error) {
		if m.IsMap() {
			messages, err := m.ToMap()
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
		messages, err := m.ToArray()
		switch {
		case err != nil:
			return nil, mismatch(m, "a map")
		case len(messages)%2 != 0:
			return nil, fmt.Errorf(
				"is not a map but a list of %d values, whose last key has no value", len(messages),
			)
		}
		values := make(map[string]T, len(messages)/2)
		for i := 0; i < len(messages); i += 2 {
			key, err := DecodeString(messages[i])
			if err != nil {
				return nil, fmt.Errorf("at position %d, where a key is due, %w", i+1, err)
			}
			if _, twice := values[key]; twice {
				return nil, fmt.Errorf("is not a map: it has the key %q twice", key)
			}
			if values[key], err = decode(messages[i+1]); err != nil {
				return nil, fmt.Errorf("at key %q %w", key, err)
			}
		}
		return values, nil
	}
}

// DecodeStruct turns a function that reads a struct of n values into a decoder.
func DecodeStruct[T any](n int, read func([]Message) (T, error)) func(Message) (T, error) {
	return func(m Message) (T, error) { return decodeFields(m, n, read) }
}

// DecodeStructs turns a function that reads a struct of n values into a decoder of a list of
// them. The reply is a list of lists of n values, or one list with all values in turn.
// Redis replies to WITHSCORES with the second, unless the script has called
// redis.setresp(3).
func DecodeStructs[T any](n int, read func([]Message) (T, error)) func(Message) ([]T, error) {
	nested := DecodeList(DecodeStruct(n, read))
	return func(m Message) ([]T, error) {
		messages, err := m.ToArray()
		if err != nil || len(messages) == 0 || messages[0].IsArray() {
			return nested(m)
		}
		if len(messages)%n != 0 {
			return nil, fmt.Errorf("has %d values, which is no multiple of the %d of each element", len(messages), n)
		}
		values := make([]T, len(messages)/n)
		for i := range values {
			if values[i], err = read(messages[i*n : (i+1)*n]); err != nil {
				return nil, fmt.Errorf("at position %d %w", i+1, err)
			}
		}
		return values, nil
	}
}

// decodeFields reads a struct of n values.
func decodeFields[T any](m Message, n int, read func([]Message) (T, error)) (T, error) {
	var none T
	values, err := m.ToArray()
	if err != nil {
		return none, mismatch(m, "a list")
	}
	if len(values) != n {
		return none, fmt.Errorf("has %d values where %d are declared", len(values), n)
	}
	return read(values)
}

// DecodeField reads a field of a struct, unless a field before it has failed with err.
func DecodeField[T any](err error, field string, m Message, decode func(Message) (T, error)) (T, error) {
	if err != nil {
		return *new(T), err
	}
	v, err := decode(m)
	if err != nil {
		return v, &fieldError{field, err}
	}
	return v, nil
}

// fieldError adds the field to a decoding error.
type fieldError struct {
	field  string
	reason error
}

func (e *fieldError) Error() string { return "field " + e.field + " " + e.reason.Error() }

func (e *fieldError) Unwrap() error { return e.reason }

// DecodeReply reads a reply that is one value.
func DecodeReply[T any](s *Lua, reply Result, decode func(Message) (T, error)) (T, error) {
	m, err := s.message(reply)
	if err != nil {
		return *new(T), err
	}
	v, err := decode(m)
	if err != nil {
		return *new(T), s.wrong(err)
	}
	return v, nil
}

// DecodeStructReply reads a reply that is a struct of n values.
func DecodeStructReply[T any](s *Lua, reply Result, n int, read func([]Message) (T, error)) (T, error) {
	m, err := s.message(reply)
	if err != nil {
		return *new(T), err
	}
	v, err := decodeFields(m, n, read)
	if err != nil {
		return *new(T), s.wrong(err)
	}
	return v, nil
}
