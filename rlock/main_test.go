package rlock_test

import (
	"testing"

	"go.uber.org/goleak"
)

// No goroutine outlives the tests: neither one of the package nor one of a client
// that it was given.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
