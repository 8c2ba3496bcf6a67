//go:build tools

// Package toolkit pins the programs that the Makefile runs.
package toolkit

import (
	_ "golang.org/x/perf/cmd/benchstat"
	_ "golang.org/x/vuln/cmd/govulncheck"
	_ "honnef.co/go/tools/cmd/staticcheck"
)
