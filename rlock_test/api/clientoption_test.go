package api

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
)

// optionFields calls f with each field of a ClientOption, by name; those of a struct of rueidis count by
// themselves.
func optionFields(v reflect.Value, prefix string, f func(name string, field reflect.Value)) {
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() {
			continue
		}
		if field.Type.Kind() == reflect.Struct && field.Type.PkgPath() == v.Type().PkgPath() {
			optionFields(v.Field(i), prefix+field.Name+".", f)
		} else {
			f(prefix+field.Name, v.Field(i))
		}
	}
}

// fill gives a value that is not the zero value. A function returns zero values, and an error.
func fill(t *testing.T, v reflect.Value) {
	t.Helper()
	switch v.Kind() {
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.String:
		v.SetString("127.0.0.1:1")
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(t, v.Index(0))
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
	case reflect.Struct:
		fill(t, v.FieldByName("Timeout"))
	case reflect.Func:
		v.Set(reflect.MakeFunc(v.Type(), func([]reflect.Value) []reflect.Value {
			results := make([]reflect.Value, v.Type().NumOut())
			for i := range results {
				results[i] = reflect.Zero(v.Type().Out(i))
				if v.Type().Out(i) == reflect.TypeFor[error]() {
					results[i] = reflect.ValueOf(&errFilled).Elem()
				}
			}
			return results
		}))
	default:
		t.Fatalf("a field of type %v: say here which values it has", v.Type())
	}
}

var errFilled = errors.New("a function of the test")

// CLIENT.md has every option that rueidis has, and no other, and Open refuses those that it calls refused.
func TestClientOptionsAreDocumented(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "CLIENT.md"))
	require.NoError(t, err)
	documented := map[string]string{}
	_, page, found := strings.Cut(string(text), "\n## Every option\n")
	require.True(t, found)
	items, rest, found := strings.Cut(page, "These options change nothing about locks")
	require.True(t, found)
	none, _, _ := strings.Cut(rest, "\n\n")
	name := regexp.MustCompile("`([\\w.]+)`")
	add := func(names, what string) {
		for _, match := range name.FindAllStringSubmatch(names, -1) {
			require.NotContains(t, documented, match[1], "it stands there twice")
			documented[match[1]] = what
		}
	}
	for _, item := range regexp.MustCompile(
		"(?m)^- (`[\\w.]+`(?:, `[\\w.]+`)*)(?: \\((refused|set)\\))?: \\S").FindAllStringSubmatch(items, -1) {
		add(item[1], item[2])
	}
	add(none, "")
	there := map[string]bool{}
	optionFields(reflect.ValueOf(rueidis.ClientOption{}), "",
		func(name string, _ reflect.Value) { there[name] = true })
	for name := range documented {
		require.True(t, there[name], "%s is no option of rueidis any more", name)
	}
	for name := range there {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			require.Contains(t, documented, name,
				"a new option of rueidis: does it send commands twice, or keep a dead connection for longer? Say so in "+
					"CLIENT.md")
			option := rueidis.ClientOption{InitAddress: []string{"127.0.0.1:1"}}
			optionFields(reflect.ValueOf(&option).Elem(), "", func(other string, field reflect.Value) {
				if other == name {
					fill(t, field)
				}
			})
			_, err := rlock.Open(option)
			require.Error(t, err, "nobody listens there")
			require.Equal(t, documented[name] == "refused", errors.Is(err, rlock.ErrInvalid), "%v", err)
			if documented[name] == "refused" {
				var wrong *rlock.ArgumentError
				require.ErrorAs(t, err, &wrong)
				require.Equal(t, name, wrong.Argument)
			}
		})
	}
}
