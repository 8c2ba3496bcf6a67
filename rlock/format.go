package rlock

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
)

// Whoever has a token owns the lock. It is to be had by asking for it, not from a log or
// an error text that somebody has put a Lock or a State into.

// String tells the keys, the fence and what has become of the lock. The token is not
// in it.
func (l *Lock) String() string {
	if l.usable() != nil {
		return "no lock"
	}
	var b strings.Builder
	b.WriteString("lock " + quoteKey(l.claim.Key()))
	if more := len(l.claim.Keys()) - 1; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	if l.fence > 0 {
		fmt.Fprintf(&b, ", fence %d", l.fence)
	}
	b.WriteString(": " + l.condition())
	return b.String()
}

// condition says in words whether the lock is held, as Valid does.
func (l *Lock) condition() string {
	switch cause := l.cause(); {
	case cause != nil:
		return strings.TrimPrefix(cause.Error(), "rlock: ")
	case !l.Valid():
		return "no longer valid"
	default:
		return "held"
	}
}

// Format writes String for every verb of package fmt, so that none shows the token.
func (l *Lock) Format(f fmt.State, _ rune) { io.WriteString(f, l.String()) }

// LogValue is what String tells, for slog.
func (l *Lock) LogValue() slog.Value {
	if l.usable() != nil {
		return slog.StringValue(l.String())
	}
	attrs := []slog.Attr{slog.String("key", plainKey(l.claim.Key()))}
	if n := len(l.claim.Keys()); n > 1 {
		attrs = append(attrs, slog.Int("keys", n))
	}
	if l.fence > 0 {
		attrs = append(attrs, slog.Uint64("fence", l.fence))
	}
	attrs = append(attrs, slog.String("state", l.condition()))
	return slog.GroupValue(attrs...)
}

// String tells who holds the key, in the holder's own words if there are any, and
// for how long. The token is not in it.
func (s State) String() string {
	var b strings.Builder
	b.WriteString("lock " + quoteKey(s.Key))
	if !s.Held {
		b.WriteString(": free")
		return b.String()
	}
	b.WriteString(": held")
	if s.Owner != "" {
		fmt.Fprintf(&b, " by %q", s.Owner)
	}
	if s.until == clock.Never {
		b.WriteString(", never expires")
	} else {
		fmt.Fprintf(&b, ", %v left", s.Remaining().Round(time.Millisecond))
	}
	return b.String()
}

// Format writes String for every verb of package fmt, so that none shows the token.
func (s State) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// LogValue is what String tells, for slog.
func (s State) LogValue() slog.Value {
	attrs := []slog.Attr{slog.String("key", plainKey(s.Key)), slog.Bool("held", s.Held)}
	if s.Owner != "" {
		attrs = append(attrs, slog.String("owner", s.Owner))
	}
	if s.until == clock.Never {
		attrs = append(attrs, slog.String("remaining", "never expires"))
	} else if s.Held {
		attrs = append(attrs, slog.Duration("remaining", s.Remaining()))
	}
	return slog.GroupValue(attrs...)
}
