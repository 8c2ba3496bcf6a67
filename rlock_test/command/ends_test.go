//go:build unix

package command

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A signal ends every command at once, also where the server says nothing any more.
func TestSignalInSilence(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	server.Do(t, "SET", "held", "x")
	for _, args := range []string{"run held -- true", "run held other -- true", "run --limit 2 held -- true", "acquire held", "wait held"} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
			t.Run(args+" "+sig.String(), func(t *testing.T) {
				t.Parallel()
				proxy := env.NewProxy(t, server.Addr())
				args := strings.Fields(args)
				p := begin(t, url(proxy.Addr()), args...)
				time.Sleep(time.Second)
				proxy.BlackHole(true)
				time.Sleep(time.Second)
				p.signal(sig)
				start := time.Now()
				require.Equal(t, 128+int(sig), p.code())
				t.Log(time.Since(start))
			})
		}
	}
}
func TestPatienceInSilence(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	server.Do(t, "SET", "held", "x")
	for _, args := range []string{"run -w 3s -E 0 held -- true", "run -w 3s -E 0 held other -- true", "run -w 3s -E 0 --limit 2 free -- true", "acquire -w 3s held", "wait -w 3s held"} {
		for _, when := range []time.Duration{0, time.Second, 2900*time.Millisecond, time.Hour}{
			t.Run(args+when.String(), func(t *testing.T) {
				t.Parallel()
				proxy := env.NewProxy(t, server.Addr())
				args := strings.Fields(args)
				if when == 0 { proxy.BlackHole(true) } else {time.AfterFunc(when, func(){proxy.BlackHole(true)}) }
				start := time.Now()
				p := begin(t, url(proxy.Addr()), args...)
				p.code()
				t.Log(time.Since(start), p.cmd.ProcessState.ExitCode(), p.stderr)
			})
		}
	}
}
