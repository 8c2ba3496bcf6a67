package fuzz

import (
	"bufio"
	"context"
	"crypto/sha1"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/rlock-go/toolkit/gen"
	"github.com/stretchr/testify/require"
)

// puppet is a server that answers what a test says.
type puppet struct {
	// to what a client does not ask of its own accord
	answer func(sha string) value
	push   func(key, token string) (message string, granted bool) // after an answer; empty: nothing

	mu      sync.Mutex
	said    map[string][]value // its answers, by the script's SHA1 or the command
	hears   net.Conn           // where it pushes; nil: nobody has subscribed
	channel string
	told    bool // it has pushed a grant
}

// quiet has a puppet push nothing.
func quiet(string, string) (message string, granted bool) { return "", false }

// onPuppet runs a test with fake time and a client of a puppet. It fails if a goroutine
// outlives the test, or all of them wait for nothing.
func onPuppet(t *testing.T, answer func(sha string) value, push func(key, token string) (string, bool),
	test func(t *testing.T, client rueidis.Client, p *puppet)) {
	t.Helper()
	defer time.AfterFunc(inputTakes, func() { stuck(t, inputTakes) }).Stop()
	synctest.Test(t, func(t *testing.T) {
		defer time.AfterFunc(inputLasts, func() { stuck(t, inputLasts) }).Stop()
		p := &puppet{answer: answer, push: push, said: map[string][]value{}}
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{"puppet:0"}, ForceSingleClient: true, DisableCache: true, PipelineMultiplex: -1,
			RingScaleEachConn: 2, ReadBufferEachConn: 1 << 12, WriteBufferEachConn: 1 << 12, // many clients are made
			// Otherwise a ping or a late command that begins while an idle connection is closed keeps Close
			// waiting for ever.
			AlwaysPipelining: true, Dialer: net.Dialer{KeepAlive: -1},
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

// A call that waits for ever does not look so in a bubble if something else lets the fake time pass. And one
// that goes round without a pause lets no time pass. So both times have an end for each input.
const (
	inputTakes = time.Minute
	inputLasts = 24 * time.Hour // of fake time: a lock that is extended lasts for as long as there is input
)

// stuck ends the tests with all goroutines.
func stuck(t *testing.T, after time.Duration) {
	debug.SetTraceback("all")
	panic(fmt.Sprintf("%s has not ended after %v", t.Name(), after))
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
		if _, err := io.WriteString(conn, p.reply(conn, words)); err != nil {
			return
		}
	}
}

func (p *puppet) reply(conn net.Conn, words []string) string {
	name := words[0]
	switch name {
	case "HELLO":
		return "%2\r\n+version\r\n+7.0.15\r\n+proto\r\n:3\r\n"
	case "CLIENT", "PING":
		return "+OK\r\n"
	case "SSUBSCRIBE":
		return p.subscribe(conn, words[1])
	case "UNSUBSCRIBE", "PUNSUBSCRIBE", "SUNSUBSCRIBE":
		return fmt.Sprintf(">3\r\n+%s\r\n_\r\n:0\r\n", strings.ToLower(name))
	case "DISCARD":
		return "-ERR DISCARD without MULTI\r\n"
	case "EVALSHA", "EVALSHA_RO":
		name = words[1]
	case "EVAL", "EVAL_RO":
		sum := sha1.Sum([]byte(words[1]))
		name = hex.EncodeToString(sum[:])
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	answer := p.answer(name)
	p.said[name] = append(p.said[name], answer)
	p.publish(name, words)
	return answer.wire
}

// subscribe confirms a subscription, or refuses it.
func (p *puppet) subscribe(conn net.Conn, channel string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answer := p.answer("SSUBSCRIBE"); answer.isError() {
		return answer.wire
	}
	p.hears, p.channel = conn, channel
	return fmt.Sprintf(">3\r\n+ssubscribe\r\n$%d\r\n%s\r\n:1\r\n", len(channel), channel)
}

// again is the number of the argument of requeue.lua that is the token to insert, as the header says.
var again = func() int {
	text, err := os.ReadFile("../../gen/requeue.lua")
	if err != nil {
		panic(err)
	}
	n, err := strconv.Atoi(string(regexp.MustCompile(`(?m)^-- ARGV\[(\d+)\] +again `).FindSubmatch(text)[1]))
	if err != nil {
		panic(err)
	}
	return n
}()

// publish pushes a message about the token of a call, or about the one that it is to insert. The
// caller holds mu.
func (p *puppet) publish(sha string, words []string) {
	if p.hears == nil || sha != gen.WaitSHA1 && sha != gen.ReleaseSHA1 && sha != gen.RequeueSHA1 {
		return
	}
	keys, _ := strconv.Atoi(words[2])
	key, token := words[3], words[3+keys]
	if sha == gen.RequeueSHA1 {
		token = words[3+keys+again-1]
	}
	message, granted := p.push(key, token)
	if message == "" {
		return
	}
	p.told = p.told || granted
	// The client may be closing the connection, and then nobody reads.
	go io.WriteString(p.hears, fmt.Sprintf(">3\r\n+smessage\r\n$%d\r\n%s\r\n$%d\r\n%s\r\n", len(p.channel),
		p.channel, len(message), message))
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
