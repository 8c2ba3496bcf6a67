package rlock_test

import (
	"io"
	"math/rand/v2"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
)

// network is what the network is like between a client and the embedded server.
// Nil is a network without delays.
type network struct {
	slow  time.Duration // how late a script or a chunk of replies is: that, or down to half
	loses int           // one chunk of so many is lost with its connection; 0: none
}

func (w *network) lag() time.Duration {
	if w == nil || w.slow == 0 {
		return 0
	}
	return w.slow/2 + rand.N(w.slow/2)
}

// slowConn is a connection on which replies are delayed or lost as the network is.
type slowConn struct {
	net.Conn
	redis *redis
}

func (r *redis) slowConn(conn net.Conn) net.Conn { return slowConn{conn, r} }

func (r slowConn) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	w := r.redis.network.Load()
	time.Sleep(w.lag())
	if w != nil && w.loses > 0 && rand.N(w.loses) == 0 {
		_ = r.Conn.Close()
		return 0, io.ErrUnexpectedEOF
	}
	return n, err
}

// An extension that is confirmed after the lease was over does not move its end.
func TestDeadlineStaysWhenItHasPassed(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, client rueidis.Client, redis *redis) {
		locker := open(t, client)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Second))
		require.NoError(t, err)
		deadline := lock.Deadline()
		redis.network.Store(&network{slow: 4 * time.Second})
		require.ErrorIs(t, lock.Extend(t.Context(), time.Hour), rlock.ErrExpired)
		require.Equal(t, deadline, lock.Deadline())
	})
}
