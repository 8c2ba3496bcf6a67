package rlock_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// No goroutine outlives the tests: neither one of the package nor one of a client
// that it was given.
func TestMain(m *testing.M) {
	if address := os.Getenv(competitor); address != "" {
		if err := compete(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if address := os.Getenv(sleeper); address != "" {
		if err := oversleep(address); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	// rueidis sleeps for up to a second before it asks a server for others, and cannot
	// be told that its client was closed.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"))
}
