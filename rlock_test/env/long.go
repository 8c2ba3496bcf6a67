package env

import "testing"

// LongReason is the reason that a test skipped by Long gives.
const LongReason = "left to make test-all, as it takes long"

// Long leaves a test that takes long, or much of the processor, to make test-all. It skips tb if go test runs
// with -short, as in make test.
func Long(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip(LongReason)
	}
}
