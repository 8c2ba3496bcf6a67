//go:build unix

package runbook

import (
	"crypto/tls"
	"crypto/x509"
	"math/big"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Who runs on while passwords change is not refused: neither on the connections that are open, nor on those
// of AuthCredentialsFn that come later.
func TestPasswordsRotate(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		server.Do(t, "ACL", "SETUSER", "app", "reset", "on", ">old", "~*", "&*", "+@all")
		var present atomic.Value
		present.Store("old")
		option := server.Option()
		option.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
			return rueidis.AuthCredentials{Username: "app", Password: present.Load().(string)}, nil
		}
		proxy := env.NewProxy(t, server.Addr())
		option.InitAddress = []string{proxy.Addr()}
		locker := env.OpenLocker(t, option, rlock.WithTTL(10*time.Second), rlock.WithAutoExtend(true))
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		server.Do(t, "ACL", "SETUSER", "app", ">new")
		present.Store("new")
		server.Do(t, "ACL", "SETUSER", "app", "<old")
		require.NoError(t, lock.Extend(t.Context(), 20*time.Second), "open connections go on")
		proxy.Cut()
		require.NoError(t, lock.Extend(t.Context(), 30*time.Second), "new ones have the new password")
		require.NoError(t, lock.Release(t.Context()))
	})
}

// A server takes new certificates while it runs: new connections have them, and locks go on.
func TestCertificatesRotate(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		address, authority := e.StartWithTLS(t)
		dir := filepath.Dir(authority)
		pool := x509.NewCertPool()
		text, err := os.ReadFile(authority)
		require.NoError(t, err)
		require.True(t, pool.AppendCertsFromPEM(text))
		config := &tls.Config{RootCAs: pool}
		serial := func() *big.Int {
			conn, err := tls.Dial("tcp", address, config)
			require.NoError(t, err)
			defer conn.Close()
			return conn.ConnectionState().PeerCertificates[0].SerialNumber
		}
		option := rueidis.ClientOption{InitAddress: []string{address}, TLSConfig: config}
		locker := env.OpenLocker(t, option, rlock.WithTTL(10*time.Second), rlock.WithAutoExtend(true))
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		before := serial()
		ca, err := tls.LoadX509KeyPair(authority, filepath.Join(dir, "ca.key"))
		require.NoError(t, err)
		env.Certificate(t, dir, "server", &ca)
		require.NoError(t, env.Do(t, locker.Client(), "CONFIG", "SET",
			"tls-cert-file", filepath.Join(dir, "server.crt"), "tls-key-file",
			filepath.Join(dir, "server.key")).Error())
		require.NotEqual(t, before, serial())
		require.NoError(t, lock.Extend(t.Context(), 20*time.Second))
		require.NoError(t, lock.Release(t.Context()))
	})
}
