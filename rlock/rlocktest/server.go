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

// Start returns a running server that is closed when the test and its subtests
// are done. It fails the test if the server cannot be started.
func Start(tb testing.TB) *Server {
	tb.Helper()
	return started(tb, Open)
}

// StartInMemory is Start for a server that is reached without the machine's network:
// [Server.Option] has clients connect through memory. So the server, its clients and
// their locks can be in one bubble of testing/synctest and have its clock, by which a
// lease of an hour ends at once when there is nothing else to do.
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

// Client returns a client of a server of its own. Both are closed when the test
// and its subtests are done, the client first. It fails the test if either
// cannot be had.
func Client(tb testing.TB) rueidis.Client {
	tb.Helper()
	c, err := Start(tb).Client()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(c.Close)
	return c
}

// Open returns a running server, for programs that are not tests. The caller
// closes it.
func Open() (*Server, error) { return open(false) }

// OpenInMemory is Open for a server as that of StartInMemory.
func OpenInMemory() (*Server, error) { return open(true) }

func open(memory bool) (*Server, error) {
	m := miniredis.NewMiniRedis()
	m.ClockTTL(true)
	// Connections are served in front of miniredis, and not by miniredis itself, because
	// tracking has to see every command and miniredis.SetError replaces the only hook
	// that a server has. Dial starts miniredis without a listener.
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

// Addr returns the address the server listens on, as host:port. It stays the
// same after Restart and Close. A server in memory has none to connect to: use Option.
func (s *Server) Addr() string {
	return s.network.addr
}

// Option returns the options of a client that fits this server: one connection
// with small buffers, no attempt to find a cluster, client-side caching
// enabled. Other options work as well, the rueidis defaults included.
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

// Client returns a new client with the options of [Server.Option]. The caller
// closes it. After Close there is none: another server may have the address by then.
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

// Redis returns the miniredis behind the server, to look at the data without a
// client, to move time with FastForward, or to make commands fail with
// SetError. FastForward announces the keys it expires; other changes made
// through it are not announced to clients that cached the key.
//
// It has no listener and no connections of its own: Addr is empty, Host and
// Port must not be called, and CurrentConnectionCount is zero. Start, Restart
// and Close are for the Server to call.
func (s *Server) Redis() *miniredis.Miniredis {
	return s.redis
}

// Close disconnects all clients, stops the server, and returns when everything
// it started has ended. Calls after the first do nothing.
func (s *Server) Close() {
	s.close()
}

func (s *Server) shutdown() {
	s.closed.Store(true)
	// A connection ends only after its command did, so the blocking ones have
	// to give up first. They look at the context after being woken, and any
	// command wakes them, one that needs no authentication in particular.
	s.redis.CtxCancel()
	s.tracker.ask(&server.Peer{}, []string{"CLIENT", "GETNAME"})
	s.network.stop()
	s.network.running.Wait()
	s.tracker.close()
	s.redis.Close()
}
