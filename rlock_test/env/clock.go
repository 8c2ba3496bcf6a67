package env

import (
	_ "embed"
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

//go:embed testdata/clock.c
var clockSource []byte

// Clock is the wall clock of one server.
type Clock struct {
	tb   testing.TB
	file string
}

// StartWithClock is Start with a wall clock that the test can step. It needs Linux and a C compiler: "cc", or
// the compiler in the environment variable CC.
func (e Engine) StartWithClock(tb testing.TB, args ...string) (*Server, *Clock) {
	tb.Helper()
	dir := tb.TempDir()
	source, library := filepath.Join(dir, "clock.c"), filepath.Join(dir, "clock.so")
	if err := os.WriteFile(source, clockSource, 0o600); err != nil {
		tb.Fatal(err)
	}
	compiler := os.Getenv("CC")
	if compiler == "" {
		compiler = "cc"
	}
	if out, err := exec.CommandContext(tb.Context(), compiler, "-shared", "-fPIC", "-O2", "-o", library,
		source).CombinedOutput(); err != nil {
		tb.Fatalf("compile the server's clock (make setup installs a C compiler): %v\n%s", err, out)
	}
	c := &Clock{tb: tb, file: filepath.Join(dir, "shift")}
	c.Shift(0)
	e.env = append(e.env, "LD_PRELOAD="+library, "RLOCK_CLOCK="+c.file)
	return e.Start(tb, args...), c
}

// Shift sets the difference between the server's clock and the machine's clock to d. A negative d puts the
// server's clock behind.
func (c *Clock) Shift(d time.Duration) {
	c.tb.Helper()
	// Write in place, because the server has mapped the file.
	f, err := os.OpenFile(c.file, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		c.tb.Fatal(err)
	}
	defer f.Close()
	if err := binary.Write(f, binary.NativeEndian, d.Microseconds()); err != nil {
		c.tb.Fatal(err)
	}
}
