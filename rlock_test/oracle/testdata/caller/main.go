// Program caller calls generated bindings as the steps on its input say. It prints what is wrong
// with the words that they send and with their results.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock_test/oracle/testdata/caller/bindings"
)

// step is one call of a binding.
type step struct {
	Program string
	Data    [][]string // commands that run before the call
	Rights  []string   // rights of the user who calls
	Form    string     // call, batch or cached
	Values  []value
	Refused bool     // the type of one of the values refuses it
	Keys    [][]byte // the keys that the binding must send
	Args    [][]byte
	Returns replyType
}

// value is the value of one field of the parameters.
type value struct {
	Field string
	Many  bool
	Texts [][]byte // for times, a number of nanoseconds or milliseconds; for a lock, its key, token and fence
}

// fault is what is wrong with a binding.
type fault struct{ Program, Kind, Why string }

// lock stands for a lock in the parameters of a guarded script.
type lock struct {
	key, token string
	fence      uint64
}

func (l lock) Key() string   { return l.key }
func (l lock) Token() string { return l.token }
func (l lock) Fence() uint64 { return l.fence }

// recorder keeps what the binding sends, and the last answer.
type recorder struct {
	rueidis.Client
	sent  [][]string
	reply rueidis.RedisResult
}

func (r *recorder) Do(ctx context.Context, cmd rueidis.Completed) rueidis.RedisResult {
	r.sent = append(r.sent, slices.Clone(cmd.Commands()))
	r.reply = r.Client.Do(ctx, cmd)
	return r.reply
}

func (r *recorder) DoMulti(ctx context.Context, multi ...rueidis.Completed) []rueidis.RedisResult {
	for _, cmd := range multi {
		r.sent = append(r.sent, slices.Clone(cmd.Commands()))
	}
	replies := r.Client.DoMulti(ctx, multi...)
	r.reply = replies[0]
	return replies
}

func (r *recorder) DoCache(ctx context.Context, cmd rueidis.Cacheable,
	ttl time.Duration) rueidis.RedisResult {
	r.sent = append(r.sent, slices.Clone(cmd.Commands()))
	r.reply = r.Client.DoCache(ctx, cmd, ttl)
	return r.reply
}

