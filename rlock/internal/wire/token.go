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

// NewToken returns a new token: a version 4 UUID, which has 122 random bits. If there is an owner's text, a
// space and the text follow. It makes the UUID like uuid.NewString, with one allocation less.
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

// tokenLength is the length of a token without an owner's text.
const tokenLength = 36

// OwnerIn returns the owner's text in a token, or "". If the token has another form than NewToken makes,
// another library or a caller made it, and OwnerIn does not split it.
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

// startsAsNew reports whether a token begins like a token of NewToken.
func startsAsNew(token string) bool {
	if len(token) < tokenLength {
		return false
	}
	id, err := uuid.Parse(token[:tokenLength])
	return err == nil && id.Version() == 4 && id.Variant() == uuid.RFC4122 && id.String() == token[:tokenLength]
}

// Foreign reports whether the value of a key comes from a holder of another library, or is a token that a
// caller chose. It cannot tell another library whose tokens start with a version 4 UUID.
func Foreign(value string) bool { return !startsAsNew(value) && !strings.HasPrefix(value, OwnPrefix) }

// longestOwner is in bytes. Every command about the token sends the text.
const longestOwner = 256

// WrongOwner says why a text cannot be an owner's text. It returns "" if the text can be one.
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

// ownerOf makes an owner's text from a text with any bytes and any length.
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
