package env

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Programs are the programs that a test binary can run in place of its tests. The key of a program is an
// environment variable. Reexec starts the test binary with this variable set to the address of a server.
type Programs map[string]func(address string) error

// Main is the TestMain of a package of tests. It runs one of the programs if its variable is set, and
// otherwise the tests. After the tests no goroutine may be left, of rlock or of a client of the tests.
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
		// rueidis sleeps for up to a second before it asks a cluster for its nodes. It sleeps for five
		// seconds before it closes the connections of a node that has left. Neither sleep ends when the
		// client closes.
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*call).DelayDo.func1"),
		goleak.IgnoreAnyFunction("github.com/redis/rueidis.(*clusterClient)._refresh.func2"))
}

// patient are tests that end with a pause. The pause is the time that a call in the background of a Locker
// may take if the server does not answer: 2 seconds.
type patient struct{ *testing.M }

func (p patient) Run() int {
	code := p.M.Run()
	time.Sleep(2500 * time.Millisecond)
	return code
}
