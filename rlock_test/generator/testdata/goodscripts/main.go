// Program goodscripts calls generated bindings as a list of steps says, and prints
// every answer that is not the one wanted.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/redislua"

	"example.test/good/bindings"
)

// step is a command for the server, or else a call of a script's binding.
type step struct {
	Place    string // file:line
	Command  []string
	Script   string // in the bindings
	Params   map[string]json.RawMessage
	Want     any
	Error    string // the call must fail with a text that has it
	Declares bool   // and with the sentinel of this code, as the script declares it
}

// lock stands for a lock in the parameters of a guarded script.
type lock struct {
	key, token string
	fence      uint64
}

func (l lock) Key() string   { return l.key }
func (l lock) Token() string { return l.token }
func (l lock) Fence() uint64 { return l.fence }

func main() {
	var steps []step
	if err := json.NewDecoder(os.Stdin).Decode(&steps); err != nil {
		fail(err)
	}
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress: []string{os.Args[1]},
		AlwaysRESP2: os.Args[2] == "resp2", DisableCache: os.Args[2] == "resp2",
	})
	if err != nil {
		fail(err)
	}
	defer client.Close()
	scripts := reflect.ValueOf(bindings.New())
	for _, s := range steps {
		if err := s.run(client, scripts); err != nil {
			fmt.Printf("%s: %v\n", s.Place, err)
		}
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func (s step) run(client rueidis.Client, scripts reflect.Value) error {
	ctx := context.Background()
	if s.Command != nil {
		err := client.Do(ctx, client.B().Arbitrary(s.Command...).Build()).Error()
		if rueidis.IsRedisNil(err) {
			return nil
		}
		return err
	}
	method := scripts.MethodByName(s.Script)
	for i := range scripts.NumMethod() { // the generator writes Id as ID
		if strings.EqualFold(scripts.Type().Method(i).Name, s.Script) {
			method = scripts.Method(i)
		}
	}
	if !method.IsValid() {
		return errors.New("no method " + s.Script)
	}
	in := []reflect.Value{reflect.ValueOf(ctx), reflect.ValueOf(client)}
	if method.Type().NumIn() > len(in) {
		params := reflect.New(method.Type().In(len(in))).Elem()
		for name, value := range s.Params {
			field := params.FieldByNameFunc(func(f string) bool { return strings.EqualFold(f, name) })
			if !field.IsValid() {
				return fmt.Errorf("%s has no field %s", params.Type(), name)
			}
			if err := set(field, value); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
		in = append(in, params)
	}
	out := method.Call(in)
	err, _ := out[len(out)-1].Interface().(error)
	switch {
	case s.Error != "" && err == nil:
		return fmt.Errorf("no error, want %s", s.Error)
	case s.Error != "":
		if s.Declares && !errors.Is(err, sentinels[s.Error]) || !strings.Contains(err.Error(), s.Error) {
			return fmt.Errorf("is no %s: %w", s.Error, err)
		}
		return nil
	case err != nil:
		return err
	case len(out) == 1: // none and ok answer nothing
		return nil
	}
	got := view(out[0])
	if !same(s.Want, got) {
		return fmt.Errorf("got %#v, want %#v", got, s.Want)
	}
	return nil
}

// set puts a JSON value into a parameter: a duration is written as 1m30s, a time as
// RFC 3339, a held lock as ["key", "token"], a fence as a
// number.
func set(field reflect.Value, value json.RawMessage) error {
	switch p := field.Addr().Interface().(type) {
	case *time.Duration:
		var text string
		if err := json.Unmarshal(value, &text); err != nil {
			return err
		}
		d, err := time.ParseDuration(text)
		*p = d
		return err
	case *redislua.Held:
		var pair [2]string
		err := json.Unmarshal(value, &pair)
		*p = lock{key: pair[0], token: pair[1]}
		return err
	case *redislua.Fenced:
		l := lock{}
		err := json.Unmarshal(value, &l.fence)
		*p = l
		return err
	case *[]byte:
		var text string
		err := json.Unmarshal(value, &text)
		*p = []byte(text)
		return err
	case *[][]byte:
		var texts []string
		err := json.Unmarshal(value, &texts)
		for _, text := range texts {
			*p = append(*p, []byte(text))
		}
		return err
	}
	return json.Unmarshal(value, field.Addr().Interface())
}

// view turns an answer into what JSON would make of it, with durations and times as
// in [set].
func view(v reflect.Value) any {
	switch x := v.Interface().(type) {
	case time.Duration:
		return x.String()
	case time.Time:
		return x.UTC().Format(time.RFC3339Nano)
	case json.RawMessage:
		var decoded any
		if err := json.Unmarshal(x, &decoded); err != nil {
			return "no JSON: " + string(x)
		}
		return decoded
	case []byte:
		return string(x)
	case rueidis.RedisMessage:
		raw, err := x.ToAny()
		if err != nil && !rueidis.IsRedisNil(err) {
			return err.Error()
		}
		if raw == nil {
			return nil
		}
		return view(reflect.ValueOf(raw))
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return nil
		}
		return view(v.Elem())
	case reflect.Struct:
		if value, valid := v.FieldByName("V"), v.FieldByName("Valid"); value.IsValid() && valid.IsValid() { // Null
			if !valid.Bool() {
				return nil
			}
			return view(value)
		}
		fields := map[string]any{}
		for i := range v.NumField() {
			fields[v.Type().Field(i).Name] = view(v.Field(i))
		}
		return fields
	case reflect.Slice:
		list := []any{}
		for i := range v.Len() {
			list = append(list, view(v.Index(i)))
		}
		return list
	case reflect.Map:
		entries := map[string]any{}
		for _, key := range v.MapKeys() {
			entries[fmt.Sprint(key)] = view(v.MapIndex(key))
		}
		return entries
	case reflect.Int, reflect.Int64:
		return float64(v.Int())
	case reflect.Uint64:
		return float64(v.Uint())
	}
	return v.Interface()
}

// same compares an answer with the one wanted, in which * stands for anything and ~1h
// for a duration up to five seconds less.
func same(want, got any) bool {
	switch want := want.(type) {
	case string:
		if want == "*" {
			return true
		}
		if text, ok := strings.CutPrefix(want, "~"); ok {
			around, err := time.ParseDuration(text)
			left, isText := got.(string)
			d, broken := time.ParseDuration(left)
			return err == nil && isText && broken == nil && d <= around && around-d < 5*time.Second
		}
	case []any:
		list, ok := got.([]any)
		if !ok || len(list) != len(want) {
			return false
		}
		for i := range want {
			if !same(want[i], list[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		entries, ok := got.(map[string]any)
		if !ok || len(entries) != len(want) {
			return false
		}
		for name, value := range want {
			found := false
			for key := range entries {
				found = found || strings.EqualFold(key, name) && same(value, entries[key])
			}
			if !found {
				return false
			}
		}
		return true
	}
	return want == got
}
