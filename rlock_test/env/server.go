package env

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

const commandTimeout = 10 * time.Second

// Server is one server process, standalone or a node of a Cluster. Its
// methods may be called from several goroutines at once, but those that take
// a testing.TB only from a goroutine that may end that test.
type Server struct {
	tb      testing.TB
	addr    string
	logPath string
	launch  func() (*process, error)
	control rueidis.Client

	mu   sync.Mutex
	proc *process
}

// Addr returns the address of the server, "127.0.0.1:port".
func (s *Server) Addr() string { return s.addr }

// Option returns the options of a client of this server, with nothing but its
// address set.
func (s *Server) Option() rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{s.addr}}
}

// Client returns a new client of the server with Option changed by opts in
// their order. A test that goes through a Proxy sets InitAddress there. A
// client of a cluster's node serves the whole cluster. The cleanup of tb closes
// the client.
func (s *Server) Client(tb testing.TB, opts ...func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return newClient(tb, s.Option(), opts)
}

// Do runs one command on a client of its own, which no Proxy and no
// option of the test affects, and returns its reply as RESP2 has it. A nil
// reply is a reply.
// An error ends the test with a failure, and so does a server that does not
// answer within ten seconds.
func (s *Server) Do(tb testing.TB, args ...string) rueidis.RedisMessage {
	tb.Helper()
	// A cleanup function may call Do, and by then the test's context is done.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), commandTimeout)
	defer cancel()
	command := s.control.B().Arbitrary(args...).Build()
	reply, err := s.control.Do(ctx, command).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		tb.Fatalf("%s: %q: %v", s.addr, args, err)
	}
	return reply
}

// Stop suspends the server with SIGSTOP: it keeps its connections and accepts
// new ones, but answers nothing until Cont.
func (s *Server) Stop() {
	s.tb.Helper()
	if err := s.process().stop(); err != nil {
		s.tb.Errorf("%s: stop: %v", s.addr, err)
	}
}

// Cont resumes a server that Stop has suspended. The server then runs the
// requests that have arrived in the meantime.
func (s *Server) Cont() {
	s.tb.Helper()
	if err := s.process().signal(continueSignal); err != nil {
		s.tb.Errorf("%s: continue: %v", s.addr, err)
	}
}

// Kill ends the server with SIGKILL and returns once the process is gone. It
// may be called again.
func (s *Server) Kill() { s.process().kill() }

// Restart starts a server that Kill has ended once more, at the same address
// and with the same arguments and directory, and returns once it answers. It
// has its data again if it was started with "--appendonly", "yes". A server
// that does not answer within ten seconds ends the test with a failure.
func (s *Server) Restart(tb testing.TB) {
	tb.Helper()
	proc, err := s.launch()
	if err != nil {
		tb.Fatalf("restart %s: %v", s.addr, err)
	}
	s.mu.Lock()
	s.proc = proc
	s.mu.Unlock()
	client, err := s.await()
	if err != nil {
		tb.Fatalf("restart %s: %v", s.addr, explain(err, s.logPath))
	}
	client.Close()
	// Its own client may have noticed only now that its connection is gone.
	s.poll(tb, "it does not answer after its restart", []string{"PING"},
		func(rueidis.RedisMessage) bool { return true })
}

func (s *Server) process() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.proc
}

func (s *Server) running() bool {
	select {
	case <-s.process().exited:
		return false
	default:
		return true
	}
}

// A client that closes waits for its server, and a killed one keeps nobody
// waiting.
func (s *Server) close() {
	s.Kill()
	s.control.Close()
}

func newClient(tb testing.TB, option rueidis.ClientOption,
	opts []func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	for _, opt := range opts {
		opt(&option)
	}
	client, err := rueidis.NewClient(option)
	if err != nil {
		tb.Fatalf("client of %v: %v", option.InitAddress, err)
	}
	tb.Cleanup(client.Close)
	return client
}
