package runtime

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// encodeDuration writes d as whole milliseconds.
func encodeDuration(script, param string, d time.Duration) (string, error) {
	switch {
	case d < time.Millisecond:
		return "", &ParamError{script, param, fmt.Sprintf("%v is below 1ms", d)}
	case d%time.Millisecond != 0:
		return "", &ParamError{script, param, fmt.Sprintf("%v is not a whole number of milliseconds; truncate it", d)}
	}
	n := d.Milliseconds()
	last := &durations[n%int64(len(durations))]
	if known := last.Load(); known != nil && known.n == n {
		return known.text, nil
	}
	written := &durationText{n, strconv.FormatInt(n, 10)}
	last.Store(written)
	return written.text, nil
}

// durations are the last that encodeDuration has written. Most calls have one of few, such as that of a
// lease, and allocate nothing for it then.
var durations [31]atomic.Pointer[durationText]

type durationText struct {
	n    int64 // in milliseconds
	text string
}

// encodeOptionalDuration writes zero, which is an absent duration, as the empty string.
func encodeOptionalDuration(script, param string, d time.Duration) (string, error) {
	if d == 0 {
		return "", nil
	}
	return encodeDuration(script, param, d)
}

// encodeTime writes t as milliseconds since 1970, and drops smaller parts.
func encodeTime(script, param string, t time.Time) (string, error) {
	if t.IsZero() {
		return "", &ParamError{script, param, "it is the zero time; give one"}
	}
	return strconv.FormatInt(t.UnixMilli(), 10), nil
}

// encodeOptionalTime writes the zero time, which is an absent one, as the empty string.
func encodeOptionalTime(script, param string, t time.Time) (string, error) {
	if t.IsZero() {
		return "", nil
	}
	return encodeTime(script, param, t)
}

func encodeInt(n int64) string { return strconv.FormatInt(n, 10) }

// encodeFloat writes f without an exponent, and zero without a sign, because INCRBY,
// EXPIRE and other commands read a whole number as an integer.
func encodeFloat(script, param string, f float64) (string, error) {
	switch {
	case math.IsNaN(f) || math.IsInf(f, 0):
		return "", &ParamError{script, param, fmt.Sprintf("%v is not a number that a script can count with", f)}
	case f == 0:
		return "0", nil
	}
	return strconv.FormatFloat(f, 'f', -1, 64), nil
}

func encodeBool(b bool) string {
	if b {
		return "1"
	}
	return "0"
}

func encodeJSON(script, param string, v any) (string, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return "", &ParamError{script, param, err.Error()}
	}
	return string(text), nil
}

// encodeChannel refuses an empty channel, because nobody means that.
func encodeChannel(script, param, channel string) (string, error) {
	if channel == "" {
		return "", &ParamError{script, param, "it is an empty channel; give its name"}
	}
	return channel, nil
}

// encodeEnum refuses a value that the header does not list.
func encodeEnum[T ~string](script, param string, v T, values ...T) (string, error) {
	if !slices.Contains(values, v) {
		// The clone escapes, so that the caller's list does not, and a valid call needs no memory.
		return "", &ParamError{script, param, fmt.Sprintf("%q is not one of %q", string(v), slices.Clone(values))}
	}
	return string(v), nil
}

// encodeOptionalEnum writes an absent value as the empty string.
func encodeOptionalEnum[T ~string](script, param string, v T, values ...T) (string, error) {
	if v == "" {
		return "", nil
	}
	return encodeEnum(script, param, v, values...)
}

// checkChannels refuses what no hash tag is in, because whatever starts with it must be in its
// slot.
func checkChannels(script, param string, starts ...string) error {
	for _, start := range starts {
		if _, behind, opened := strings.Cut(start, "{"); !opened || strings.IndexByte(behind, '}') < 1 {
			return &ParamError{script, param, fmt.Sprintf("%q has no hash tag, such as {1}, so channels that start with it are in many slots", start)}
		}
	}
	return nil
}

// checkKeys refuses empty keys, because an empty key is a name that the caller forgot.
func checkKeys(script, param string, keys ...string) error {
	for i, key := range keys {
		switch {
		case key != "":
		case len(keys) == 1:
			return &ParamError{script, param, "it is an empty key; give its name"}
		default:
			return &ParamError{script, param, fmt.Sprintf("number %d is an empty key; give its name", i+1)}
		}
	}
	return nil
}