func main() {
	var steps []step
	if err := json.NewDecoder(os.Stdin).Decode(&steps); err != nil {
		fail(err)
	}
	option := rueidis.ClientOption{InitAddress: []string{os.Args[1]}, DisableCache: true,
		ForceSingleClient: true, ConnWriteTimeout: 10 * time.Minute}
	admin, err := rueidis.NewClient(option)
	if err != nil {
		fail(err)
	}
	defer admin.Close()
	option.Username, option.Password, option.DisableCache = os.Args[2], "any", false
	limited, err := rueidis.NewClient(option)
	if err != nil {
		fail(err)
	}
	defer limited.Close()
	scripts := reflect.ValueOf(bindings.New())
	found := []fault{}
	for _, s := range steps {
		for _, command := range append(s.Data, s.Rights) {
			if err := admin.Do(context.Background(), admin.B().Arbitrary(command...).Build()).Error(); err != nil &&
				!rueidis.IsRedisNil(err) {
				fail(fmt.Errorf("%s: %v: %w", s.Program, command, err))
			}
		}
		kind, why := s.run(&recorder{Client: limited}, scripts)
		if why != "" {
			found = append(found, fault{s.Program, kind, why})
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fail(err)
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// run calls the binding.
func (s step) run(client *recorder, scripts reflect.Value) (kind, why string) {
	defer func() {
		if p := recover(); p != nil {
			kind, why = "decode", fmt.Sprintf("the binding panics: %v", p)
		}
	}()
	suffix := map[string]string{"batch": "Batch", "cached": "Cached"}[s.Form]
	method := scripts.MethodByName(strings.ToUpper(s.Program[:1]) + s.Program[1:] + suffix)
	if !method.IsValid() {
		return "decode", "there is no method for the form " + s.Form
	}
	typ := method.Type().In(2)
	if s.Form == "batch" {
		typ = typ.Elem()
	}
	params := reflect.New(typ).Elem()
	for _, v := range s.Values {
		if err := v.set(params); err != nil {
			return "decode", err.Error()
		}
	}
	in := []reflect.Value{reflect.ValueOf(context.Background()), reflect.ValueOf(client), params}
	switch s.Form {
	case "batch":
		in[2] = reflect.Append(reflect.MakeSlice(reflect.SliceOf(typ), 0, 1), params)
	case "cached":
		in = append(in, reflect.ValueOf(time.Minute))
	}
	answer, err := results(s.Form, method.Call(in))
	if why := s.sent(client, err); why != "" {
		return "encode", why
	}
	if s.Refused {
		return "", ""
	}
	return s.answered(client.reply, answer, err)
}

// results returns the value and the error of a call.
func results(form string, out []reflect.Value) (answer reflect.Value, err error) {
	switch form {
	case "batch":
		answer, err := out[0].Index(0).Field(0), out[0].Index(0).Field(1)
		e, _ := err.Interface().(error)
		return answer, e
	case "cached":
		if len(out) == 2 {
			answer = out[0].FieldByName("Value")
		}
	default:
		if len(out) == 2 {
			answer = out[0]
		}
	}
	err, _ = out[len(out)-1].Interface().(error)
	return answer, err
}

// sent returns what is wrong with what the binding sent.
func (s step) sent(client *recorder, err error) string {
	refused := new(redislua.ParamError)
	switch {
	case s.Refused && len(client.sent) > 0:
		return fmt.Sprintf("a value that its type does not take is sent: %q for %q", client.sent, s.texts())
	case s.Refused && !errors.As(err, &refused):
		return fmt.Sprintf("a value that its type does not take gives %v", err)
	case s.Refused:
		return ""
	case len(client.sent) == 0:
		return fmt.Sprintf("nothing is sent, but %v", err)
	}
	words := client.sent[len(client.sent)-1]
	want := slices.Concat(s.Keys, s.Args)
	switch words[0] {
	case "GET":
		words = words[1:]
	default:
		if words[2] != strconv.Itoa(len(s.Keys)) {
			return fmt.Sprintf("%s keys are sent of %d", words[2], len(s.Keys))
		}
		words = words[3:]
	}
	if !slices.EqualFunc(words, want, func(word string, want []byte) bool { return word == string(want) }) {
		return fmt.Sprintf("%q is sent in place of %q", words, want)
	}
	return ""
}

func (s step) texts() (texts []string) {
	for _, v := range s.Values {
		for _, text := range v.Texts {
			texts = append(texts, v.Field+"="+string(text))
		}
	}
	return texts
}

// set sets the field.
func (v value) set(params reflect.Value) error {
	field := params.FieldByNameFunc(func(name string) bool { return strings.EqualFold(name, v.Field) })
	if !field.IsValid() {
		return fmt.Errorf("%v has no field %s", params.Type(), v.Field)
	}
	if !v.Many {
		return set(field, v.Texts)
	}
	for _, text := range v.Texts {
		elem := reflect.New(field.Type().Elem()).Elem()
		if err := set(elem, [][]byte{text}); err != nil {
			return err
		}
		field.Set(reflect.Append(field, elem))
	}
	return nil
}

func set(field reflect.Value, texts [][]byte) (err error) {
	text := string(texts[0])
	switch field.Interface().(type) {
	case time.Duration:
		n, err := strconv.ParseInt(text, 10, 64)
		field.SetInt(n)
		return err
	case time.Time:
		if text == "" {
			return nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		field.Set(reflect.ValueOf(time.UnixMilli(n)))
		return err
	}
	switch field.Kind() {
	case reflect.Interface:
		n, err := strconv.ParseUint(string(texts[2]), 10, 64)
		field.Set(reflect.ValueOf(lock{text, string(texts[1]), n}))
		return err
	case reflect.Slice:
		field.SetBytes(texts[0])
	case reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		field.SetInt(n)
		return err
	case reflect.Bool:
		field.SetBool(text == "1")
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		field.SetFloat(f)
		return err
	default:
		field.SetString(text)
	}
	return nil
}
