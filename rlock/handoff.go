package rlock

import (
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// Handoff is what Locker.Attach needs to continue a lock after Lock.Detach: the keys, the
// token and the fence. Store it, or send it to another process, as text: it is an
// encoding.TextMarshaler, so encoding/json and other packages convert it by themselves. It is
// good for one Attach. Copies of a Handoff value count as the same Handoff.
//
// Whoever has the text can take the lock over, so keep it as you would keep a password.
// Packages fmt and log/slog show no token of a Handoff.
//
// The zero Handoff belongs to no lock.
type Handoff struct{ ticket *ticket }

// ticket is what all copies of a Handoff share.
type ticket struct {
	keys   []string // as Redis has them
	fence  uint64
	secret *secret // a pointer, because package fmt shows only its address if it finds a Handoff in an unexported field
}

// secret has what an Attach needs to become the owner of a lock.
type secret struct {
	tokens []string // that the keys may have

	mu   sync.Mutex
	next string // token of the next Attach; kept after an Attach without an answer, as the keys may have it
	busy bool   // an Attach with next is under way
}

// Keys returns the Redis keys, prefix included.
func (h Handoff) Keys() []string {
	if h.ticket == nil {
		return nil
	}
	return slices.Clone(h.ticket.keys)
}

// Fence returns the fence of the lock. The Lock that Attach returns has the same fence.
func (h Handoff) Fence() uint64 {
	if h.ticket == nil {
		return 0
	}
	return h.ticket.fence
}

// String names the first key, the number of the other keys, and the fence. It never shows
// the token.
func (h Handoff) String() string {
	if h.ticket == nil {
		return "handoff of no lock"
	}
	return "handoff of " + keysText(h.ticket.keys[0], len(h.ticket.keys), h.ticket.fence)
}

// Format writes what String returns for every verb of package fmt, so that none shows the
// token.
func (h Handoff) Format(f fmt.State, _ rune) { io.WriteString(f, h.String()) }

// LogValue returns for slog what String tells.
func (h Handoff) LogValue() slog.Value {
	if h.ticket == nil {
		return slog.StringValue(h.String())
	}
	return slog.GroupValue(keysAttrs(h.ticket.keys[0], len(h.ticket.keys), h.ticket.fence)...)
}

// MarshalText returns the Handoff as text for UnmarshalText: one line of letters, digits and
// "-_:". The text contains the token.
func (h Handoff) MarshalText() ([]byte, error) {
	if h.ticket == nil {
		return nil, invalid("handoff", "it is of no lock; use the one that Detach returns")
	}
	return remote.Handoff{Keys: h.ticket.keys, Tokens: h.ticket.secret.tokens, Fence: h.ticket.fence}.Text(), nil
}

// UnmarshalText sets h to the Handoff whose text MarshalText has returned. An error matches
// ErrInvalid, shows nothing of the text, and leaves h as it was.
func (h *Handoff) UnmarshalText(text []byte) error {
	d, err := remote.ParseHandoff(text)
	if err != nil {
		return invalid("handoff", err.Error())
	}
	h.ticket = &ticket{keys: d.Keys, fence: d.Fence, secret: &secret{tokens: d.Tokens}}
	return nil
}

// claim returns the token that an Attach gives the keys. After an Attach without an answer it
// is the token of that one, because the keys may have it. While another Attach is under way
// it is another token, so that only one of the two gets the lock. mint makes new tokens.
func (s *secret) claim(mint func() string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		return mint()
	}
	if s.next == "" {
		s.next = mint()
	}
	s.busy = true
	return s.next
}

// settle ends an Attach with a token from claim. A token that is spent is not used again.
func (s *secret) settle(token string, spent bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if token != s.next {
		return
	}
	s.busy = false
	if spent {
		s.next = ""
	}
}
