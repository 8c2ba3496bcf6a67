package wire

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// Handoff has what another process needs to take keys over. It is safe for concurrent use.
type Handoff struct {
	Keys  []string
	Fence uint64

	// MinHold is for how long the next process must keep others out after it takes the keys over. The text
	// of a Handoff has MinHold in whole milliseconds.
	MinHold time.Duration
	// Late means that calls without an answer may still take keys for the tokens. The process that takes
	// the keys over must free these keys too.
	Late bool

	// A second pointer hides secret from package fmt, which may follow the first pointer of an unexported
	// field.
	secret *secret
}

// secret has what makes a process the owner of the keys.
type secret struct {
	tokens []string // the tokens that the keys may have

	mu sync.Mutex
	// the token that the keys get; kept after an attempt without an answer, since the keys may have it
	next string
	busy bool // an attempt with next is under way
}

// NewHandoff returns a Handoff of keys that have one of the tokens.
func NewHandoff(keys, tokens []string, fence uint64) *Handoff {
	return &Handoff{Keys: keys, Fence: fence, secret: &secret{tokens: tokens}}
}

// HandoffOf returns the Handoff of the keys of a Claim. The next process does not know tokens that the keys
// no longer have, so HandoffOf undoes commands with these tokens.
func (s *Server) HandoffOf(c *Claim, tokens []string, fence uint64) *Handoff {
	h := NewHandoff(slices.Clone(c.Keys()), tokens, fence)
	h.Late = !c.Settled() && !c.Chosen()
	s.abandonLate(c, tokens)
	return h
}

// Tokens returns the tokens that the keys may have. The list must not be changed.
func (h *Handoff) Tokens() []string { return h.secret.tokens }

// Begin returns the token that an attempt gives the keys. After an attempt without an answer it returns the
// token of that attempt, because the keys may have it. While another attempt is under way, it returns
// another token, so that only one of the two gets the keys. owner is for a new token. The caller must call
// End.
func (h *Handoff) Begin(owner string) (token string) {
	s := h.secret
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.busy {
		return newTokenLike(s.tokens[0], owner)
	}
	if s.next == "" {
		s.next = newTokenLike(s.tokens[0], owner)
	}
	s.busy = true
	return s.next
}

// End ends an attempt with a token. If spent is true, no later attempt gets the token. End ignores a token
// that Begin has not stored.
func (h *Handoff) End(token string, spent bool) {
	s := h.secret
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

// handoffVersion starts the text of every Handoff. The rest is in base64 without padding:
//   - the fence
//   - the number of keys, and the keys
//   - the number of tokens, and the tokens
//   - the milliseconds of MinHold, unless MinHold is 0 and the Handoff is not Late
//   - 1 if the Handoff is Late
//   - a CRC-32 of all that
//
// Numbers are varints. The length of a string comes before the string.
const handoffVersion = "rlock-handoff-1:"

// Text returns the Handoff for ParseHandoff, as one line of letters, digits and "-_:".
func (h *Handoff) Text() []byte {
	data := binary.AppendUvarint(nil, h.Fence)
	for _, list := range [][]string{h.Keys, h.secret.tokens} {
		data = binary.AppendUvarint(data, uint64(len(list)))
		for _, s := range list {
			data = binary.AppendUvarint(data, uint64(len(s)))
			data = append(data, s...)
		}
	}
	if ms := (h.MinHold + time.Millisecond - 1) / time.Millisecond; ms > 0 || h.Late {
		data = binary.AppendUvarint(data, uint64(ms))
	}
	if h.Late {
		data = append(data, 1)
	}
	data = binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE(data))
	return base64.RawURLEncoding.AppendEncode([]byte(handoffVersion), data)
}

// The errors of ParseHandoff.
var (
	errForeignHandoff = errors.New("the text does not start with " + handoffVersion +
		"; another version of rlock has written it, or it is something else")
	errDamagedHandoff = errors.New("the text is damaged; store it whole, as MarshalText returns it")
)

// ParseHandoff reads what Text has written. Its errors show nothing of the text.
func ParseHandoff(text []byte) (*Handoff, error) {
	encoded, ours := strings.CutPrefix(string(text), handoffVersion)
	if !ours {
		return nil, errForeignHandoff
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(data) < 4 {
		return nil, errDamagedHandoff
	}
	body := data[:len(data)-4]
	r := textReader{rest: body}
	fence, keys, tokens := r.number(), r.list(), r.list()
	var ms uint64
	late := false
	if len(r.rest) > 0 {
		ms = r.number()
		late = len(r.rest) > 0
		if late && r.number() != 1 || ms == 0 && !late || ms > uint64(math.MaxInt64/time.Millisecond) {
			r.failed = true
		}
	}
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(data[len(body):]) || r.failed || len(r.rest) > 0 {
		return nil, errDamagedHandoff
	}
	h := NewHandoff(keys, tokens, fence)
	h.MinHold, h.Late = time.Duration(ms)*time.Millisecond, late
	return h, nil
}

// textReader reads the parts of a Handoff.
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

// list reads a list of strings. It fails if the list or one of its strings is empty.
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
