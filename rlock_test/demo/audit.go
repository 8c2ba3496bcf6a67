package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

// audit prints what the generator has found out about the scripts. It needs Go, and the directory of the
// sources.
func audit(ctx context.Context, stdout io.Writer) error {
	const module = "github.com/rlock-go/toolkit"
	dir, err := exec.CommandContext(ctx, "go", "list", "-m", "-f", "{{.Dir}}", module).Output()
	if err != nil {
		return fmt.Errorf("audit: -v works where go and the sources are: %w", err)
	}
	run := exec.CommandContext(ctx, "go", "run", module+"/generator/redislua", "-audit")
	run.Dir, run.Stdout, run.Stderr = strings.TrimSpace(string(dir)), stdout, os.Stderr
	if err := run.Run(); err != nil {
		return fmt.Errorf("audit: %w", err)
	}
	_, err = fmt.Fprintln(stdout)
	return err
}
