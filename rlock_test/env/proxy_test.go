package env_test

import (
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

func start(t *testing.T) (*env.Server, *env.Proxy) {
	t.Helper()
	s := env.Start(t)
	return s, env.NewProxy(t, s.Addr())
}

func through(p *env.Proxy) func(*rueidis.ClientOption) {
	return func(o *rueidis.ClientOption) { o.InitAddress = []string{p.Addr()} }
}

func TestProxyPassesEverythingOn(t *testing.T) {
	s, p := start(t)
	client := s.Client(t, through(p))
	large := strings.Repeat("x", 1<<20)
	var users sync.WaitGroup
	for i := range 8 {
		users.Go(func() {
			key := "k" + strconv.Itoa(i)
			for range 5 {
				if client.Do(t.Context(), client.B().Set().Key(key).Value(large).Build()).Error() != nil {
					return
				}
			}
			_ = client.Do(t.Context(), client.B().Append().Key(key).Value(key).Build()).Error()
		})
	}
	users.Wait()
	for i := range 8 {
		key := "k" + strconv.Itoa(i)
		got, err := client.Do(t.Context(), client.B().Get().Key(key).Build()).ToString()
		require.NoError(t, err)
		require.True(t, got == large+key)
	}
}

func TestProxyClosesWithEitherSide(t *testing.T) {
	s, p := start(t)
	c := dial(t, p.Addr())
	c.send("CLIENT SETNAME leaver")
	c.wantReply("+OK")
	require.NoError(t, c.tcp.Close())
	env.Soon(t, func() bool {
		return !strings.Contains(text(t, s.Do(t, "CLIENT", "LIST")), "leaver")
	}, "its connection is closed")

	c = dial(t, p.Addr())
	c.send("PING")
	c.wantReply("+PONG")
	s.Kill()
	c.wantClosed()
	dial(t, p.Addr()).wantClosed()
}

func TestProxyLeavesNothingBehind(t *testing.T) {
	s := env.Start(t)
	t.Run("lifetime", func(t *testing.T) {
		p := env.NewProxy(t, s.Addr())
		p.Hold(env.Contains("held"))
		for _, command := range []string{"PING", "GET held", "BLPOP nothing 0"} {
			dial(t, p.Addr()).send(command)
		}
		env.Soon(t, func() bool { return p.Held() == 1 }, "the request is held")
		p.BlackHole(true)
	})
	buf := make([]byte, 1<<20)
	env.Soon(t, func() bool {
		stacks := string(buf[:runtime.Stack(buf, true)])
		return !strings.Contains(stacks, "env.(*link)") && !strings.Contains(stacks, "env.(*Proxy)")
	}, "no goroutine of the proxy is left")
}

func TestContains(t *testing.T) {
	match := env.Contains("Set", "key")
	require.True(t, match([]byte("*3\r\n$3\r\nSET\r\n$3\r\nKEY\r\n$1\r\nv\r\n")))
	require.False(t, match([]byte("*2\r\n$3\r\nGET\r\n$3\r\nkey\r\n")))
	require.True(t, env.Contains()([]byte("anything")))
}
