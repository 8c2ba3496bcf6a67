package explorer

import (
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	lua "github.com/yuin/gopher-lua"
	"github.com/yuin/gopher-lua/parse"

	"github.com/rlock-go/toolkit/gen"
)

const scriptsDir = "../../../scripts"

// textOf returns the text that runs of a script: with its fragments, each once.
func textOf(tb testing.TB, path string, seen map[string]bool) string {
	tb.Helper()
	text, err := os.ReadFile(path)
	require.NoError(tb, err)
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		b.WriteString(line)
		if name, is := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "-- include: "); is {
			if fragment := filepath.Join(filepath.Dir(path), name); !seen[fragment] {
				seen[fragment] = true
				b.WriteString(textOf(tb, fragment, seen))
			}
		}
	}
	return b.String()
}

// scriptSums are the sums of the texts that gen sends.
var scriptSums = map[string]string{
	"acquire": gen.AcquireSHA1, "wait": gen.WaitSHA1, "release": gen.ReleaseSHA1, "requeue": gen.RequeueSHA1,
	"extend":    gen.ExtendSHA1,
	"hand_over": gen.HandOverSHA1, "attach": gen.AttachSHA1, "acquire_all": gen.AcquireAllSHA1,
	"release_many": gen.ReleaseManySHA1,
}

// scriptNames are the names of the scripts by their sums.
var scriptNames = func() map[string]string {
	names := map[string]string{}
	for name, sum := range scriptSums {
		names[sum] = name
	}
	return names
}()

// scripts returns the texts of the scripts by name, which are those that gen sends.
func scripts(tb testing.TB) map[string]string {
	tb.Helper()
	texts := map[string]string{}
	for name, sum := range scriptSums {
		text := textOf(tb, filepath.Join(scriptsDir, name+".lua"), map[string]bool{})
		got := sha1.Sum([]byte(text))
		require.Equal(tb, sum, hex.EncodeToString(got[:]),
			"the bindings are of another %s.lua; run make generate", name)
		texts[name] = text
	}
	return texts
}

// vm runs scripts over a model of the server.
type vm struct {
	state     *lua.LState
	functions map[string]*lua.LFunction
	run       *execution
	failure   error // a call that the model does not have
}

func newVM(tb testing.TB, texts map[string]string) *vm {
	tb.Helper()
	m := &vm{state: lua.NewState(), functions: map[string]*lua.LFunction{}}
	tb.Cleanup(m.state.Close)
	redis := m.state.NewTable()
	m.state.SetField(redis, "call", m.state.NewFunction(func(l *lua.LState) int { return m.command(l, true) }))
	m.state.SetField(redis, "pcall", m.state.NewFunction(func(l *lua.LState) int { return m.command(l, false) }))
	m.state.SetField(redis, "error_reply", m.state.NewFunction(func(l *lua.LState) int {
		l.Push(failed(l, l.CheckString(1)))
		return 1
	}))
	m.state.SetGlobal("redis", redis)
	m.state.SetField(m.state.GetGlobal("string"), "format", m.state.NewFunction(format))
	for name, text := range texts {
		chunk, err := parse.Parse(strings.NewReader(text), name)
		require.NoError(tb, err)
		proto, err := lua.Compile(chunk, name)
		require.NoError(tb, err)
		m.functions[name] = m.state.NewFunctionFromProto(proto)
	}
	return m
}

// format is string.format of numbers, which this Lua machine has not for numbers that are texts.
func format(l *lua.LState) int {
	args := make([]any, l.GetTop()-1)
	for i := range args {
		args[i] = float64(l.CheckNumber(i + 2))
	}
	l.Push(lua.LString(fmt.Sprintf(l.CheckString(1), args...)))
	return 1
}

// failed is an error as a script has it.
func failed(l *lua.LState, text string) *lua.LTable {
	t := l.NewTable()
	l.SetField(t, "err", lua.LString(text))
	return t
}

func (m *vm) command(l *lua.LState, raise bool) int {
	words := make([]string, l.GetTop())
	for i := range words {
		words[i] = lua.LVAsString(l.Get(i + 1))
	}
	reply, err := m.run.do(words)
	if errors.Is(err, errModel) {
		m.failure = err
	}
	if err == nil {
		l.Push(toLua(l, reply))
		return 1
	}
	failure := failed(l, err.Error())
	if raise {
		l.Error(failure, 1)
	}
	l.Push(failure)
	return 1
}

func toLua(l *lua.LState, reply any) lua.LValue {
	switch r := reply.(type) {
	case nil:
		return lua.LFalse
	case int64:
		return lua.LNumber(r)
	case string:
		return lua.LString(r)
	case status:
		t := l.NewTable()
		l.SetField(t, "ok", lua.LString(r))
		return t
	}
	t := l.NewTable()
	for _, element := range reply.([]any) {
		t.Append(toLua(l, element))
	}
	return t
}

// call runs a script. Its reply is a list of integers, or of one integer; an error reply of the
// script is refused.
func (m *vm) call(x *execution, script string, keys, args []string) (reply []int64, refused bool, err error) {
	m.run, m.failure = x, nil
	m.state.SetGlobal("KEYS", m.list(keys))
	m.state.SetGlobal("ARGV", m.list(args))
	err = m.state.CallByParam(lua.P{Fn: m.functions[script], NRet: 1, Protect: true})
	if m.failure != nil {
		return nil, false, m.failure
	}
	var raised *lua.ApiError
	if errors.As(err, &raised) {
		if t, is := raised.Object.(*lua.LTable); is && t.RawGetString("err") != lua.LNil {
			return nil, true, nil
		}
	}
	if err != nil {
		return nil, false, err
	}
	result := m.state.Get(-1)
	m.state.Pop(1)
	if n, is := result.(lua.LNumber); is {
		return []int64{int64(n)}, false, nil
	}
	t := result.(*lua.LTable)
	if t.RawGetString("err") != lua.LNil {
		return nil, true, nil
	}
	for i := 1; i <= t.Len(); i++ {
		reply = append(reply, int64(t.RawGetInt(i).(lua.LNumber)))
	}
	return reply, false, nil
}

func (m *vm) list(words []string) *lua.LTable {
	t := m.state.NewTable()
	for _, word := range words {
		t.Append(lua.LString(word))
	}
	return t
}
