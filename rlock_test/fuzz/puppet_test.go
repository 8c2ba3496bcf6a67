package fuzz

import (
	"bufio"
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/hex"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"
)

// puppet is a server that answers what a test says.
type puppet struct {
	answer func() value // to what a client does not ask of its own accord

	mu   sync.Mutex
	said map[string][]value // its answers, by the script's SHA1 or the command
}

// onPuppet runs a test with fake time and a client of a puppet. It fails if a goroutine
// outlives the test, or all of them wait for nothing.
func onPuppet(t *testing.T, answer func() value, test func(t *testing.T, client rueidis.Client, p *puppet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &puppet{answer: answer, said: map[string][]value{}}
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{"puppet:0"}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
			RingScaleEachConn: 2, ReadBufferEachConn: 1 << 12, WriteBufferEachConn: 1 << 12, // many clients are made
			DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
				near, far := net.Pipe()
				go p.serve(far)
				return near, nil
			},
		})
		require.NoError(t, err)
		defer client.Close()
		test(t, client, p)
	})
}

// calls counts the answers so far.
func (p *puppet) calls() (n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, answers := range p.said {
		n += len(answers)
	}
	return n
}

// answers returns what was answered to a script.
func (p *puppet) answers(sha string) []value {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.said[sha]
}

// last is the last of answers.
func (p *puppet) last(sha string) value {
	answers := p.answers(sha)
	if len(answers) == 0 {
		return value{}
	}
	return answers[len(answers)-1]
}

func (p *puppet) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	for {
		words, err := readCommand(in)
		if err != nil {
			return
		}
		if _, err := io.WriteString(conn, p.reply(words)); err != nil {
			return
		}
	}
}

func (p *puppet) reply(words []string) string {
	name := words[0]
	switch name {
	case "HELLO":
		return "%2\r\n+version\r\n+7.0.15\r\n+proto\r\n:3\r\n"
	case "CLIENT", "PING":
		return "+OK\r\n"
	case "EVALSHA", "EVALSHA_RO":
		name = words[1]
	case "EVAL", "EVAL_RO":
		sum := sha1.Sum([]byte(words[1]))
		name = hex.EncodeToString(sum[:])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := p.answer()
	p.said[name] = append(p.said[name], answer)
	return answer.wire
}

// readCommand reads a list of strings.
func readCommand(in *bufio.Reader) ([]string, error) {
	size := func() (int, error) {
		line, err := in.ReadString('\n')
		if err != nil {
			return 0, err
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := size()
	if err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		length, err := size()
		if err != nil {
			return nil, err
		}
		word := make([]byte, length+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return nil, err
		}
		words[i] = string(word[:length])
	}
	return words, nil
}
