package rlock

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/rlock-go/toolkit/rlock/internal/text"
)

// Whoever has a token owns the lock. It is to be had by asking for it, not from a log or
// an error text that somebody has put a Lock or a State into.

// String tells the keys, the fence, which share of the key it is, if it is one, and what has become of
// the lock. It never shows the token.
func (l *Lock) String() string {
	if l.usable() != nil {
		return "no lock"
	}
	s := "lock " + text.Keys(l.claim.Key(), len(l.claim.Keys()), l.fence)
	if share, is := l.claim.Share(); is {
		s += ", " + text.OwnShare(share.Permits, share.Limit)
	}
	return s + ": " + l.condition()
}

// condition says in words whether the lock is held, as Err does.
func (l *Lock) condition() string {
	switch cause := l.cause(); {
	case cause != nil:
		return strings.TrimPrefix(cause.Error(), "rlock: ")
	case !l.valid():
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
	attrs := text.KeysAttrs(l.claim.Key(), len(l.claim.Keys()), l.fence)
	if share, is := l.claim.Share(); is {
		attrs = append(attrs, slog.String("share", text.OwnShare(share.Permits, share.Limit)))
	}
	return slog.GroupValue(append(attrs, slog.String("state", l.condition()))...)
}

// String tells whether the key is held, by whom, if the holder says it, and for how long. It never shows the
// token.
func (s State) String() string {
	return text.Holder(s.Key, s.Held, s.Shared, s.Owner, s.Remaining())
}

// Format writes String for every verb of package fmt, so that none shows the token.
func (s State) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// LogValue is what String tells, for slog.
func (s State) LogValue() slog.Value {
	return slog.GroupValue(text.HolderAttrs(s.Key, s.Held, s.Shared, s.Owner, s.Remaining())...)
}
