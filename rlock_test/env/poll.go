package env

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

// Servers that watch each other do nothing for a while after they have stood still.
const pollTimeout = time.Minute

// poll repeats the question until the reply is the wanted one. A server that becomes the primary closes its
// connections, so poll asks again after no reply.
func (s *Server) poll(tb testing.TB, complaint string, question []string,
	wanted func(rueidis.RedisMessage) bool) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), pollTimeout)
	defer cancel()
	for {
		reply := s.control.Do(ctx, s.control.B().Arbitrary(question...).Build())
		if message, err := reply.ToMessage(); err == nil && wanted(message) {
			return
		}
		if ctx.Err() != nil {
			tb.Fatalf("%s: %s after %s: %s", s.addr, complaint, pollTimeout, reply.String())
		}
		time.Sleep(pollInterval)
	}
}

// startsWith reports whether the reply starts with these words. It compares words and numbers.
func startsWith(reply rueidis.RedisMessage, words ...string) bool {
	items, err := reply.ToArray()
	if err != nil || len(items) < len(words) {
		return false
	}
	for i, word := range words {
		if text, err := items[i].ToString(); err == nil && text == word {
			continue
		}
		if number, err := items[i].ToInt64(); err != nil || strconv.FormatInt(number, 10) != word {
			return false
		}
	}
	return true
}

func split(tb testing.TB, addr string) (host, port string) {
	tb.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		tb.Fatal(err)
	}
	return host, port
}
