package remote

import (
	"encoding/binary"
	"errors"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/redis/rueidis"
)

// quoting is how Redis goes on when it does not know a command: with the arguments, cut
// after 128 bytes wherever that is.
const quoting = ", with args beginning with"

// Redact takes the tokens that a command was sent with out of the text of its error. A server
// that does not know a command quotes its arguments, as do proxies of a command that they
// refuse. What stands before them stays, and so does the type: *rueidis.RedisError for what a
// server said.
func Redact(err error, tokens ...string) error {
	for _, token := range tokens {
		if err == nil {
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
		return errors.New(text)
	}
	return serverError(text)
}

// tokenIn returns where a text begins to show arguments or a token, -1 if it does not. The
// beginning of a token is enough, as it may be cut; a short one is found as a word only.
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

// serverError returns an error of the client's type with another text. The client has no
// function for that, but reads messages that it has written.
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

// refusal is a server's error where the client does not read what serverError writes.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }
