package rlock

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"github.com/rlock-go/toolkit/rlock/internal/text"
)

// A program that has a token can use the lock. So a log or an error text with a Lock or a State must not show
// the token.

// String returns the keys, the fence, the kind of share if the lock is a share, and the state of the lock. It
// never shows the token.
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

// condition returns in words whether the lock is held, like Err.
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

// Format writes String for every verb of package fmt, so no verb shows the token.
func (l *Lock) Format(f fmt.State, _ rune) { io.WriteString(f, l.String()) }

// LogValue returns the content of String for slog.
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

// String returns whether the key is held, by which owner if the token has one, and for how long. It never
// shows the token.
func (s State) String() string {
	return text.Holder(s.Key, s.Held, s.Shared, s.Owner, s.Remaining())
}

// Format writes String for every verb of package fmt, so no verb shows the token.
func (s State) Format(f fmt.State, _ rune) { io.WriteString(f, s.String()) }

// LogValue returns the content of String for slog.
func (s State) LogValue() slog.Value {
	return slog.GroupValue(text.HolderAttrs(s.Key, s.Held, s.Shared, s.Owner, s.Remaining())...)
}
