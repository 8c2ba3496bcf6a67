package failure

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// counting counts the connections that are open.
type counting struct{ open atomic.Int32 }

type counted struct {
	net.Conn
	closed sync.Once
	by     *counting
}

func (c *counting) dial(ctx context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn,
	error) {
	conn, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c.open.Add(1)
	return &counted{Conn: conn, by: c}, nil
}

func (c *counted) Close() error {
	c.closed.Do(func() { c.by.open.Add(-1) })
	return c.Conn.Close()
}

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

func (d *slowDialer) dial(_ context.Context, address string, dialer *net.Dialer, _ *tls.Config) (net.Conn,
	error) {
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
func stayAway(t *testing.T, server *env.Server, name string) {
	t.Helper()
	require.Eventually(t, func() bool { return server.Connections(t, name) == 0 },
		5*time.Second, 10*time.Millisecond, "a connection was left")
	for start := time.Now(); time.Since(start) < time.Second; time.Sleep(50 * time.Millisecond) {
		require.Zero(t, server.Connections(t, name), "a connection came")
	}
}

// A cluster client dials all addresses at once and starts with the first that
// answers. If it cannot, the others may still be on their way.
func TestFailedOpenLeavesNoConnection(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
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
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		proxy := env.NewProxy(t, server.Addr())
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
		env.Receive(t, d.dialled)
		locker.Close()
		close(d.arrive)
		require.Error(t, env.Receive(t, ended))
		stayAway(t, server, "leaver")
	})
}

// When Close returns, no connection is left, though rueidis closes those of a cluster in
// the background, and waits a second for each that a silent server has.
func TestCloseLeavesNoConnection(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server, cluster := e.Start(t), e.StartCluster(t)
		proxy := env.NewProxy(t, server.Addr())
		for name, test := range map[string]struct {
			addresses []string
			before    func()
		}{
			"server":  {[]string{server.Addr()}, func() {}},
			"cluster": {cluster.Addrs(), func() {}},
			"silent":  {[]string{proxy.Addr()}, func() { proxy.BlackHole(true) }},
		} {
			t.Run(name, func(t *testing.T) {
				var c counting
				locker, err := rlock.Open(rueidis.ClientOption{
					InitAddress:       test.addresses,
					DialCtxFn:         c.dial,
					PipelineMultiplex: 3,                // eight connections
					ConnWriteTimeout:  10 * time.Second, // a busy machine may take longer than Open allows
				})
				require.NoError(t, err)
				for i := range 100 {
					_, err := locker.TryAcquire(t.Context(), fmt.Sprint(name, i))
					require.NoError(t, err)
				}
				require.Greater(t, c.open.Load(), int32(3))
				test.before()
				start := time.Now()
				locker.Close()
				require.Zero(t, c.open.Load())
				require.Less(t, time.Since(start), 5*time.Second)
			})
		}
	})
}
