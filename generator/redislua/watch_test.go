package main

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// said is what a program has printed so far.
type said struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// next waits until the program has printed text, and forgets all that it printed until then.
func (s *said) next(t *testing.T, text string) string {
	t.Helper()
	var before string
	require.Eventually(t, func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		at := strings.Index(s.text.String(), text)
		if at < 0 {
			return false
		}
		before = string(s.text.Next(at + len(text)))
		return true
	}, 30*time.Second, 5*time.Millisecond, "it never says %q: %v", text, s)
	return before
}

// -watch writes the bindings again after a change of a script or of a fragment, also of one
// elsewhere that was not there. It prints findings and goes on, and SIGINT ends it.
func TestWatch(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put(t, dir, map[string]string{"lua/look.lua": goodScript})
	bindings := func(name string) string {
		text, err := os.ReadFile(filepath.Join(dir, "bindings", name))
		require.NoError(t, err)
		return string(text)
	}
	var out said
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	command := exec.CommandContext(ctx, build(t), "-scripts", "lua", "-out", "bindings", "-watch")
	command.Dir, command.Stdout, command.Stderr = dir, &out, &out
	require.NoError(t, command.Start())

	require.Equal(
		t, "watching lua; end with Ctrl-C", strings.Split(out.next(t, "1 scripts, 4 files changed\n"), "\n")[0],
	)
	require.Contains(t, bindings("look.lua"), "EXISTS")

	put(t, dir, map[string]string{"lua/look.lua": badScript})
	require.Contains(t, out.next(t, "redislua: nothing was written; mend the findings\n"),
		`lua/look.lua:4:8: "INCR" writes`)
	require.Contains(t, bindings("look.lua"), "EXISTS")

	put(t, dir, map[string]string{"lua/look.lua": strings.Replace(goodScript, "EXISTS", "STRLEN", 1)})
	out.next(t, "1 scripts, 3 files changed\n")
	require.Contains(t, bindings("look.lua"), "STRLEN")

	put(t, dir, map[string]string{"lua/more.lua": "-- mode: read\n-- KEYS[1] k key\n-- returns: int\n\n-- " +
		"include: ../shared/count.lua\nreturn count(KEYS[1])\n"})
	out.next(t, "redislua: nothing was written; mend the findings\n")
	put(t, dir, map[string]string{"shared/count.lua": "local function count(k) return redis.call('LLEN', k) " +
		"end\n"})
	out.next(t, "2 scripts, 4 files changed\n")
	put(t, dir, map[string]string{"shared/count.lua": "local function count(k) return redis.call('HLEN', k) " +
		"end\n"})
	out.next(t, "2 scripts, 3 files changed\n")
	require.Contains(t, bindings("more.lua"), "HLEN")

	require.NoError(t, os.Remove(filepath.Join(dir, "lua", "more.lua")))
	require.Contains(t, out.next(t, "1 scripts, 4 files changed\n"), "removed, as its script is gone")

	if runtime.GOOS == "windows" {
		cancel() // Go cannot send a signal there
		require.Error(t, command.Wait())
		return
	}
	require.NoError(t, command.Process.Signal(os.Interrupt))
	require.NoError(t, command.Wait(), "SIGINT is how a watch ends: %v", &out)
	require.Empty(t, out.String())
}

// A change that nobody sees at rest is not a change yet: an editor may still write.
func TestWatchWaitsForRest(t *testing.T) {
	t.Parallel()
	polls := 0
	sums := []sum{{1}, {2}, {3}, {1}, {1}, {4}, {4}, {4}}
	require.True(t, changed(t.Context(), sum{1}, func() sum { polls++; return sums[polls-1] }))
	require.Equal(t, 7, polls)
}

// BenchmarkPoll measures one poll of 100 scripts of 4 KiB.
func BenchmarkPoll(b *testing.B) {
	dir := b.TempDir()
	text := bytes.Repeat([]byte("-- text\n"), 512)
	for i := range 100 {
		require.NoError(b, os.WriteFile(filepath.Join(dir, strconv.Itoa(i)+".lua"), text, 0o666))
	}
	for b.Loop() {
		state([]string{dir}, nil)
	}
}
