package goredis

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	lockscripts "github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	corpus "github.com/rlock-go/toolkit/rlock_test/corpus/bindings"
	"github.com/rlock-go/toolkit/rlock_test/env"
	"github.com/rlock-go/toolkit/rlock_test/goredis/bindings"
	"github.com/rlock-go/toolkit/rlock_test/goredis/gen"
)

// rounds is how often each script is called, each time with other parameters.
const rounds = 30

// Both clients get the same calls, of every script, and answer the same: values, errors and what is
// refused before anything is sent, alone and in a batch.
func TestSameAnswers(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Run("single", func(t *testing.T) {
			t.Parallel()
			server := e.Start(t)
			compare(t, []*env.Server{server}, server.Client(t), single(t, server))
		})
		t.Run("resp2", func(t *testing.T) {
			t.Parallel()
			server := e.Start(t)
			compare(t, []*env.Server{server},
				server.Client(t, func(o *rueidis.ClientOption) { o.AlwaysRESP2, o.DisableCache = true, true }),
				single(t, server, func(o *redis.Options) { o.Protocol = 2 }))
		})
		t.Run("cluster", func(t *testing.T) {
			t.Parallel()
			cluster := e.StartCluster(t)
			compare(t, cluster.Nodes, cluster.Client(t), clustered(t, cluster))
		})
	})
}

func compare(t *testing.T, servers []*env.Server, one rueidis.Client, other redis.UniversalClient) {
	t.Helper()
	for _, of := range []struct {
		lua        string
		one, other any // the scripts of each client
	}{
		{"../../scripts", lockscripts.New(), gen.New()},
		{"../corpus/lua", corpus.New(), bindings.New()},
	} {
		scripts := readScripts(t, of.lua, of.one)
		answered, refused := 0, 0
		for _, s := range scripts {
			// A server's clock goes on between the clients, so an answer may change once. What
			// differs whenever it is asked is a difference between the clients.
			var want, got []string
			for range 20 {
				want = s.ask(t, servers, of.one, one)
				got = s.ask(t, servers, of.other, other)
				if slices.Equal(want, got) {
					break
				}
			}
			for i := range want {
				assert.Equal(t, want[i], got[i], "call %d", i)
			}
			for _, line := range want {
				if strings.Contains(line, "error: ") {
					refused++
				} else {
					answered++
				}
			}
		}
		t.Logf("%s: %d scripts, %d answers, %d errors", of.lua, len(scripts), answered, refused)
		require.Greater(t, answered, 10*len(scripts), "too few calls are answered to say anything")
		require.NotZero(t, refused)
	}
}

// script is what the table knows of a script: how its parameters may be chosen.
type script struct {
	name  string
	keys  map[string]bool     // fields that are keys
	enums map[string][]string // values of fields that are enums
}

var (
	keyLine  = regexp.MustCompile(`(?m)^-- KEYS\[\d+(?:\.\.)?\]\s+(\w+)`)
	enumLine = regexp.MustCompile(`(?m)^-- ARGV\[\d+(?:\.\.)?\]\s+(\w+)\s+enum\(([^)]*)\)`)
)

// fieldName turns an entry of a header into something that its field in Go has too.
func fieldName(name string) string { return strings.ToLower(strings.ReplaceAll(name, "_", "")) }

// readScripts reads the headers in dir, and finds the call of each.
func readScripts(t *testing.T, dir string, calls any) []script {
	t.Helper()
	paths, err := filepath.Glob(dir + "/*.lua")
	require.NoError(t, err)
	methods := map[string]string{}
	for m := range reflect.TypeOf(calls).Methods() {
		methods[strings.ToLower(m.Name)] = m.Name
	}
	var scripts []script
	for _, path := range paths {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		name := strings.ReplaceAll(strings.TrimSuffix(filepath.Base(path), ".lua"), "_", "")
		if m := regexp.MustCompile(`(?m)^-- name: (\w+)`).FindSubmatch(text); m != nil {
			name = string(m[1])
		}
		s := script{methods[strings.ToLower(name)], map[string]bool{}, map[string][]string{}}
		require.NotEmpty(t, s.name, "%s has no call", path)
		for _, m := range keyLine.FindAllSubmatch(text, -1) {
			s.keys[fieldName(string(m[1]))] = true
		}
		for _, m := range enumLine.FindAllSubmatch(text, -1) {
			s.enums[fieldName(string(m[1]))] = strings.Split(string(m[2]), "|")
		}
		scripts = append(scripts, s)
	}
	require.NotEmpty(t, scripts)
	return scripts
}

