package main

import (
	"encoding/base64"
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/rlock-go/toolkit/rlock"
)

// quote shows a key as it is, or quoted if it has anything that a reader could take for something
// else. It is never cut, because people copy keys from what they see.
func quote(key string) string {
	quoted := strconv.Quote(key)
	if quoted[1:len(quoted)-1] == key && key != "" && !strings.ContainsAny(key, " \t") {
		return key
	}
	return quoted
}

// shellQuote shows a text as a word for a shell.
func shellQuote(text string) string {
	if text != "" && strings.Trim(text,
		"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:._/-+=,@%") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// quoteAll names keys, but not hundreds of them.
func quoteAll(keys []string) string {
	const most = 3
	var names []string
	for _, key := range keys[:min(len(keys), most)] {
		names = append(names, quote(key))
	}
	if more := len(keys) - most; more > 0 {
		names = append(names, strconv.Itoa(more)+" more")
	}
	return strings.Join(names, ", ")
}

// left shows what is left of a lease, as exactly as people want to know it.
func left(d time.Duration) string {
	switch {
	case d == rlock.NoExpiry:
		return "never expires"
	case d >= 10*time.Second:
		d = d.Truncate(time.Second)
	case d >= time.Second:
		d = d.Truncate(100 * time.Millisecond)
	}
	return d.Truncate(time.Millisecond).String() + " left"
}

// milliseconds is a length of time for JSON: nil, which is null, for one without an end.
func milliseconds(d time.Duration) any {
	if d == rlock.NoExpiry {
		return nil
	}
	return d.Milliseconds()
}

// withKey adds a key to an object. JSON cannot have bytes that are not UTF-8.
func (f fields) withKey(key string) fields {
	f["key"] = strings.ToValidUTF8(key, "\uFFFD")
	if !utf8.ValidString(key) {
		f["key_base64"] = base64.StdEncoding.EncodeToString([]byte(key))
	}
	return f
}

// line returns an object as one line of JSON.
func line(object fields) string {
	var b strings.Builder
	encoder := json.NewEncoder(&b)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(object); err != nil {
		panic(err) // all fields are texts, numbers, true or false, null, or lists of these
	}
	return b.String()
}
