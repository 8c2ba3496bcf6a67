package luaimpl

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rlock-go/toolkit/redislua"
)

// Call has the words of one call. Each of its methods appends a word, keys first, in the order of the header.
// If a method refuses a parameter, the call sends nothing, and its error names the first of them.
type Call struct {
	short   [16]string // the words of most calls, so that they need no memory of their own
	long    []string   // all words, if there are more
	n       int        // how many words there are
	numkeys int        // how many of them are keys
	refused *redislua.ParamError
}

func (c *Call) words() []string {
	if c.n > len(c.short) {
		return c.long
	}
	return c.short[:c.n]
}

func (c *Call) keys() []string { return c.words()[:c.numkeys] }

func (c *Call) args() []string { return c.words()[c.numkeys:] }

func (c *Call) add(text string) {
	switch {
	case c.n < len(c.short):
		c.short[c.n] = text
	case c.n == len(c.short):
		c.long = append(c.long, c.short[:]...)
		fallthrough
	default:
		c.long = append(c.long, text)
	}
	c.n++
}

func (c *Call) refuse(param, reason string) {
	if c.refused == nil {
		c.refused = &redislua.ParamError{Param: param, Reason: reason}
	}
}

func (c *Call) key(text string) {
	c.add(text)
	c.numkeys++
}

// Key appends keys. It refuses an empty key, because the caller forgot its name.
func (c *Call) Key(param string, keys ...string) {
	for i, key := range keys {
		switch {
		case key != "":
		case len(keys) == 1:
			c.refuse(param, "it is an empty key; give its name")
		default:
			c.refuse(param, fmt.Sprintf("number %d is an empty key; give its name", i+1))
		}
		c.key(key)
	}
}

// Channels appends prefixes of channels. It refuses a prefix without a hash tag, because all channels with
// the prefix must be in one slot.
func (c *Call) Channels(param string, starts ...string) {
	for _, start := range starts {
		if _, behind, opened := strings.Cut(start, "{"); !opened || strings.IndexByte(behind, '}') < 1 {
			c.refuse(param, fmt.Sprintf(
				"%q has no hash tag, such as {1}, so channels that start with it are in many slots", start))
		}
		c.key(start)
	}
}

// Held appends the key of a lock. It refuses a lock that is nil, or that has no key or token, because the
// script would compare an empty string.
func (c *Call) Held(param string, lock redislua.Held) {
	switch {
	case lock == nil:
		c.refuse(param, "the lock is nil; the script runs only while a lock is held")
	case lock.Key() == "":
		c.refuse(param, "the lock has no key")
	case lock.Token() == "":
		c.refuse(param, "the lock has no token")
	default:
		c.key(lock.Key())
	}
}

// Token appends the token of a lock whose key Held has appended.
func (c *Call) Token(lock redislua.Held) {
	if c.refused == nil {
		c.add(lock.Token())
	}
}

// Arg appends texts.
func (c *Call) Arg(texts ...string) {
	for _, text := range texts {
		c.add(text)
	}
}

// Fence appends the fence of a lock.
func (c *Call) Fence(param string, lock redislua.Fenced) {
	switch {
	case lock == nil:
		c.refuse(param, "the lock is nil; the script compares its fence")
	case lock.Fence() == 0:
		c.refuse(param, "the lock was taken without a fence")
	case lock.Fence() > 1<<53:
		c.refuse(param,
			"the fence is above 2^53; numbers of Lua are doubles, which do not tell it from its neighbours")
	default:
		c.add(strconv.FormatUint(lock.Fence(), 10))
	}
}

// Int appends a number.
func (c *Call) Int(n int64) { c.add(strconv.FormatInt(n, 10)) }

// Bool appends 1 or 0.
func (c *Call) Bool(b bool) {
	if b {
		c.add("1")
	} else {
		c.add("0")
	}
}

// Float appends f without an exponent, and zero without a sign, because INCRBY,
// EXPIRE and other commands read a whole number as an integer.
func (c *Call) Float(param string, f float64) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		c.refuse(param, fmt.Sprintf("%v is not a number that a script can count with", f))
		return
	}
	if f == 0 { // which may be -0
		f = 0
	}
	c.add(strconv.FormatFloat(f, 'f', -1, 64))
}

// Duration appends d as whole milliseconds.
func (c *Call) Duration(param string, d time.Duration) {
	switch {
	case d < time.Millisecond:
		c.refuse(param, fmt.Sprintf("%v is below 1ms", d))
	case d%time.Millisecond != 0:
		c.refuse(param, fmt.Sprintf("%v is not a whole number of milliseconds; truncate it", d))
	default:
		c.add(milliseconds(d))
	}
}

// OptionalDuration appends a zero duration as the empty string, which says that the duration is absent.
func (c *Call) OptionalDuration(param string, d time.Duration) {
	if d == 0 {
		c.add("")
		return
	}
	c.Duration(param, d)
}

func milliseconds(d time.Duration) string {
	n := d.Milliseconds()
	last := &durations[n%int64(len(durations))]
	if known := last.Load(); known != nil && known.n == n {
		return known.text
	}
	written := &durationText{n, strconv.FormatInt(n, 10)}
	last.Store(written)
	return written.text
}

// durations are the last that milliseconds has written. Most calls have one of few, such as that of a
// lease, and allocate nothing for it then.
var durations [31]atomic.Pointer[durationText]

type durationText struct {
	n    int64 // in milliseconds
	text string
}

// Time appends t as milliseconds since 1970, and drops smaller parts.
func (c *Call) Time(param string, t time.Time) {
	if t.IsZero() {
		c.refuse(param, "it is the zero time; give one")
	}
	c.Int(t.UnixMilli())
}

// OptionalTime appends the zero time as the empty string, which says that the time is absent.
func (c *Call) OptionalTime(param string, t time.Time) {
	if t.IsZero() {
		c.add("")
		return
	}
	c.Time(param, t)
}

// JSON appends what encoding/json makes of v.
func (c *Call) JSON(param string, v any) {
	text, err := json.Marshal(v)
	if err != nil {
		c.refuse(param, err.Error())
	}
	c.add(string(text))
}

// Channel appends a channel. It refuses an empty channel.
func (c *Call) Channel(param, channel string) {
	if channel == "" {
		c.refuse(param, "it is an empty channel; give its name")
	}
	c.add(channel)
}

// Enum appends one of values. It refuses a value that the header does not list.
func (c *Call) Enum(param, v string, values ...string) {
	if !slices.Contains(values, v) {
		// The clone escapes, so that the caller's list does not, and a valid call needs no memory.
		c.refuse(param, fmt.Sprintf("%q is not one of %q", v, slices.Clone(values)))
	}
	c.add(v)
}

// OptionalEnum appends an absent value as the empty string.
func (c *Call) OptionalEnum(param, v string, values ...string) {
	if v == "" {
		c.add("")
		return
	}
	c.Enum(param, v, values...)
}
