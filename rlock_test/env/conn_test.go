package env_test

import (
	"bufio"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// conn speaks inline commands, one chunk each, so that a test decides what is
// in a chunk and on which connection it goes.
type conn struct {
	t   *testing.T
	tcp net.Conn
	in  *bufio.Reader
}

func dial(t *testing.T, addr string) *conn {
	t.Helper()
	tcp, err := net.DialTimeout("tcp", addr, soon)
	require.NoError(t, err)
	t.Cleanup(func() { _ = tcp.Close() })
	return &conn{t: t, tcp: tcp, in: bufio.NewReader(tcp)}
}

func (c *conn) send(commands ...string) {
	c.t.Helper()
	_, err := c.tcp.Write([]byte(strings.Join(commands, "\r\n") + "\r\n"))
	require.NoError(c.t, err)
}

func (c *conn) read(limit time.Duration) (string, error) {
	if err := c.tcp.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return "", err
	}
	line, err := c.in.ReadString('\n')
	return strings.TrimSpace(line), err
}

func (c *conn) wantReply(want string) {
	c.t.Helper()
	got, err := c.read(soon)
	require.NoError(c.t, err)
	require.Equal(c.t, want, got)
}

func (c *conn) wantSilence() {
	c.t.Helper()
	got, err := c.read(quiet)
	require.ErrorIs(c.t, err, os.ErrDeadlineExceeded)
	require.Empty(c.t, got)
}

func (c *conn) wantClosed() {
	c.t.Helper()
	c.wantClosedAfterAny()
}

// wantClosedAfterAny accepts any number of the replies before the end.
func (c *conn) wantClosedAfterAny(replies ...string) {
	c.t.Helper()
	got, err := c.read(soon)
	for err == nil {
		require.Contains(c.t, replies, got)
		got, err = c.read(soon)
	}
	require.NotErrorIs(c.t, err, os.ErrDeadlineExceeded)
	require.Empty(c.t, got)
}
