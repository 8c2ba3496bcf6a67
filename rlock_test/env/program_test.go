package env_test

import (
	"bufio"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

const echo = "BED_TEST_ECHO"

func TestMain(m *testing.M) {
	prefix := os.Getenv(echo)
	if prefix == "" {
		os.Exit(m.Run())
	}
	in := bufio.NewScanner(os.Stdin)
	for in.Scan() && in.Text() != "end" {
		fmt.Println(prefix + in.Text())
	}
}

func TestReexec(t *testing.T) {
	p := env.Reexec(t, echo+"=it says ")
	p.Send("one")
	p.Send("two")
	require.Equal(t, "it says one", p.Line())
	require.Equal(t, "it says two", p.Line())

	p.Stop()
	p.Send("three")
	select {
	case line := <-p.Lines():
		require.Fail(t, line)
	case <-time.After(quiet):
	}
	p.Cont()
	require.Equal(t, "it says three", p.Line())

	p.Send("end")
	p.Wait()
	_, more := <-p.Lines()
	require.False(t, more)

	require.Contains(t, fatal(t, func(tb testing.TB) {
		killed := env.Reexec(tb, echo+"=")
		killed.Kill()
		killed.Kill()
		killed.Line()
	}), "ended")
}
