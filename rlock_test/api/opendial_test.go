//go:build unix

package api

import (
	"crypto/tls"
	"net"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// What an option says about dialling holds for a Locker's own client too.
func TestOpenDialsAsTold(t *testing.T) {
	t.Parallel()
	for _, delay := range []bool{false, true} {
		server := env.Engines(t)[0].Start(t)
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
		locker := env.OpenLocker(t, option)
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