// ask empties the servers, makes the calls, and returns what they answered.
func (s script) ask(t *testing.T, servers []*env.Server, calls, client any) []string {
	t.Helper()
	for _, server := range servers {
		server.Do(t, "FLUSHALL")
		server.Do(t, "SCRIPT", "FLUSH")
	}
	hash := fnv.New64()
	hash.Write([]byte(s.name))
	random := rand.New(rand.NewPCG(1, hash.Sum64()))
	start := time.Now()
	call := reflect.ValueOf(calls).MethodByName(s.name)
	batch := reflect.ValueOf(calls).MethodByName(s.name + "Batch")
	arguments := func(params reflect.Value) []reflect.Value {
		return []reflect.Value{reflect.ValueOf(t.Context()), reflect.ValueOf(client), params}
	}
	var answers []string
	for i := range rounds {
		if i == rounds/2 {
			for _, server := range servers {
				server.Do(t, "SCRIPT", "FLUSH")
			}
		}
		params := s.fill(random, call.Type().In(2), "", start)
		if i%5 > 0 {
			answers = append(answers, s.show(call.Call(arguments(params)), start))
			continue
		}
		list := reflect.Append(reflect.MakeSlice(batch.Type().In(2), 0, 2), params,
			s.fill(random, params.Type(), "", start))
		answers = append(answers, s.show(batch.Call(arguments(list)), start))
	}
	return answers
}

// held is a lock that guarded scripts take.
type held struct {
	key, token string
	fence      uint64
}

func (l held) Key() string   { return l.key }
func (l held) Token() string { return l.token }
func (l held) Fence() uint64 { return l.fence }

func pick[T any](random *rand.Rand, values ...T) T { return values[random.IntN(len(values))] }

// rarely is pick of what a call may refuse, once in twenty times.
func rarely[T any](random *rand.Rand, usual T, values ...T) T {
	if random.IntN(20) == 0 {
		return pick(random, values...)
	}
	return usual
}

// fill chooses a value. What is chosen depends on the shape of the type and on random, so both
// clients get the same.
func (s script) fill(random *rand.Rand, t reflect.Type, field string, start time.Time) reflect.Value {
	v := reflect.New(t).Elem()
	name := fieldName(field)
	key := func() string { return "{" + s.name + "}" + pick(random, "a", "b", "c") }
	switch {
	case t == reflect.TypeFor[time.Duration]():
		// A lease of milliseconds would end between two calls for the slower client only.
		odd := 2*time.Hour + 1500*time.Microsecond
		v.SetInt(int64(rarely(random, pick(random, 2*time.Hour, 3*time.Hour), 0, -time.Second, odd)))
	case t == reflect.TypeFor[time.Time]():
		v.Set(
			reflect.ValueOf(rarely(random, pick(random, start.Add(2*time.Hour), time.UnixMilli(1_700_000_000_123)),
				time.Time{})))
	case s.enums[name] != nil && t.Kind() == reflect.String:
		v.SetString(rarely(random, pick(random, s.enums[name]...), "none of them"))
	case t.Kind() == reflect.String && s.keys[name]:
		v.SetString(rarely(random, key(), "", "elsewhere"))
	case t.Kind() == reflect.String && name == "words": // leases among them, for which the same is true
		v.SetString(pick(random, "7200000", "10800000", "a", ""))
	case t.Kind() == reflect.String:
		v.SetString(pick(random, "1", "2", "3", "a", "b", "{"+s.name+"}a", "10", ""))
	case t.Kind() == reflect.Interface && t.NumMethod() > 0:
		v.Set(
			reflect.ValueOf(held{key(), rarely(random, pick(random, "a", "b"), ""),
				rarely[uint64](random, 1+random.Uint64N(3), 0)}))
	case t.Kind() == reflect.Interface:
		v.Set(
			reflect.ValueOf(rarely[any](random,
				pick[any](random, map[string]any{"a": 1, "kind": "x"}, []int{1, 2}, "text", 0.5), make(chan int))))
	case t == reflect.TypeFor[[]byte]():
		v.SetBytes([]byte(pick(random, "a", "\x00\xff", "")))
	}
	switch t.Kind() {
	case reflect.Bool:
		v.SetBool(random.IntN(2) == 0)
	case reflect.Int, reflect.Int64:
		if t != reflect.TypeFor[time.Duration]() {
			v.SetInt(pick[int64](random, 0, 1, 2, 3, 10, 100)) // none is negative: a script may count down to it
		}
	case reflect.Float64:
		v.SetFloat(pick(random, 0, 0.5, 1, 2, 100, -1))
	case reflect.Struct:
		if t != reflect.TypeFor[time.Time]() {
			for i := range t.NumField() {
				if !t.Field(i).IsExported() {
					continue
				}
				v.Field(i).Set(s.fill(random, t.Field(i).Type, t.Field(i).Name, start))
			}
		}
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 {
			for range random.IntN(4) {
				v.Set(reflect.Append(v, s.fill(random, t.Elem(), field, start)))
			}
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(t))
		v.SetMapIndex(s.fill(random, t.Key(), field, start), s.fill(random, t.Elem(), field, start))
	}
	return v
}

