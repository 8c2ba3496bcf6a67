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

// weather is what the network is like between a client and the embedded server.
// Nil is a network without delays.
type weather struct {
	slow  time.Duration // how late a script or a chunk of replies is: that, or down to half
	loses int           // one chunk of so many is lost with its connection; 0: none
}

func (w *weather) lag() time.Duration {
	if w == nil || w.slow == 0 {
		return 0
	}
	return w.slow/2 + rand.N(w.slow/2)
}

// road is a connection on which replies travel through the weather.
type road struct {
	net.Conn
	redis *redis
}

func (r *redis) road(conn net.Conn) net.Conn { return road{conn, r} }

func (r road) Read(b []byte) (int, error) {
	n, err := r.Conn.Read(b)
	w := r.redis.weather.Load()
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
		redis.weather.Store(&weather{slow: 4 * time.Second})
		require.ErrorIs(t, lock.Extend(t.Context(), time.Hour), rlock.ErrExpired)
		require.Equal(t, deadline, lock.Deadline())
	})
}
