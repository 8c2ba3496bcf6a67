package rlock

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
)

// Handoff is what Locker.Attach needs to carry on with a lock that Lock.Detach has let go
// of: the keys, the token and the fence. Stored or sent as text (encoding.TextMarshaler,
// so encoding/json and others do it by themselves), it goes to another process. It is good
// for one Attach. Copies of a value are the same Handoff.
//
// Whoever has the text can take the lock over: keep it as you would a password. What
// packages fmt and log/slog make of a Handoff has no token in it.
//
// The zero Handoff is of no lock.
type Handoff struct{ ticket *ticket }

// ticket is what all copies of a Handoff share.
type ticket struct {
	keys   []string // as Redis has them
	fence  uint64
	secret *secret // a pointer, of which package fmt shows the address where it finds a Handoff in an unexported field
}

// secret is what makes the next owner of a lock.
type secret struct {
	tokens []string // that the keys may have

	mu   sync.Mutex
	next string // token of the next Attach; kept after one that got no answer, which may have done it
	busy bool   // an Attach with it is under way
}

// Keys returns the Redis keys, prefix included.
func (h Handoff) Keys() []string {
	if h.ticket == nil {
		return nil
	}
	return slices.Clone(h.ticket.keys)
}

// Fence returns the fence of the lock, which the Lock that Attach returns has too.
func (h Handoff) Fence() uint64 {
	if h.ticket == nil {
		return 0
	}
	return h.ticket.fence
}

// String tells the keys and the fence. The token is not in it.
func (h Handoff) String() string {
	if h.ticket == nil {
		return "handoff of no lock"
	}
	text := "handoff of " + quoteKey(h.ticket.keys[0])
	if more := len(h.ticket.keys) - 1; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if h.ticket.fence > 0 {
		text += fmt.Sprintf(", fence %d", h.ticket.fence)
	}
	return text
}

// Format writes String for every verb of package fmt, so that none shows the token.
func (h Handoff) Format(f fmt.State, _ rune) { io.WriteString(f, h.String()) }

// LogValue is what String tells, for slog.
func (h Handoff) LogValue() slog.Value {
	if h.ticket == nil {
		return slog.StringValue(h.String())
	}
	attrs := []slog.Attr{slog.String("key", plainKey(h.ticket.keys[0]))}
	if n := len(h.ticket.keys); n > 1 {
		attrs = append(attrs, slog.Int("keys", n))
	}
	if h.ticket.fence > 0 {
		attrs = append(attrs, slog.Uint64("fence", h.ticket.fence))
	}
	return slog.GroupValue(attrs...)
}

// handoffVersion starts the text of every Handoff. Behind it are, in base64 without
// padding: the fence, the number of keys, the keys, the number of tokens, the tokens and a
// CRC-32 of all that. Numbers are varints, and each string has its length before it.
const handoffVersion = "rlock-handoff-1:"

// MarshalText returns the Handoff as one line of letters, digits and "-_:", for
// UnmarshalText. It has the token in it.
func (h Handoff) MarshalText() ([]byte, error) {
	if h.ticket == nil {
		return nil, &ArgumentError{"handoff", "it is of no lock; use the one that Detach returns"}
	}
	data := binary.AppendUvarint(nil, h.ticket.fence)
	for _, list := range [][]string{h.ticket.keys, h.ticket.secret.tokens} {
		data = binary.AppendUvarint(data, uint64(len(list)))
		for _, s := range list {
			data = binary.AppendUvarint(data, uint64(len(s)))
			data = append(data, s...)
		}
	}
	data = binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE(data))
	return base64.RawURLEncoding.AppendEncode([]byte(handoffVersion), data), nil
}

// UnmarshalText makes h the Handoff that MarshalText has made text of. An error matches
// ErrInvalid, has nothing of the text in it, and leaves h as it is.
func (h *Handoff) UnmarshalText(text []byte) error {
	encoded, ours := strings.CutPrefix(string(text), handoffVersion)
	if !ours {
		return &ArgumentError{"handoff", "the text does not start with " + handoffVersion + "; another version of rlock has written it, or it is something else"}
	}
	broken := &ArgumentError{"handoff", "the text is damaged; store it whole, as MarshalText returns it"}
	data, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(data) < 4 {
		return broken
	}
	body := data[:len(data)-4]
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(data[len(body):]) {
		return broken
	}
	r := textReader{rest: body}
	t := &ticket{fence: r.number(), keys: r.list(), secret: &secret{tokens: r.list()}}
	if r.failed || len(r.rest) > 0 {
		return broken
	}
	h.ticket = t
	return nil
}

// textReader takes apart what MarshalText has put together.
type textReader struct {
	rest   []byte
	failed bool
}

func (r *textReader) number() uint64 {
	n, size := binary.Uvarint(r.rest)
	if size <= 0 {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[size:]
	return n
}

// list reads a list of at least one string, none of which is empty.
func (r *textReader) list() []string {
	var list []string
	for n := r.number(); n > 0 && !r.failed; n-- {
		size := r.number()
		if size == 0 || size > uint64(len(r.rest)) {
			r.failed = true
			break
		}
		list = append(list, string(r.rest[:size]))
		r.rest = r.rest[size:]
	}
	r.failed = r.failed || len(list) == 0
	return list
}

// claim returns the token that an Attach is to give the keys: the same that one before it
// used that got no answer, as that may have done it. An Attach beside another has a token
// of its own, so that only one of the two gets the lock. A new one comes from mint.
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

// settle follows an Attach with a token from claim. One that is spent is not used again.
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
