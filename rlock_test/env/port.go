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

	// The tests of so many packages, whose processes have numbers near each other, draw different ports.
	processes = 32
)

// drawn are the ports that this process has drawn, and the order in which it did. Those of dead servers
// are not drawn again as long as there are others, and then the oldest first, nor by other processes: a
// client that a test has left without its server must not reach that of another test.
var drawn = struct {
	sync.Mutex
	ports map[int]bool
	order []int
}{ports: map[int]bool{}}

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
			port := firstPort + rand.IntN((last-firstPort)/processes)*processes + os.Getpid()%processes
			free := !drawn.ports[port]
			for _, offset := range offsets {
				free = free && isFree(port+offset)
			}
			if free {
				drawn.ports[port] = true
				drawn.order = append(drawn.order, port)
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
