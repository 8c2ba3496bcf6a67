package rlock_test

import (
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// programs are what the test binary is instead, given the address of a server in one
// of these environment variables.
var programs = map[string]func(address string) error{
	competitor: compete,
	sleeper:    oversleep,
	victim:     holdForEver,
	strict:     lockStrictly,
	crowder:    crowd,
}

// No goroutine outlives the tests: neither one of the package nor one of a client
// that it was given.
func TestMain(m *testing.M) {
	for variable, program := range programs {
		if address := os.Getenv(variable); address != "" {
			if err := program(address); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	goleak.VerifyTestMain(m,
		// rueidis sleeps for up to a second before it asks a cluster for its nodes, and for
		// five before it closes the connections of a node that has left. Neither can be
		// told that the client was closed.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}
