package rlock_test

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// slowDialer hands over a connection only when it is told to, whatever the caller
// of the dial thinks by then.
type slowDialer struct {
	slow    func(address string) bool
	dialled chan struct{} // closed by the first slow dial
	arrive  chan struct{} // closed when slow dials may end
	seen    atomic.Bool
}

func newSlowDialer(slow func(address string) bool) *slowDialer {
	return &slowDialer{slow: slow, dialled: make(chan struct{}), arrive: make(chan struct{})}
}

func (d *slowDialer) dial(_ context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
	if d.slow(address) {
		if d.seen.CompareAndSwap(false, true) {
			close(d.dialled)
		}
		<-d.arrive
	}
	return dialer.Dial("tcp", address)
}

// stayAway fails unless the connections of that name go, and none comes later. What
// was closed before may be in the server's next list still.
func stayAway(t *testing.T, server *bed.Server, name string) {
	t.Helper()
	require.Eventually(t, func() bool { return connections(t, server, name) == 0 },
		5*time.Second, 10*time.Millisecond, "a connection was left")
	for start := time.Now(); time.Since(start) < time.Second; time.Sleep(50 * time.Millisecond) {
		require.Zero(t, connections(t, server, name), "a connection came")
	}
}

// A cluster client dials all addresses at once and starts with the first that
// answers. If it cannot, the others may still be on their way.
func TestFailedOpenLeavesNoConnection(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		quick, slow := e.Start(t), e.Start(t)
		d := newSlowDialer(func(address string) bool { return address == slow.Addr() })
		_, err := rlock.Open(rueidis.ClientOption{
			InitAddress: []string{quick.Addr(), slow.Addr()},
			ClientName:  "leaver",
			DialCtxFn:   d.dial,
		})
		require.Error(t, err, "two servers that are no cluster")
		close(d.arrive)
		stayAway(t, slow, "leaver")
		stayAway(t, quick, "leaver")
	})
}

// A client that reconnects while it is closed.
func TestCloseDuringADialLeavesNoConnection(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		server := e.Start(t)
		proxy := bed.NewProxy(t, server.Addr())
		var lost atomic.Bool
		d := newSlowDialer(func(string) bool { return lost.Load() })
		locker, err := rlock.Open(rueidis.ClientOption{
			InitAddress: []string{proxy.Addr()},
			ClientName:  "leaver",
			DialCtxFn:   d.dial,
		})
		require.NoError(t, err)
		lost.Store(true)
		proxy.Cut()
		ended := make(chan error, 1)
		go func() {
			_, err := locker.TryAcquire(t.Context(), "job")
			ended <- err
		}()
		<-d.dialled
		locker.Close()
		close(d.arrive)
		require.Error(t, <-ended)
		stayAway(t, server, "leaver")
	})
}

// When Close returns, a cluster has no connection of the Locker either, though
// rueidis closes those in the background.
func TestCloseLeavesNoConnection(t *testing.T) {
	t.Parallel()
	bed.Each(t, func(t *testing.T, e bed.Engine) {
		cluster := e.StartCluster(t)
		locker, err := rlock.Open(rueidis.ClientOption{InitAddress: cluster.Addrs(), ClientName: "leaver"})
		require.NoError(t, err)
		for _, key := range []string{"a", "b", "c", "d"} {
			_, err := locker.TryAcquire(t.Context(), key)
			require.NoError(t, err)
		}
		locker.Close()
		for _, server := range cluster.Nodes {
			stayAway(t, server, "leaver")
		}
	})
}

// What an option says about dialling holds for a Locker's own client too.
func TestOpenDialsAsTold(t *testing.T) {
	t.Parallel()
	for _, delay := range []bool{false, true} {
		server := bed.Engines(t)[0].Start(t)
		option := server.Option()
		var dialled atomic.Pointer[net.TCPConn]
		option.DialFn = func(address string, dialer *net.Dialer, _ *tls.Config) (net.Conn, error) {
			conn, err := dialer.Dial("tcp", address)
			if err == nil {
				dialled.Store(conn.(*net.TCPConn))
			}
			return conn, err
		}
		option.DisableTCPNoDelay = delay
		locker := openLocker(t, option)
		_, err := locker.TryAcquire(t.Context(), "job")
		require.NoError(t, err)
		raw, err := dialled.Load().SyscallConn()
		require.NoError(t, err)
		require.NoError(t, raw.Control(func(fd uintptr) {
			noDelay, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, syscall.TCP_NODELAY)
			require.NoError(t, err)
			require.Equal(t, delay, noDelay == 0)
		}))
	}
}
