package luaimpl

import (
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/redislua"
)

func TestCall(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		encode     func(c *Call)
		keys, args string // with blanks between them
	}{
		"none":      {func(*Call) {}, "", ""},
		"keys":      {func(c *Call) { c.Key("p", "a"); c.Key("p", "b", "c"); c.Key("p") }, "a b c", ""},
		"channels":  {func(c *Call) { c.Channels("p", "a:{1}:", "{1}") }, "a:{1}: {1}", ""},
		"a lock":    {func(c *Call) { c.Held("p", lock{}); c.Arg("x"); c.Token(lock{}) }, "key", "x token"},
		"a fence":   {func(c *Call) { c.Fence("p", lock{fence: 1 << 53}) }, "", "9007199254740992"},
		"texts":     {func(c *Call) { c.Arg("a"); c.Arg("b", "c") }, "", "a b c"},
		"a bool":    {func(c *Call) { c.Bool(true); c.Bool(false) }, "", "1 0"},
		"an int":    {func(c *Call) { c.Int(math.MinInt64) }, "", "-9223372036854775808"},
		"a channel": {func(c *Call) { c.Channel("p", "news") }, "", "news"},
		"an enum": {func(c *Call) {
			c.Enum("p", "a", "a", "b")
			c.OptionalEnum("p", "b", "a", "b")
		}, "", "a b"},
		"a duration": {func(c *Call) {
			c.Duration("p", time.Millisecond)
			c.Duration("p", 24*time.Hour)
		}, "", "1 86400000"},
		"or none": {func(c *Call) { c.OptionalDuration("p", time.Second) }, "", "1000"},
		"a time": {func(c *Call) {
			c.Time("p", time.UnixMilli(1700000000123).Add(time.Microsecond))
		}, "", "1700000000123"},
		"a later time": {func(c *Call) { c.OptionalTime("p", time.UnixMilli(1700000000123)) }, "", "1700000000123"},
		"JSON":         {func(c *Call) { c.JSON("p", map[string]int{"a": 1}) }, "", `{"a":1}`},
		"floats": {func(c *Call) {
			for _, f := range []float64{0.1, 1e6, -2.5, 1e21, 1e-7, math.Copysign(0, -1), 1<<53 + 2} {
				c.Float("p", f)
			}
		}, "", "0.1 1000000 -2.5 1000000000000000000000 0.0000001 0 9007199254740994"},
		"as many as fit": {numbered(16), "k", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15"},
		"one more":       {numbered(17), "k", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16"},
		"more":           {numbered(19), "k", "1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var call Call
			c.encode(&call)
			require.Nil(t, call.refused)
			require.Equal(t, strings.Fields(c.keys), append([]string{}, call.keys()...))
			require.Equal(t, strings.Fields(c.args), append([]string{}, call.args()...))
		})
	}
	var call Call
	call.OptionalDuration("p", 0)
	call.OptionalTime("p", time.Time{})
	call.OptionalEnum("p", "", "a", "b")
	require.Equal(t, []string{"", "", ""}, call.args())
	require.Nil(t, call.refused)
}

// numbered appends a key and numbers until there are n words.
func numbered(n int) func(c *Call) {
	return func(c *Call) {
		c.Key("p", "k")
		for i := range n - 1 {
			c.Int(int64(i + 1))
		}
	}
}

func TestFloatsComeBack(t *testing.T) {
	t.Parallel()
	for _, f := range []float64{math.MaxFloat64, math.SmallestNonzeroFloat64, 1e100} {
		var call Call
		call.Float("p", f)
		back, err := strconv.ParseFloat(call.args()[0], 64)
		require.NoError(t, err)
		require.Equal(t, f, back)
	}
}

type lock struct{ fence uint64 }

func (l lock) Key() string   { return "key" }
func (l lock) Token() string { return "token" }
func (l lock) Fence() uint64 { return l.fence }

// words are a lock with a key and a token that may be empty.
type words [2]string

func (w words) Key() string   { return w[0] }
func (w words) Token() string { return w[1] }

func TestRefused(t *testing.T) {
	t.Parallel()
	client := newClient(t)
	s := newScript("return 1")
	for reason, encode := range map[string]func(c *Call){
		"it is an empty key; give its name": func(
			c *Call,
		) {
			c.Key("p", "")
		},
		"number 2 is an empty key; give its name": func(
			c *Call,
		) {
			c.Key("p", "a", "")
		},
		`"" has no hash tag, such as {1}, so channels that start with it are in many slots`: func(
			c *Call,
		) {
			c.Channels("p", "")
		},
		`"a{" has no hash tag, such as {1}, so channels that start with it are in many slots`: func(
			c *Call,
		) {
			c.Channels("p", "{1}", "a{")
		},
		`"{}{1" has no hash tag, such as {1}, so channels that start with it are in many slots`: func(
			c *Call,
		) {
			c.Channels("p", "{}{1")
		},
		"the lock is nil; the script runs only while a lock is held": func(
			c *Call,
		) {
			c.Held("p", nil)
			c.Token(nil)
		},
		"the lock has no key":                               func(c *Call) { c.Held("p", words{"", "token"}) },
		"the lock has no token":                             func(c *Call) { c.Held("p", words{"key"}) },
		"the lock is nil; the script compares its fence":    func(c *Call) { c.Fence("p", nil) },
		"the lock was taken without a fence":                func(c *Call) { c.Fence("p", lock{}) },
		"NaN is not a number that a script can count with":  func(c *Call) { c.Float("p", math.NaN()) },
		"+Inf is not a number that a script can count with": func(c *Call) { c.Float("p", math.Inf(1)) },
		"it is the zero time; give one":                     func(c *Call) { c.Time("p", time.Time{}) },
		"0s is below 1ms":                                   func(c *Call) { c.Duration("p", 0) },
		"-1s is below 1ms": func(
			c *Call,
		) {
			c.OptionalDuration("p", -time.Second)
		},
		"1.5ms is not a whole number of milliseconds; truncate it": func(c *Call) {
			c.Duration("p", 1500*time.Microsecond)
		},
		"it is an empty channel; give its name": func(c *Call) { c.Channel("p", "") },
		`"c" is not one of ["a" "b"]`:           func(c *Call) { c.OptionalEnum("p", "c", "a", "b") },
		`"" is not one of ["a" "b"]`:            func(c *Call) { c.Enum("p", "", "a", "b") },
		"json: unsupported type: chan int":      func(c *Call) { c.JSON("p", make(chan int)) },
		"the fence is above 2^53; " +
			"numbers of Lua are doubles, which do not tell it from its neighbours": func(c *Call) {
			c.Fence("p", lock{1<<53 + 1})
		},
	} {
		var call Call
		encode(&call)
		call.Key("later", "") // of several, the first is reported
		_, err := DecodeReply(&s, s.Exec(t.Context(), client, &call), DecodeInt)
		require.Equal(
			t, &redislua.ParamError{Package: "bindings", Script: "Script", Param: "p", Reason: reason}, err,
		)
		require.EqualError(t, err, "bindings: Script: p: "+reason)
	}
}

// A call whose words fit has no memory of its own.
func TestCallAllocations(t *testing.T) {
	key, parts, lease := "key", []string{"a", "b"}, 10*time.Second
	require.Zero(t, testing.AllocsPerRun(100, func() {
		var call Call
		call.Held("lock", lock{})
		call.Key("key", key)
		call.Key("keys", parts...)
		call.Duration("lease", lease)
		call.Enum("how", "now", "now", "later")
		call.Token(lock{})
		if len(call.keys()) != 4 || len(call.args()) != 3 {
			t.Error("words are missing")
		}
	}))
}
