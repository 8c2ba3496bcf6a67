package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/redislua"
)

// replyType is the type of a reply's value.
type replyType struct {
	Name     string // name of a scalar type, or list, map, struct
	Elem     *replyType
	Fields   []replyType
	Optional bool
}

// answered returns what is wrong with the binding's result for the answer.
func (s step) answered(reply rueidis.RedisResult, answer reflect.Value, err error) (kind, why string) {
	message, failed := reply.ToMessage()
	if failed != nil && !rueidis.IsRedisNil(failed) {
		if err == nil {
			return "decode", fmt.Sprintf("the answer is %v, which the binding does not tell", failed)
		}
		if code, ok := rueidis.IsRedisErr(failed); ok && rights.MatchString(code.Error()) {
			return "rights", code.Error()
		}
		return "", "" // a script may fail
	}
	if wrong := new(redislua.ReplyError); errors.As(err, &wrong) {
		if repeats(message, s.Returns) {
			return "", "" // the binding refuses the answer, because it would lose a value
		}
		return "decode", fmt.Sprintf("%v of %v", err, message.String())
	}
	if err != nil {
		return "decode", fmt.Sprintf("the answer is %v, but the binding tells %v", message.String(), err)
	}
	if !answer.IsValid() || s.Returns.Name == "raw" || s.Returns.Name == "none" || s.Returns.Name == "ok" {
		return "", ""
	}
	want, err := read(message, s.Returns)
	if err != nil {
		return "decode", fmt.Sprintf("%v was decoded, but %v", message.String(), err)
	}
	got := plain(answer)
	if a, b := text(want), text(got); a != b {
		return "decode", fmt.Sprintf("%s was decoded as %s, which is %s", message.String(), b, a)
	}
	return "", ""
}

// repeats reports whether a list for a map has a name twice.
func repeats(message rueidis.RedisMessage, t replyType) bool {
	values, err := message.ToArray()
	if err != nil {
		return false
	}
	names := map[string]bool{}
	for i, v := range values {
		switch {
		case t.Name == "map" && i%2 == 0:
			name, _ := v.ToString()
			if names[name] {
				return true
			}
			names[name] = true
		case t.Elem != nil && repeats(v, *t.Elem), i < len(t.Fields) && repeats(v, t.Fields[i]):
			return true
		}
	}
	return false
}

// rights is the server's answer to a command, a key or a channel for which a user has no right.
var rights = regexp.MustCompile(`NOPERM|ACL failure|The user executing the script can.t`)

func text(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// read reads a message as a value of the type, as the documentation says.
func read(m rueidis.RedisMessage, t replyType) (any, error) {
	if m.IsNil() {
		switch {
		case t.Optional, t.Name == "raw":
			return nil, nil
		case t.Name == "bool":
			return false, nil
		}
		return nil, errors.New("it is nil")
	}
	if t.Optional && m.IsBool() { // false in version 3 of the protocol
		if present, _ := m.ToBool(); !present {
			return nil, nil
		}
	}
	if t.Optional && (t.Name == "duration" || t.Name == "time") && m.IsString() {
		if s, _ := m.ToString(); s == "" {
			return nil, nil
		}
	}
	switch t.Name {
	case "raw":
		return nil, nil
	case "string", "bytes", "json":
		s, err := m.ToString()
		return s, err
	case "int":
		return m.AsInt64()
	case "duration":
		n, err := m.AsInt64()
		switch most := int64(math.MaxInt64 / int64(time.Millisecond)); {
		case n > most:
			return int64(math.MaxInt64), err
		case n < -most:
			return int64(math.MinInt64), err
		}
		return n * int64(time.Millisecond), err
	case "time":
		n, err := m.AsInt64()
		return n, err
	case "float":
		if m.IsFloat64() {
			return m.ToFloat64()
		}
		s, err := m.ToString()
		if err != nil {
			return nil, err
		}
		if s == "-nan" { // the value of 0 / 0
			s = "nan"
		}
		f, err := strconv.ParseFloat(s, 64)
		return f, err
	case "bool":
		if m.IsBool() {
			return m.ToBool()
		}
		if m.IsInt64() {
			n, err := m.ToInt64()
			return n == 1, err
		}
		s, err := m.ToString()
		return s == "1" || s == "OK", err
	}
	return readMany(m, t)
}

func readMany(m rueidis.RedisMessage, t replyType) (any, error) {
	if t.Name == "map" && m.IsMap() {
		fields, err := m.ToMap()
		if err != nil {
			return nil, err
		}
		all := map[string]any{}
		for name, v := range fields {
			if all[name], err = read(v, *t.Elem); err != nil {
				return nil, err
			}
		}
		return all, nil
	}
	items, err := m.ToArray()
	if err != nil {
		return nil, err
	}
	switch {
	case t.Name == "map":
		all := map[string]any{}
		for i := 0; i+1 < len(items); i += 2 {
			name, err := items[i].ToString()
			if err != nil {
				return nil, err
			}
			if all[name], err = read(items[i+1], *t.Elem); err != nil {
				return nil, err
			}
		}
		return all, nil
	case t.Name == "struct":
		return readEach(items, t.Fields)
	case t.Elem.Name == "struct" && len(items) > 0 && !items[0].IsArray():
		all, n := []any{}, len(t.Elem.Fields)
		for i := 0; i+n <= len(items); i += n {
			one, err := readEach(items[i:i+n], t.Elem.Fields)
			if err != nil {
				return nil, err
			}
			all = append(all, one)
		}
		return all, nil
	}
	all := []any{}
	for _, item := range items {
		v, err := read(item, *t.Elem)
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

func readEach(items []rueidis.RedisMessage, types []replyType) (any, error) {
	if len(items) != len(types) {
		return nil, fmt.Errorf("it has %d values, not %d", len(items), len(types))
	}
	all := []any{}
	for i, item := range items {
		v, err := read(item, types[i])
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, nil
}

// plain returns the binding's result in a form that can be compared.
func plain(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case time.Duration:
		return int64(x)
	case time.Time:
		return x.UnixMilli()
	case []byte:
		return string(x)
	case json.RawMessage:
		return string(x)
	case rueidis.RedisMessage:
		return nil
	}
	switch v.Kind() {
	case reflect.Struct:
		if valid := v.FieldByName("Valid"); valid.IsValid() && v.NumField() == 2 {
			if !valid.Bool() {
				return nil
			}
			return plain(v.FieldByName("V"))
		}
		all := []any{}
		for i := range v.NumField() {
			all = append(all, plain(v.Field(i)))
		}
		return all
	case reflect.Slice:
		all := []any{}
		for i := range v.Len() {
			all = append(all, plain(v.Index(i)))
		}
		return all
	case reflect.Map:
		all := map[string]any{}
		for _, key := range v.MapKeys() {
			all[key.String()] = plain(v.MapIndex(key))
		}
		return all
	}
	return v.Interface()
}