// show writes what a call returned, so that it can be compared.
func (s script) show(values []reflect.Value, start time.Time) string {
	var parts []string
	for _, v := range values {
		parts = append(parts, plain(v, start))
	}
	answer := s.name + " " + strings.Join(parts, " ")
	if ticking[s.name] {
		answer = changing.ReplaceAllString(answer, "…")
	}
	return answer
}

// ticking are scripts whose answers change within milliseconds. Of those, only what does not is
// compared: which fields there are, and the errors.
var ticking = map[string]bool{"TokenBucket": true}

var changing = regexp.MustCompile(`(-?\d[\d.]*(µs|ms|s|m|h)?)+|true|false`)

// longNumber is one that has the time in it, such as the ID of a stream's entry.
var longNumber = regexp.MustCompile(`\d{9,}(?:-\d+)?`)

// near writes a time of a server as what is left until then, or has gone since: in half hours,
// because the other client asks seconds later.
func near(d time.Duration) string { return fmt.Sprint("about ", d.Round(30*time.Minute)) }

func number(n float64, start time.Time) string {
	switch ms := float64(start.UnixMilli()); {
	case n > ms/2 && n < ms*2:
		return near(time.Duration(n-ms) * time.Millisecond)
	case n > ms*500 && n < ms*2000:
		return near(time.Duration(n/1000-ms) * time.Millisecond)
	case n > ms/2000 && n < ms/500:
		return near(time.Duration(n*1000-ms) * time.Millisecond)
	case n > 100_000 && n < 1e9: // a remaining time
		return near(time.Duration(n) * time.Millisecond)
	}
	return strconv.FormatFloat(n, 'f', 2, 64)
}

func plain(v reflect.Value, start time.Time) string {
	if !v.IsValid() {
		return "nil"
	}
	switch x := v.Interface().(type) {
	case nil:
		return "nil"
	case error:
		return "error: " + kind(x) + longNumber.ReplaceAllString(strings.ReplaceAll(x.Error(), ": ERR ", ": "), "…")
	case time.Duration:
		if x.Abs() < time.Minute {
			return x.String()
		}
		return near(x)
	case time.Time:
		return near(x.Sub(start))
	case rueidis.RedisMessage:
		value, err := x.ToAny()
		if rueidis.IsRedisNil(err) {
			return "nil"
		}
		return plain(reflect.ValueOf(value), start)
	}
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		return plain(v.Elem(), start)
	case reflect.Struct:
		var fields []string
		for i := range v.NumField() {
			if !v.Type().Field(i).IsExported() { // of a Go type that a script names, which both sides have
				return fmt.Sprintf("%+v", v.Interface())
			}
			fields = append(fields, v.Type().Field(i).Name+":"+plain(v.Field(i), start))
		}
		return "{" + strings.Join(fields, " ") + "}"
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return strconv.Quote(longNumber.ReplaceAllString(string(v.Bytes()), "…"))
		}
		var items []string
		for i := range v.Len() {
			items = append(items, plain(v.Index(i), start))
		}
		if v.IsNil() {
			return "no list"
		}
		return "[" + strings.Join(items, " ") + "]"
	case reflect.Map:
		items := map[string]string{}
		for key, value := range v.Seq2() {
			items[plain(key, start)] = plain(value, start)
		}
		return fmt.Sprint(items)
	case reflect.String:
		return strconv.Quote(longNumber.ReplaceAllString(v.String(), "…"))
	case reflect.Int, reflect.Int64:
		return number(float64(v.Int()), start)
	case reflect.Float64:
		return number(v.Float(), start)
	}
	return fmt.Sprint(v.Interface())
}

// kind says which of the errors of bindings an error is. Those of both clients have the same types.
func kind(err error) string {
	for ; err != nil; err = errors.Unwrap(err) {
		switch err.(type) {
		case *redislua.ParamError:
			return "refused: "
		case *redislua.CrossSlotError:
			return "slots: "
		case *redislua.ReplyError:
			return "reply: "
		}
	}
	return ""
}
