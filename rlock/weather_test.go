package rlock_test

import (
	"io"
	"math/rand/v2"
	"net"
	"time"
)

// weather is what the network is like between a client and the embedded server.
// Nil is a network without delays.
type weather struct {
	slow  time.Duration // most that a script or a chunk of replies is late
	loses int           // one chunk of so many is lost with its connection; 0: none
}

func (w *weather) lag() time.Duration {
	if w == nil || w.slow == 0 {
		return 0
	}
	return rand.N(w.slow)
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
