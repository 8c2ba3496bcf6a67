package rlock

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/rlock-go/toolkit/rlock/internal/remote"
)

// longestOwner is in bytes. The text is sent with every command of the lock.
const longestOwner = 256

// WithOwner has the holder say who it is, for people who ask why a key is locked:
// State.Owner of Inspect and Check shows the text. It is 1 to 256 bytes of printable
// UTF-8, such as DefaultOwner gives, and no secret: whoever may read the key may read it.
//
// The text is a part of the token, behind a space. So it is there from the moment in which
// the lock is held, for as long as the lock is, and costs no command and no key. Locks of
// one Locker that have the same text can hand their lease on to each other as those without
// one do.
//
// A call with WithToken has the token as it is given: it cannot have this option as well,
// and goes before a text that is a default of the Locker.
func WithOwner(text string) SharedOption {
	return sharedOption(func(s *settings) error {
		s.owner = text
		s.given.owner = true
		if wrong := wrongOwner(text); wrong != "" {
			return invalid("WithOwner", wrong)
		}
		return nil
	})
}

// wrongOwner says why a text cannot be an owner's, "" if it can.
func wrongOwner(text string) string {
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

// DefaultOwner returns a text for WithOwner that tells the host, the process and
// the program: "web-3 pid 4711 importer".
func DefaultOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown host"
	}
	text := fmt.Sprintf("%s pid %d %s", host, os.Getpid(), filepath.Base(os.Args[0]))
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

// mint returns a new token for the lock.
func (l *Lock) mint() string { return remote.NewToken(l.set.owner) }

// tokenLength is that of a token without an owner's text.
const tokenLength = 36

// ownerIn returns the owner's text in a key's value, "" if there is none. A value that is
// not exactly what newToken makes is somebody else's, and is not taken apart.
func ownerIn(value string) string {
	if len(value) < tokenLength+2 || value[tokenLength] != ' ' || wrongOwner(value[tokenLength+1:]) != "" {
		return ""
	}
	text := value[:tokenLength]
	id, err := uuid.Parse(text)
	if err != nil || id.Version() != 4 || id.Variant() != uuid.RFC4122 || strings.ToLower(text) != text {
		return ""
	}
	return value[tokenLength+1:]
}
