package rlocktest

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
)

// Server is an embedded Redis server, on a free port of the loopback interface or in
// memory. It starts empty, and its methods may be called concurrently.
type Server struct {
	redis   *miniredis.Miniredis
	network *network
	tracker *tracker
	faults  faults
	close   func()
	closed  atomic.Bool
	started time.Time // by the wall clock, which is behind it in a bubble that the server is not in
}

// Start returns a running server, and closes it when the test and its subtests are done. If the server cannot
// start, the test fails.
func Start(tb testing.TB) *Server {
	tb.Helper()
	return started(tb, Open)
}

// StartInMemory is Start for a server without a network: clients with [Server.Option] connect through memory.
// So the server, its clients and their locks can be in one bubble of testing/synctest and have its clock.
// There a lease of an hour ends at once when no other work is left.
func StartInMemory(tb testing.TB) *Server {
	tb.Helper()
	return started(tb, OpenInMemory)
}

func started(tb testing.TB, open func() (*Server, error)) *Server {
	tb.Helper()
	s, err := open()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(s.Close)
	return s
}

// Client returns a client of a server of its own. When the test and its subtests are done, it closes the
// client and then the server. If either cannot start, the test fails.
func Client(tb testing.TB) rueidis.Client {
	tb.Helper()
	c, err := Start(tb).Client()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// Open returns a running server for a program that is no test. The caller closes it.
func Open() (*Server, error) { return open(false) }

// OpenInMemory is Open for a server in memory; see StartInMemory.
func OpenInMemory() (*Server, error) { return open(true) }

func open(memory bool) (*Server, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	// The server serves connections in front of miniredis, because tracking has to see every command, and
	// miniredis.SetError replaces the only hook of a server. Dial starts miniredis without a listener.
	conn, err := m.Dial()
	if err != nil {
		return nil, fmt.Errorf("rlocktest: %w", err)
	}
	_ = conn.Close()

	s := &Server{redis: m, tracker: newTracker(m), started: time.Now().Round(0)}
	s.close = sync.OnceFunc(s.shutdown)
	if s.network, err = newNetwork(memory, s.serve); err != nil {
		m.Close()
		return nil, err
	}
	return s, nil
}

// Addr returns the address of the server, as host:port. It stays the same after Restart and Close. A server
// in memory has no address for a connection: use Option.
func (s *Server) Addr() string {
	return s.network.addr
}

// Option returns options of a client that fit this server: one connection with small buffers, no search for a
// cluster, and client-side caching. Other options work too, also the defaults of rueidis.
func (s *Server) Option() rueidis.ClientOption {
	o := rueidis.ClientOption{
		InitAddress:         []string{s.Addr()},
		ForceSingleClient:   true,
		PipelineMultiplex:   -1,
		RingScaleEachConn:   7,
		ReadBufferEachConn:  1 << 14,
		WriteBufferEachConn: 1 << 14,
	}
	if s.Addr() == inMemory {
		o.DialCtxFn = s.network.dial
	}
	return o
}

// Client returns a new client with the options of [Server.Option]. The caller closes it. After Close of the
// server, Client returns an error, because another server may have the address.
func (s *Server) Client() (rueidis.Client, error) {
	if s.closed.Load() {
		return nil, errors.New("rlocktest: the server is closed")
	}
	c, err := rueidis.NewClient(s.Option())
	if err != nil {
		return nil, fmt.Errorf("rlocktest: %w", err)
	}
	return c, nil
}

// Redis returns the miniredis behind the server. Use it to look at the data without a client, to move time
// with FastForward, or to make commands fail with SetError. FastForward announces the keys that it expires.
// Clients that cached a key do not hear of other changes through miniredis.
//
// It has no listener and no connections of its own: Addr is empty, Host and Port must not be called, and
// CurrentConnectionCount is zero. Only the Server may call Start, Restart and Close.
func (s *Server) Redis() *miniredis.Miniredis {
	return s.redis
}

// Close disconnects all clients, stops the server, and returns when everything that it started has ended. A
// second Close does nothing.
func (s *Server) Close() {
	s.close()
}

func (s *Server) shutdown() {
	s.closed.Store(true)
	// A connection ends after its command, so blocked commands must give up first. They look at the context
	// when a command wakes them. Any command does, even a command without authentication.
	s.redis.CtxCancel()
	s.tracker.ask(&server.Peer{}, []string{"CLIENT", "GETNAME"})
	s.network.stop()
	s.network.running.Wait()
	s.tracker.close()
	s.redis.Close()
}
