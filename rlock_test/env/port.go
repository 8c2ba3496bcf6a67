package env

import (
	"errors"
	"math/rand/v2"
	"net"
	"strconv"
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
)

var errNoPort = errors.New("no free port on the loopback interface")

// freePort returns a port that was free a moment ago. Another process may
// take it first, so the caller has to be ready to try again.
func freePort() (int, error) { return drawPort(lastPort, 0) }

// freeClusterPort is freePort for a cluster node, whose bus listens at a
// fixed offset from its port unless the server is new enough to be told
// otherwise.
func freeClusterPort() (int, error) { return drawPort(lastBusPort, 0, busOffset) }

func drawPort(last int, offsets ...int) (int, error) {
	for range portTries {
		port := firstPort + rand.IntN(last-firstPort)
		free := true
		for _, offset := range offsets {
			free = free && isFree(port+offset)
		}
		if free {
			return port, nil
		}
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
