package env

import "testing"

// LongReason is how a test that Long skips says why.
const LongReason = "left to make test-all, as it takes long"

// Long leaves a test that takes long, or much of the processor, to make test-all: it
// skips tb where go test was told -short, as make test tells it.
func Long(tb testing.TB) {
	tb.Helper()
	if testing.Short() {
		tb.Skip(LongReason)
	}
}
