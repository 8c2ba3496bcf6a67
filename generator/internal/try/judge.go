package try

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/generator/internal/script"
)

// judge says why a reply does not fit the header; nil: it fits. It accepts what the bindings accept.
func judge(r script.Returns, m rueidis.RedisMessage) error {
	switch r.Kind {
	case script.ReturnNone:
		if !m.IsNil() {
			return mismatch(m, "nil")
		}
		return nil
	case script.ReturnOK:
		if text, err := m.ToString(); err != nil || text != "OK" {
			return mismatch(m, "OK")
		}
		return nil
	}
	return decodes(r.Type, m)
}

func decodes(t script.Type, m rueidis.RedisMessage) error {
	if t.Optional && isAbsent(t, m) {
		return nil
	}
	switch t.Kind {
	case script.List:
		return decodesList(t, m)
	case script.Map:
		return decodesMap(*t.Elem, m)
	case script.Struct:
		values, err := m.ToArray()
		if err != nil {
			return mismatch(m, "a list")
		}
		return decodesFields(t.Fields, values)
	}
	return decodesScalar(t.Base, m)
}

// isAbsent reports whether a reply is the absent value of an optional type.
func isAbsent(t script.Type, m rueidis.RedisMessage) bool {
	switch {
	case m.IsNil():
		return true
	case m.IsBool():
		present, _ := m.ToBool()
		return !present
	}
	text, err := m.ToString()
	return err == nil && text == "" && t.Kind == script.Scalar && (t.Base == "duration" || t.Base == "time")
}

func decodesScalar(base string, m rueidis.RedisMessage) error {
	text := ""
	if m.IsString() {
		text, _ = m.ToString()
	}
	switch base {
	case "string", "bytes":
		if !m.IsString() {
			return mismatch(m, "a string")
		}
	case "int", "duration", "time":
		if _, err := strconv.ParseInt(text, 10, 64); !m.IsInt64() && err != nil {
			return mismatch(m, "an integer")
		}
	case "bool":
		n, err := m.ToInt64()
		number := m.IsInt64() && err == nil && (n == 0 || n == 1)
		if !m.IsNil() && !m.IsBool() && !number && text != "0" && text != "1" && text != "OK" {
			return mismatch(m, "0, 1, nil or OK")
		}
	case "float":
		if m.IsInt64() {
			return mismatch(m, "a string, so that it has lost its fraction,")
		}
		if _, err := strconv.ParseFloat(text, 64); !m.IsFloat64() && err != nil && text != "-nan" {
			return mismatch(m, "a number")
		}
	case "json":
		if !json.Valid([]byte(text)) {
			return mismatch(m, "JSON")
		}
	}
	return nil
}

func decodesList(t script.Type, m rueidis.RedisMessage) error {
	values, err := m.ToArray()
	if err != nil {
		return mismatch(m, "a list")
	}
	if fields := t.Elem.Fields; flat(*t.Elem) && len(values) > 0 && !values[0].IsArray() {
		if len(values)%len(fields) != 0 {
			return fmt.Errorf("has %d values, which is no multiple of the %d of each element",
				len(values), len(fields))
		}
		for at := 0; at < len(values); at += len(fields) {
			if err := decodesFields(fields, values[at:at+len(fields)]); err != nil {
				return fmt.Errorf("at position %d: %w", at/len(fields)+1, err)
			}
		}
		return nil
	}
	for i, v := range values {
		if err := decodes(*t.Elem, v); err != nil {
			return fmt.Errorf("at position %d %w", i+1, err)
		}
	}
	return nil
}

// flat reports whether the reply may be one list with the values of all structs in turn.
func flat(t script.Type) bool {
	return t.Kind == script.Struct && !t.Optional &&
		t.Fields[0].Type.Kind == script.Scalar && t.Fields[0].Type.Base != script.RawType
}

func decodesMap(elem script.Type, m rueidis.RedisMessage) error {
	if m.IsMap() {
		values, err := m.ToMap()
		for key, v := range values {
			if err == nil {
				if wrong := decodes(elem, v); wrong != nil {
					err = fmt.Errorf("at key %q %w", key, wrong)
				}
			}
		}
		return err
	}
	values, err := m.ToArray()
	switch {
	case err != nil:
		return mismatch(m, "a map")
	case len(values)%2 != 0:
		return fmt.Errorf("is not a map but a list of %d values, whose last key has no value", len(values))
	}
	seen := map[string]bool{}
	for i := 0; i < len(values); i += 2 {
		key, err := values[i].ToString()
		switch {
		case err != nil:
			return fmt.Errorf("at position %d, where a key is due, %w", i+1, mismatch(values[i], "a string"))
		case seen[key]:
			return fmt.Errorf("is not a map: it has the key %q twice", key)
		}
		seen[key] = true
		if err := decodes(elem, values[i+1]); err != nil {
			return fmt.Errorf("at key %q %w", key, err)
		}
	}
	return nil
}

func decodesFields(fields []script.Field, values []rueidis.RedisMessage) error {
	if len(values) != len(fields) {
		return fmt.Errorf("has %d values where %d are declared", len(values), len(fields))
	}
	for i, f := range fields {
		if err := decodes(f.Type, values[i]); err != nil {
			return fmt.Errorf("field %s %w", f.Name, err)
		}
	}
	return nil
}

func mismatch(m rueidis.RedisMessage, want string) error {
	return errors.New("is not " + want + " but " + describe(m))
}

// describe describes a message. It cuts long values.
func describe(m rueidis.RedisMessage) string {
	switch {
	case m.IsNil():
		return "nil"
	case m.IsInt64():
		n, _ := m.ToInt64()
		return fmt.Sprintf("the integer %d", n)
	case m.IsString():
		text, _ := m.ToString()
		return "the string " + quote(text)
	case m.IsBool():
		b, _ := m.ToBool()
		return fmt.Sprintf("the boolean %t", b)
	case m.IsArray():
		values, _ := m.ToArray()
		return fmt.Sprintf("a list of %d values", len(values))
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

func quote(text string) string {
	if len(text) > 40 {
		return strconv.Quote(text[:40]) + "…"
	}
	return strconv.Quote(text)
}
