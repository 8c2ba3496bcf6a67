package interop

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// npmHelp is what whoever lacks Node.js is told.
const npmHelp = "the npm libraries need Node.js 18 or later, with npm; without it, " +
	"`go test -C rlock_test/interop -skip '//npm|TestTable/npm'` tests the others"

// installed has npm put the libraries of package-lock.json beside this file, unless it has
// done so since that was changed.
var installed = sync.OnceValue(func() error {
	locked, err := os.Stat("package-lock.json")
	if err != nil {
		return err
	}
	if done, err := os.Stat("node_modules/.package-lock.json"); err == nil &&
		!done.ModTime().Before(locked.ModTime()) {
		return nil // npm writes it last
	}
	npm, err := exec.LookPath("npm")
	if err != nil {
		return fmt.Errorf("%w: %s", err, npmHelp)
	}
	if output, err := exec.Command(npm, "ci").CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s\n%s", err, output, npmHelp)
	}
	return nil
})

// openNpm has a node process of its own try locks with a library.
func openNpm(library string) func(tb testing.TB, address string) locker {
	return func(tb testing.TB, address string) locker {
		tb.Helper()
		node, err := exec.LookPath("node")
		require.NoError(tb, err, npmHelp)
		require.NoError(tb, installed())

		process := exec.Command(node, "libraries.js", address)
		process.Stderr = os.Stderr
		stdin, err := process.StdinPipe()
		require.NoError(tb, err)
		stdout, err := process.StdoutPipe()
		require.NoError(tb, err)
		require.NoError(tb, process.Start())
		n := &npm{library: library, requests: json.NewEncoder(stdin), replies: bufio.NewScanner(stdout)}
		tb.Cleanup(func() {
			_ = stdin.Close() // it ends then
			_, _ = io.Copy(io.Discard, stdout)
			require.NoError(tb, process.Wait())
		})
		return n
	}
}

// npm speaks to a process that runs libraries.js.
type npm struct {
	library string

	mu       sync.Mutex
	requests *json.Encoder
	replies  *bufio.Scanner
	last     int
}

type npmRequest struct {
	ID      int    `json:"id"`
	Op      string `json:"op"`
	Library string `json:"library,omitempty"`
	Name    string `json:"name,omitempty"`
	TTL     int64  `json:"ttl,omitempty"`
	Handle  int    `json:"handle,omitempty"`
}

type npmReply struct {
	ID     int    `json:"id"`
	Got    bool   `json:"got"`
	Handle int    `json:"handle"`
	Error  string `json:"error"`
}

func (n *npm) ask(request npmRequest) (npmReply, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last++
	request.ID = n.last
	if err := n.requests.Encode(request); err != nil {
		return npmReply{}, err
	}
	if !n.replies.Scan() {
		return npmReply{}, errors.Join(errors.New("node ended"), n.replies.Err())
	}
	var reply npmReply
	if err := json.Unmarshal(n.replies.Bytes(), &reply); err != nil {
		return npmReply{}, err
	}
	switch {
	case reply.Error != "":
		return npmReply{}, errors.New(reply.Error)
	case reply.ID != request.ID:
		return npmReply{}, errors.New("the reply is to another request")
	}
	return reply, nil
}

func (n *npm) try(_ context.Context, name string, ttl time.Duration) (holding, error) {
	reply, err := n.ask(npmRequest{Op: "lock", Library: n.library, Name: name, TTL: ttl.Milliseconds()})
	if err != nil || !reply.Got {
		return nil, err
	}
	return npmHolding{n, reply.Handle}, nil
}

type npmHolding struct {
	npm    *npm
	handle int
}

func (h npmHolding) release(context.Context) (bool, error) {
	reply, err := h.npm.ask(npmRequest{Op: "release", Handle: h.handle})
	return reply.Got, err
}
