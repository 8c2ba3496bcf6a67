package bed

import (
	"errors"
	"net"
	"strconv"
)

const (
	host      = "127.0.0.1"
	busOffset = 10000
	maxPort   = 65535
	busTries  = 200
)

var errNoBusPort = errors.New("no free port with a free cluster bus port")

// freePort returns a port that was free a moment ago. Another process may
// take it first, so the caller has to be ready to try again.
func freePort() (int, error) {
	l, err := net.Listen("tcp4", address(0))
	if err != nil {
		return 0, err
	}
	port := l.Addr().(*net.TCPAddr).Port
	return port, l.Close()
}

// freeClusterPort is freePort for a cluster node, whose bus listens at a
// fixed offset from its port unless the server is new enough to be told
// otherwise.
func freeClusterPort() (int, error) {
	for range busTries {
		port, err := freePort()
		if err != nil {
			return 0, err
		}
		if port+busOffset > maxPort {
			continue
		}
		if l, err := net.Listen("tcp4", address(port+busOffset)); err == nil {
			return port, l.Close()
		}
	}
	return 0, errNoBusPort
}

func address(port int) string {
	return net.JoinHostPort(host, strconv.Itoa(port))
}
