package wire

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/redis/rueidis"
)

// quoting comes before the arguments in Redis's error about a command that it does not know. Redis cuts the
// arguments after 128 bytes, even inside a token.
const quoting = ", with args beginning with"

// Redact removes the tokens of a command from the text of its error. A server that does not know a command
// quotes its arguments, and a proxy that refuses a command may do the same. The text before the arguments
// stays. An error of the server keeps the type *rueidis.RedisError. Any other error matches what it matched
// before.
func Redact(err error, tokens ...string) error {
	for _, token := range tokens {
		if err == nil || contextEnded(err) {
			break
		}
		err = redact(err, token)
	}
	return err
}

func redact(err error, token string) error {
	text := err.Error()
	var server *rueidis.RedisError
	if errors.As(err, &server) {
		text = server.Error()
	}
	end := tokenIn(text, token)
	if end < 0 {
		return err
	}
	text = strings.TrimRight(text[:end], " :\"`") + " (it quotes the arguments, which are left out here)"
	if server == nil {
		return &redacted{text, err}
	}
	return serverError(text)
}

// redacted is an error of the client whose text shows no token.
type redacted struct {
	text string
	err  error
}

func (r *redacted) Error() string        { return r.text }
func (r *redacted) Is(target error) bool { return errors.Is(r.err, target) }
func (r *redacted) As(target any) bool   { return errors.As(r.err, target) }

// tokenIn returns where text begins to show arguments or a token, or -1. It looks only for the beginning of
// a token, because the text may be cut. It finds a short token only as a whole word.
func tokenIn(text, token string) int {
	const telling = 8
	first := strings.Index(text, quoting)
	at := -1
	if quoted := strconv.Quote(token); len(token) < telling {
		at = wordIn(text, token)
	} else if at = strings.Index(text, token[:telling]); at < 0 {
		at = strings.Index(text, quoted[1:1+telling])
	}
	if first < 0 || at >= 0 && at < first {
		return at
	}
	return first
}

// wordIn returns where word stands in text with no letter or digit next to it, or -1.
func wordIn(text, word string) int {
	inWord := func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }
	for from := 0; word != ""; {
		at := strings.Index(text[from:], word)
		if at < 0 {
			break
		}
		at += from
		before, _ := utf8.DecodeLastRuneInString(text[:at])
		after, _ := utf8.DecodeRuneInString(text[at+len(word):])
		if !inWord(before) && !inWord(after) {
			return at
		}
		from = at + len(word)
	}
	return -1
}

// serverError returns a *rueidis.RedisError with that text. The client has no function that makes one. So
// serverError writes a message as the client would write it for a cache, and lets the client read it.
func serverError(text string) error {
	wire := make([]byte, 7, 16+len(text)) // no time to live
	wire = append(wire, '-')              // an error
	wire = binary.BigEndian.AppendUint64(wire, uint64(len(text)))
	wire = append(wire, text...)
	var message rueidis.RedisMessage
	if message.CacheUnmarshalView(wire) == nil {
		if err := message.Error(); err != nil && err.Error() == text {
			return err
		}
	}
	return &refusal{text}
}

// refusal is a server's error for a client that cannot read what serverError writes.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }
