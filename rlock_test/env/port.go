package env

import (
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
)

const (
	host      = "127.0.0.1"
	busOffset = 10000
	portTries = 200

	// Ports below those that the system lends to outgoing connections: a server that is
	// started again finds its port free, and a client that dials a dead one does not
	// reach itself.
	firstPort   = 10000
	lastPort    = 32000
	lastBusPort = lastPort - busOffset

	// The tests of so many packages draw different ports at the same time. The offset of a bus is a
	// multiple of it, so that a bus has a port of its process too.
	processes = 25

	// A process listens on one of the ports from here to firstPort, which nobody dials: so it keeps its
	// place among the processes to itself.
	firstClaim = firstPort - processes
)

// drawn are the ports that this process has drawn, and the order in which it did. Those of dead servers
// are not drawn again as long as there are others, and then the oldest first, nor by other processes: a
// client that a test has left without its server must not reach that of another test.
var drawn = struct {
	sync.Mutex
	ports map[int]bool
	order []int
}{ports: map[int]bool{}}

// place is which of so many ports a process draws. Its listener keeps the place from other processes until
// the process ends: a listener that nobody refers to would be closed.
type place struct {
	number   int
	listener net.Listener
}

var claimed = sync.OnceValue(claim)

// claim returns a place that no other process has. Where more processes run than there are places, some
// share theirs, and listener is nil.
func claim() place {
	for i := range processes {
		number := (os.Getpid() + i) % processes
		if l, err := net.Listen("tcp4", address(firstClaim+number)); err == nil {
			return place{number: number, listener: l}
		}
	}
	return place{number: os.Getpid() % processes}
}

var errNoPort = errors.New("no free port on the loopback interface")

// freePort returns a port that was free a moment ago. Another process may
// take it first, so the caller has to be ready to try again.
func freePort() (int, error) { return drawPort(lastPort, 0) }

// freeClusterPort is freePort for a cluster node, whose bus listens at a
// fixed offset from its port unless the server is new enough to be told
// otherwise.
func freeClusterPort() (int, error) { return drawPort(lastBusPort, 0, busOffset) }

func drawPort(last int, offsets ...int) (int, error) {
	drawn.Lock()
	defer drawn.Unlock()
	for range 2 {
		for range portTries {
			port := firstPort + rand.IntN((last-firstPort)/processes)*processes + claimed().number
			free := !slices.ContainsFunc(offsets, func(offset int) bool {
				return drawn.ports[port+offset] || !isFree(port+offset)
			})
			if free {
				for _, offset := range offsets {
					drawn.ports[port+offset] = true
					drawn.order = append(drawn.order, port+offset)
				}
				return port, nil
			}
		}
		// Nearly all have been drawn. The servers of the older half have long been left by their clients.
		half := len(drawn.order) / 2
		for _, port := range drawn.order[:half] {
			delete(drawn.ports, port)
		}
		drawn.order = slices.Clone(drawn.order[half:])
	}
	return 0, errNoPort
}

func isFree(port int) bool {
	l, err := net.Listen("tcp4", address(port))
	return err == nil && l.Close() == nil
}

func address(port int) string {
	return net.JoinHostPort(host, strconv.Itoa(port))
}
