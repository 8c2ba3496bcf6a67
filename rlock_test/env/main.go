package env

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Programs are what a test binary is in place of its tests when it is started by Reexec
// with one of these environment variables set, to the address of a server.
type Programs map[string]func(address string) error

// Main is the TestMain of a package of tests: it runs one of the programs if that is
// asked for, and otherwise the tests, after which no goroutine may be left, neither one
// of rlock nor one of a client that it was given.
func Main(m *testing.M, programs Programs) {
	for variable, program := range programs {
		if address := os.Getenv(variable); address != "" {
			if err := program(address); err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
			return
		}
	}
	goleak.VerifyTestMain(patient{m},
		// rueidis sleeps for up to a second before it asks a cluster for its nodes, and for
		// five before it closes the connections of a node that has left. Neither can be
		// told that the client was closed.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

// patient are tests after which the background of Lockers gets the time that a call of it may take:
// 2 seconds, where a server does not answer.
type patient struct{ *testing.M }

func (p patient) Run() int {
	code := p.M.Run()
	time.Sleep(2500 * time.Millisecond)
	return code
}
