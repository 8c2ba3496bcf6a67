package try

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/rueidis"
)

// user runs the scripts. It has the rights in the audit, and no others.
const user, password = "redislua-try", "redislua-try"

// server is the server that runs the scripts.
type server struct {
	where   string
	own     bool // the run started it, and may change everything on it
	rights  bool // it has users
	option  rueidis.ClientOption
	program *program
	local   *miniredis.Miniredis

	admin rueidis.Client
	two   rueidis.Client // calls the scripts with RESP2
	three rueidis.Client // calls the scripts with RESP3
	lost  bool           // the embedded server runs an endless script, and cannot be closed
}

// open returns the server in -try: embedded, an address, or a program to start.
func open(ctx context.Context, where string) (*server, error) {
	s := &server{where: where, rights: true}
	var err error
	switch {
	case where == "embedded":
		s.own, s.rights = true, false
		s.local = miniredis.NewMiniRedis()
		if err = s.local.Start(); err == nil {
			s.option.InitAddress = []string{s.local.Addr()}
		}
	case strings.Contains(where, "://"):
		if s.option, err = rueidis.ParseURL(where); err == nil && s.option.SelectDB != 0 {
			err = fmt.Errorf("%s names a database, and a run uses database 0; leave it out", where)
		}
	case address.MatchString(where):
		s.option.InitAddress = []string{where}
	default:
		s.own = true
		err = s.start(ctx)
	}
	if err == nil {
		err = s.connect(ctx)
	}
	if err != nil {
		return nil, errors.Join(err, s.close())
	}
	return s, nil
}

var address = regexp.MustCompile(`^[^/]*:\d+$`)

// start starts the program, and does so again after a kill.
func (s *server) start(ctx context.Context) (err error) {
	if s.program, err = launch(ctx, s.where); err == nil {
		s.option, err = rueidis.ParseURL("unix://" + s.program.socket)
	}
	return err
}

// connect opens the clients, and refuses a server that has data.
func (s *server) connect(ctx context.Context) error {
	s.option.ForceSingleClient, s.option.DisableCache, s.option.DisableRetry = true, true, true
	s.option.PipelineMultiplex = -1 // one connection, so the server removes the keys after it makes them
	s.option.ClientSetInfo = rueidis.DisableClientSetInfo
	option := s.option
	option.AlwaysRESP2 = true
	var err error
	if s.admin, err = s.client(ctx, option); err != nil {
		return err
	}
	if !s.own {
		if err := errors.Join(s.empty(ctx), s.alone(ctx)); err != nil {
			return err
		}
	}
	if s.rights {
		if err := s.allow(ctx, nil); err != nil {
			return err
		}
		s.option.Username, s.option.Password = user, password
	}
	option.Username, option.Password = s.option.Username, s.option.Password
	if s.two, err = s.client(ctx, option); err != nil {
		return err
	}
	s.three, err = s.client(ctx, s.option)
	return err
}

// client connects. A program may not listen yet after its start.
func (s *server) client(ctx context.Context, option rueidis.ClientOption) (rueidis.Client, error) {
	for {
		client, err := rueidis.NewClient(option)
		if err == nil || s.program == nil {
			return client, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-s.program.gone:
			return nil, cmp.Or(ctx.Err(), fmt.Errorf("%s has ended at once; start it by hand to see why", s.where))
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// empty refuses a server that has data, because scripts may do anything.
func (s *server) empty(ctx context.Context) error {
	info, err := s.admin.Do(ctx, s.admin.B().Info().Section("keyspace").Build()).ToString()
	if err != nil {
		return err
	}
	if _, databases, _ := strings.Cut(info, "\n"); strings.TrimSpace(databases) != "" {
		return fmt.Errorf("%s has data (%s), and scripts may change it; "+
			"name an empty server, or a program such as redis-server, which is started",
			s.where, strings.Join(strings.Fields(databases), ", "))
	}
	return nil
}

// alone refuses a server that already has the user. Another run or a person made the user.
func (s *server) alone(ctx context.Context) error {
	_, err := s.admin.Do(ctx, s.admin.B().Arbitrary("ACL", "GETUSER", user).Build()).ToMessage()
	if err == nil {
		return fmt.Errorf("%s has the user %s, which a run makes and removes; wait for the other run, or remove it",
			s.where, user)
	}
	return nil
}

// allow gives the user exactly these rights.
func (s *server) allow(ctx context.Context, rule []string) error {
	words := append([]string{"ACL", "SETUSER", user, "reset", "on", ">" + password}, rule...)
	err := s.admin.Do(ctx, s.admin.B().Arbitrary(words...).Build()).Error()
	if err != nil && strings.Contains(err.Error(), "Unknown command") {
		return errUnknown
	}
	return err
}

// errUnknown says that the server does not know some of the rights.
var errUnknown = errors.New("the server does not know a command of it, so that no user has its rights")

// restart ends a program with an endless script, and starts the program again.
func (s *server) restart(ctx context.Context) error {
	s.kill()
	if err := s.start(ctx); err != nil {
		return err
	}
	return s.connect(ctx)
}

// close removes the keys and the user of the run. If the run started the server, close ends the server.
func (s *server) close() error {
	var err error
	if !s.own && s.admin != nil && s.option.Username == user {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = s.admin.Do(ctx, s.admin.B().Arbitrary("ACL", "DELUSER", user).Build()).Error()
	}
	s.kill()
	return err
}

// kill ends a program before the clients, because a client would wait for the program.
func (s *server) kill() {
	if s.lost {
		return
	}
	if s.program != nil {
		s.program.kill()
	}
	for _, c := range []rueidis.Client{s.admin, s.two, s.three} {
		if c != nil {
			c.Close()
		}
	}
	s.admin, s.two, s.three = nil, nil, nil
	if s.local != nil {
		s.local.Close()
	}
}

// program is a server that the run started, in an empty directory.
type program struct {
	dir    string
	socket string
	cmd    *exec.Cmd
	gone   chan struct{}
}

// launch starts a server on its own socket, where no other program can answer. The server keeps no data, and
// limits a text to a megabyte.
func launch(ctx context.Context, path string) (*program, error) {
	dir, err := os.MkdirTemp("", "redislua-try-")
	if err != nil {
		return nil, err
	}
	p := &program{dir: dir, socket: filepath.Join(dir, "socket"), gone: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, path, "--port", "0", "--unixsocket", p.socket, "--dir", p.dir,
		"--save", "", "--appendonly", "no", "--proto-max-bulk-len", "1mb")
	if err := p.cmd.Start(); err != nil {
		err = fmt.Errorf("%w; name an address such as localhost:6379, embedded, or a program", err)
		return nil, errors.Join(err, os.RemoveAll(p.dir))
	}
	go func() {
		_ = p.cmd.Wait() // its exit status does not matter, because the run kills it
		close(p.gone)
	}()
	return p, nil
}

// endsSoon reports whether the program ends within a second. A client may notice the end earlier.
func (p *program) endsSoon() bool {
	select {
	case <-p.gone:
		return true
	case <-time.After(time.Second):
		return false
	}
}

func (p *program) kill() {
	_ = p.cmd.Process.Kill() // fails if the program has ended
	<-p.gone
	_ = os.RemoveAll(p.dir) // an empty directory for temporary files
}
