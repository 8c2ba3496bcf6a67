package env

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

const commandTimeout = 10 * time.Second

// Server is one server process, standalone or a node of a cluster. Several goroutines may call its methods at
// once. A method that takes a testing.TB may run only in a goroutine that may end that test.
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

// Option returns the options of a client of this server. Only the address is set.
func (s *Server) Option() rueidis.ClientOption {
	return rueidis.ClientOption{InitAddress: []string{s.addr}}
}

// Client returns a new client of the server with the options of Option. The opts change them, in their order.
// A test with a Proxy sets InitAddress in opts. The client of a node serves the whole cluster. The cleanup of
// tb closes the client.
func (s *Server) Client(tb testing.TB, opts ...func(*rueidis.ClientOption)) rueidis.Client {
	tb.Helper()
	return newClient(tb, s.Option(), opts)
}

// Do runs one command on its own client, which no Proxy and no option of the test affects. It returns the
// reply in the form of RESP2. A nil reply is a reply. An error, or no answer within ten seconds, ends the
// test with a failure.
func (s *Server) Do(tb testing.TB, args ...string) rueidis.RedisMessage {
	tb.Helper()
	// A cleanup function may call Do after the test's context has ended.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), commandTimeout)
	defer cancel()
	command := s.control.B().Arbitrary(args...).Build()
	reply, err := s.control.Do(ctx, command).ToMessage()
	if err != nil && !rueidis.IsRedisNil(err) {
		tb.Fatalf("%s: %q: %v", s.addr, args, err)
	}
	return reply
}

// Stop suspends the server with SIGSTOP. Until Cont, the server keeps its connections and accepts new ones,
// but answers nothing.
func (s *Server) Stop() {
	s.tb.Helper()
	if err := s.process().stop(); err != nil {
		s.tb.Errorf("%s: stop: %v", s.addr, err)
	}
}

// Cont resumes a server that Stop has suspended. The server then runs the requests that have arrived
// meanwhile.
func (s *Server) Cont() {
	s.tb.Helper()
	if err := s.process().signal(continueSignal); err != nil {
		s.tb.Errorf("%s: continue: %v", s.addr, err)
	}
}

// Kill ends the server with SIGKILL, and returns when the process is gone. The caller may repeat Kill.
func (s *Server) Kill() { s.process().kill() }

// Restart starts a killed server again, and returns when the server answers. The address, the arguments and
// the directory stay the same. The server has its data again if it runs with "--appendonly", "yes". A server
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
	// The server's own client may notice only now that its connection is gone.
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

// A client that closes waits for its server. It does not wait for a killed server.
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
