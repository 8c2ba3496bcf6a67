package env

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
)

const (
	startTries   = 10
	startTimeout = 10 * time.Second
	pollInterval = 10 * time.Millisecond
)

var (
	errPortTaken = errors.New("the server could not listen on its port")
	errExited    = errors.New("the server exited")
)

// Start starts a standalone server of the first of Engines. See Engine.Start.
func Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return Engines(tb)[0].Start(tb, args...)
}

// Start starts a standalone server, and returns it when the server answers. The server listens on a free port
// of 127.0.0.1, works in a temporary directory, persists nothing and allows the DEBUG command.
//
// args are more server arguments, for example "--maxmemory", "1mb". They override those of Start. They must
// not change the port or the access of the default user.
//
// The cleanup of tb kills the server. A server that does not answer within ten seconds ends the test with a
// failure that shows the server's log.
func (e Engine) Start(tb testing.TB, args ...string) *Server {
	tb.Helper()
	return e.start(tb, freePort, args)
}

func (e Engine) start(tb testing.TB, pick func() (int, error), args []string) *Server {
	tb.Helper()
	tb.Attr(EngineAttr, e.name())
	var s *Server
	err := errPortTaken
	for try := 0; try < startTries && errors.Is(err, errPortTaken); try++ {
		s, err = e.tryStart(tb, pick, args)
	}
	if err != nil {
		tb.Fatalf("start %s: %v", e.Path, err)
	}
	return s
}

func (e Engine) tryStart(tb testing.TB, pick func() (int, error), args []string) (*Server, error) {
	port, err := pick()
	if err != nil {
		return nil, err
	}
	dir := tb.TempDir()
	s := &Server{tb: tb, addr: address(port), logPath: filepath.Join(dir, "server.log")}
	s.launch = func() (*process, error) {
		return launch(e.Path, slices.Concat(e.arguments(port, dir), args), e.env, s.logPath)
	}
	if s.proc, err = s.launch(); err != nil {
		return nil, err
	}
	if s.control, err = s.await(); err != nil {
		s.proc.kill()
		return nil, explain(err, s.logPath)
	}
	tb.Cleanup(s.close)
	return s, nil
}

func (e Engine) arguments(port int, dir string) []string {
	args := []string{
		"--bind", host, "--port", strconv.Itoa(port), "--dir", dir,
		"--save", "", "--appendonly", "no",
	}
	if e.hasDebugOption() {
		args = append(args, "--enable-debug-command", "yes")
	}
	if e.config != "" {
		args = slices.Insert(args, 0, e.config)
	}
	return args
}

// await returns a client of the server when the server answers.
func (s *Server) await() (rueidis.Client, error) {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	for {
		client, err := s.connect(ctx)
		if err == nil {
			return client, nil
		}
		select {
		case <-s.proc.exited:
			return nil, errExited
		case <-ctx.Done():
			return nil, fmt.Errorf("not ready within %s: %w", startTimeout, err)
		case <-time.After(pollInterval):
		}
	}
}

// connect compares process ids, because the server of another test may have taken the port. That server would
// answer in place of the server that fails to start. The client speaks RESP2, in which INFO is plain text
// without a format prefix.
func (s *Server) connect(ctx context.Context) (rueidis.Client, error) {
	option := s.Option()
	option.ForceSingleClient = true
	option.DisableCache = true
	option.AlwaysRESP2 = true
	client, err := rueidis.NewClient(option)
	if err != nil {
		return nil, err
	}
	text, err := client.Do(ctx, client.B().Info().Section("server").Build()).ToString()
	if pid := infoFields(text)["process_id"]; err == nil && pid != strconv.Itoa(s.proc.pid()) {
		err = fmt.Errorf("process %s answers on %s in place of the started process %d; "+
			"a wrapper script has to exec the server", pid, s.addr, s.proc.pid())
	}
	if err != nil {
		client.Close()
		return nil, err
	}
	return client, nil
}

func explain(err error, logPath string) error {
	log, readErr := os.ReadFile(logPath)
	if readErr != nil {
		return errors.Join(err, readErr)
	}
	text := string(log)
	if errors.Is(err, errExited) && (strings.Contains(text, "Failed listening on port") ||
		strings.Contains(text, "Could not create server TCP listening socket")) {
		err = errPortTaken
	}
	return fmt.Errorf("%w; its log:\n%s", err, text)
}
