package waiting

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// competitor is the environment variable that makes the test binary a competitor
// for the lock at the server of that address.
const competitor = "RLOCK_COMPETE_AT"

const competeFor = 10 * time.Second

// compete acquires and releases one lock with a few goroutines from the line "go" on
// standard input, and prints how often it had the lock.
func compete(address string) error {
	const workers = 4
	locker, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{address}})
	if err != nil {
		return err
	}
	defer locker.Close()
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), competeFor)
	defer cancel()
	var had atomic.Int64
	err = env.Together(workers, func(int) error {
		for {
			lock, err := locker.Acquire(ctx, "job")
			if errors.Is(err, context.DeadlineExceeded) {
				return nil
			}
			if err != nil {
				return err
			}
			had.Add(1)
			if err := lock.Release(ctx); err != nil {
				return err
			}
		}
	})
	fmt.Println(had.Load())
	return err
}

// Processes that compete for one key all get their share: the unluckiest has the lock
// at least half as often as the luckiest. Chance has a part in that, and so does the
// machine, so it is two rounds out of five that must show it.
func TestProcessesShareALock(t *testing.T) {
	env.Long(t)
	server := env.Start(t)
	fair, unfair := 0, 0
	for fair < 2 && unfair < 4 {
		had := competition(t, server)
		t.Logf("acquisitions of each process in %v: %v", competeFor, had)
		if 2*had[0] >= had[len(had)-1] {
			fair++
		} else {
			unfair++
		}
	}
	require.Equal(t, 2, fair)
}

// competition has processes compete for a lock, and returns how often each had it, in
// rising order.
func competition(t *testing.T, server *env.Server) []int {
	t.Helper()
	const processes = 8
	type process struct {
		*exec.Cmd
		out *bufio.Reader
		in  io.Writer
	}
	line := func(p process) string {
		t.Helper()
		text, err := p.out.ReadString('\n')
		require.NoError(t, err)
		return strings.TrimSpace(text)
	}
	var crowd []process
	for range processes {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), competitor+"="+server.Addr())
		cmd.Stderr = os.Stderr
		out, err := cmd.StdoutPipe()
		require.NoError(t, err)
		in, err := cmd.StdinPipe()
		require.NoError(t, err)
		require.NoError(t, cmd.Start())
		crowd = append(crowd, process{cmd, bufio.NewReader(out), in})
	}
	for _, p := range crowd {
		require.Equal(t, "ready", line(p))
	}
	for _, p := range crowd {
		_, err := p.in.Write([]byte("go\n"))
		require.NoError(t, err)
	}
	var had []int
	for _, p := range crowd {
		n, err := strconv.Atoi(line(p))
		require.NoError(t, err)
		had = append(had, n)
		require.NoError(t, p.Wait())
	}
	slices.Sort(had)
	return had
}
