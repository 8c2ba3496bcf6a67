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

	// These ports are below those that the system gives to outgoing connections. So a server that starts
	// again finds its port free. A client that dials a dead server does not reach itself.
	firstPort   = 10000
	lastPort    = 32000
	lastBusPort = lastPort - busOffset

	// The tests of so many packages draw different ports at the same time. The offset of a bus is a multiple
	// of processes, so the port of a bus belongs to the same process.
	processes = 25

	// A process listens on one of the ports from here to firstPort, and so keeps its place from other
	// processes. No client dials these ports.
	firstClaim = firstPort - processes
)

// drawn are the ports that this process has drawn, in their order. A test may leave a client without its
// server, and this client must not reach the server of another test. So the process draws the ports of dead
// servers again only when it finds no others, the oldest first. A process with another place does not draw
// them.
var drawn = struct {
	sync.Mutex
	ports map[int]bool
	order []int
}{ports: map[int]bool{}}

// place says which share of the ports a process draws. Its listener keeps the place from other processes
// until the process ends. The runtime would close a listener without a reference.
type place struct {
	number   int
	listener net.Listener
}

var claimed = sync.OnceValue(claim)

// claim returns a place that no other process has. If more processes run than there are places, some
// processes share a place, and listener is nil.
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

// freePort returns a port that was free a moment ago. Another process may take the port first, so the caller
// must be ready to try again.
func freePort() (int, error) { return drawPort(lastPort, 0) }

// freeClusterPort is freePort for a node of a cluster. The bus of the node listens at a fixed offset from its
// port. Only newer servers can change the offset.
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
		// The process has drawn nearly all ports. Clients have long left the servers of the older half.
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
