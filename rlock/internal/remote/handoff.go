package remote

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
)

// Handoff is what another process needs to take keys over.
type Handoff struct {
	Keys   []string
	Tokens []string // that the keys may have
	Fence  uint64
}

// handoffVersion starts the text of every Handoff. After it come, in base64 without padding: the
// fence, the number of keys, the keys, the number of tokens, the tokens and a CRC-32 of all
// that. Numbers are varints. The length of a string comes before the string.
const handoffVersion = "rlock-handoff-1:"

// Text returns the Handoff for ParseHandoff: one line of letters, digits and "-_:".
func (h Handoff) Text() []byte {
	data := binary.AppendUvarint(nil, h.Fence)
	for _, list := range [][]string{h.Keys, h.Tokens} {
		data = binary.AppendUvarint(data, uint64(len(list)))
		for _, s := range list {
			data = binary.AppendUvarint(data, uint64(len(s)))
			data = append(data, s...)
		}
	}
	data = binary.BigEndian.AppendUint32(data, crc32.ChecksumIEEE(data))
	return base64.RawURLEncoding.AppendEncode([]byte(handoffVersion), data)
}

// What is wrong with a text that ParseHandoff refuses.
var (
	errForeignHandoff = errors.New("the text does not start with " + handoffVersion + "; another version of rlock has written it, or it is something else")
	errDamagedHandoff = errors.New("the text is damaged; store it whole, as MarshalText returns it")
)

// ParseHandoff reads what Text has written. An error shows nothing of the text.
func ParseHandoff(text []byte) (Handoff, error) {
	encoded, ours := strings.CutPrefix(string(text), handoffVersion)
	if !ours {
		return Handoff{}, errForeignHandoff
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(encoded)
	if err != nil || len(data) < 4 {
		return Handoff{}, errDamagedHandoff
	}
	body := data[:len(data)-4]
	r := textReader{rest: body}
	h := Handoff{Fence: r.number(), Keys: r.list(), Tokens: r.list()}
	if crc32.ChecksumIEEE(body) != binary.BigEndian.Uint32(data[len(body):]) || r.failed || len(r.rest) > 0 {
		return Handoff{}, errDamagedHandoff
	}
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
