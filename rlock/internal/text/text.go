// Package text shows keys, fences and lengths of time in errors, texts and log records. It also says what
// has failed.
//
// It never sees a token, so it cannot show one.
package text

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// longest is how many bytes of a key are shown.
const longest = 80

// Quote shows a key. A key may have any bytes, and any length.
func Quote(key string) string {
	if len(key) > longest {
		return strconv.Quote(key[:longest]) + "…"
	}
	return strconv.Quote(key)
}

// Plain is Quote without the quotes, for a key that needs none.
func Plain(key string) string {
	quoted := Quote(key)
	if inside := quoted[1 : len(quoted)-1]; inside == key {
		return key
	}
	return quoted
}

// Keys shows a key, how many other keys of n there are, and the fence if there is one.
func Keys(key string, n int, fence uint64) string {
	s := Quote(key)
	if n > 1 {
		s += fmt.Sprintf(" and %d more", n-1)
	}
	if fence > 0 {
		s += fmt.Sprintf(", fence %d", fence)
	}
	return s
}

// KeysAttrs is Keys for slog. The list has room for more.
func KeysAttrs(key string, n int, fence uint64) []slog.Attr {
	attrs := append(make([]slog.Attr, 0, 10), slog.String("key", Plain(key)))
	if n > 1 {
		attrs = append(attrs, slog.Int("keys", n))
	}
	if fence > 0 {
		attrs = append(attrs, slog.Uint64("fence", fence))
	}
	return attrs
}

// DurationAttr shows a length of time to slog. It shows clock.NoExpiry as "never expires".
func DurationAttr(name string, d time.Duration) slog.Attr {
	if d == clock.NoExpiry {
		return slog.String(name, "never expires")
	}
	return slog.Duration(name, d)
}

// OwnShare shows the share of a lock. It shows permits or, if the limit is 0, a reader's share.
func OwnShare(n, limit int) string {
	if limit == 0 {
		return "a reader's share"
	}
	return fmt.Sprintf("%d of %s", n, several(limit, "permit"))
}

func several(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Holder says whether a key is held, how much of the lease is left, and who holds the key if owner is not
// empty.
func Holder(key string, held, shared bool, owner string, remaining time.Duration) string {
	if !held {
		return "lock " + Quote(key) + ": free"
	}
	by, left := "held", "never expires"
	switch {
	case shared:
		by = "shared"
	case owner != "":
		by = fmt.Sprintf("held by %q", owner)
	}
	if remaining != clock.NoExpiry {
		left = fmt.Sprintf("%v left", remaining.Round(time.Millisecond))
	}
	return fmt.Sprintf("lock %s: %s, %s", Quote(key), by, left)
}

// HolderAttrs is Holder for slog.
func HolderAttrs(key string, held, shared bool, owner string, remaining time.Duration) []slog.Attr {
	attrs := []slog.Attr{slog.String("key", Plain(key)), slog.Bool("held", held)}
	if shared {
		attrs = append(attrs, slog.Bool("shared", true))
	}
	if owner != "" {
		attrs = append(attrs, slog.String("owner", owner))
	}
	if held {
		attrs = append(attrs, DurationAttr("remaining", remaining))
	}
	return attrs
}

// TTL shows a TTL as a caller writes it.
func TTL(ttl time.Duration) string {
	if ttl == clock.NoExpiry {
		return "NoExpiry"
	}
	return ttl.String()
}

// Failure says that an operation on a key has failed, with the facts that are not empty.
func Failure(op, key string, err error, facts ...string) string {
	s := "rlock: " + op + " " + Quote(key) + ": " + Cause(err)
	facts = slices.DeleteFunc(facts, func(fact string) bool { return fact == "" })
	if len(facts) > 0 {
		s += " (" + strings.Join(facts, "; ") + ")"
	}
	return s
}

// script finds the name that package gen puts before the error of a call. The caller has never used this
// name.
var script = regexp.MustCompile(`\bgen: [A-Z][A-Za-z]*: `)

// Cause returns the text of an error without the names of packages and scripts. It is for a text that
// begins with the operation that the caller has asked for.
func Cause(err error) string {
	if err == nil { // an error that a caller has made
		return "no cause is given"
	}
	return script.ReplaceAllString(strings.TrimPrefix(err.Error(), "rlock: "), "")
}

// Effort says how often and for how long a waiter has tried. contended says that the call has waited for
// another holder. A call with neither an attempt nor a wait has tried nothing, however long it took.
func Effort(attempts int, waited time.Duration, contended bool) string {
	waited = waited.Round(time.Millisecond)
	number := fmt.Sprintf("%d attempts", attempts)
	if attempts == 1 {
		number = "1 attempt"
	}
	switch {
	case attempts > 0 && waited > 0:
		return fmt.Sprintf("after %s in %v", number, waited)
	case attempts > 0:
		return "after " + number
	case contended && waited > 0:
		return fmt.Sprintf("after %v", waited)
	}
	return ""
}

// HeldBy says who holds a lock that another caller wanted, as far as that is known. own says that the
// holder is a lock of the same Locker. left is the rest of its lease. 0 means that the rest is not known.
func HeldBy(own bool, left time.Duration) string {
	is, whose := "", "the holder's"
	if own {
		is, whose = "the holder is a lock of this Locker; ", "its"
	}
	switch {
	case left == clock.NoExpiry:
		return is + whose + " lease never expires"
	case left > 0:
		return fmt.Sprintf("%s%s lease ends in %v", is, whose, max(left.Round(time.Millisecond), time.Millisecond))
	}
	return strings.TrimSuffix(is, "; ")
}
