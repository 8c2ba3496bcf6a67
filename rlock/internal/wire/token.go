package wire

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
)

// NewToken returns a new token: a version 4 UUID, which has 122 random bits, with the
// owner's text behind one space if there is one. The UUID is uuid.NewString but for one
// allocation.
func NewToken(owner string) string {
	var id uuid.UUID
	rand.Read(id[:]) // never fails
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	if owner == "" {
		return id.String()
	}
	return id.String() + " " + owner
}

// tokenLength is that of a token without an owner's text.
const tokenLength = 36

// OwnerIn returns the owner's text in a token, "" if there is none. A token that is not exactly
// what NewToken makes is somebody else's, and is not taken apart.
func OwnerIn(token string) string {
	_, token, _ = ShareOf(token)
	if len(token) < tokenLength+2 || token[tokenLength] != ' ' || !startsAsNew(token) {
		return ""
	}
	owner := token[tokenLength+1:]
	if WrongOwner(owner) != "" {
		return ""
	}
	return owner
}

// startsAsNew reports whether a token has in front what NewToken makes.
func startsAsNew(token string) bool {
	if len(token) < tokenLength {
		return false
	}
	id, err := uuid.Parse(token[:tokenLength])
	return err == nil && id.Version() == 4 && id.Variant() == uuid.RFC4122 && id.String() == token[:tokenLength]
}

// Foreign reports whether the value of a key is that of a holder of another library, or a token that a
// caller chose. A library whose tokens start with a version 4 UUID is not told apart.
func Foreign(value string) bool { return !startsAsNew(value) && !strings.HasPrefix(value, OwnPrefix) }

// longestOwner is in bytes. The text is sent with every command about the token.
const longestOwner = 256

// WrongOwner says why a text cannot be an owner's, "" if it can.
func WrongOwner(text string) string {
	switch {
	case text == "":
		return "the text is empty; leave the option out, or use DefaultOwner"
	case len(text) > longestOwner:
		return fmt.Sprintf("the text has %d bytes; %d are allowed", len(text), longestOwner)
	case !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }):
		return "the text has control characters or is not UTF-8; take them out"
	}
	return ""
}

// ThisProcess returns an owner's text that names the host, the process and the program.
func ThisProcess() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	return ownerOf(fmt.Sprintf("%s pid %d %s", host, os.Getpid(), filepath.Base(os.Args[0])))
}

// ownerOf makes an owner's text of a text that has any bytes and any length.
func ownerOf(text string) string {
	text = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) || r == utf8.RuneError {
			return '?'
		}
		return r
	}, text)
	for len(text) > longestOwner {
		_, size := utf8.DecodeLastRuneInString(text)
		text = text[:len(text)-size]
	}
	return text
}
