package topology

import (
	"crypto/tls"
	"crypto/x509"
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Locks work over TLS, with push, and not with a server that another authority vouches
// for, or nobody, or that has the certificate of another name.
func TestTLS(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		address, authority := e.StartWithTLS(t)
		text, err := os.ReadFile(authority)
		require.NoError(t, err)
		pool := x509.NewCertPool()
		require.True(t, pool.AppendCertsFromPEM(text))
		trusting := rueidis.ClientOption{InitAddress: []string{address}, TLSConfig: &tls.Config{RootCAs: pool}}
		holder, err := rlock.Open(trusting)
		require.NoError(t, err)
		t.Cleanup(holder.Close)
		waiter, err := rlock.Open(trusting)
		require.NoError(t, err)
		t.Cleanup(waiter.Close)

		lock, err := holder.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
		require.NoError(t, err)
		time.AfterFunc(100*time.Millisecond, func() { lock.Release(t.Context()) })
		next, err := waiter.Acquire(t.Context(), "job")
		require.NoError(t, err)
		require.Greater(t, next.Fence(), lock.Fence())
		require.NoError(t, next.Release(t.Context()))

		refused := func(config *tls.Config, as any) {
			t.Helper()
			_, err := rlock.Open(rueidis.ClientOption{InitAddress: []string{address}, TLSConfig: config})
			require.ErrorAs(t, err, as)
		}
		others := x509.NewCertPool()
		others.AddCert(env.Certificate(t, t.TempDir(), "ca", nil).Leaf)
		refused(&tls.Config{RootCAs: others}, new(x509.UnknownAuthorityError))
		refused(&tls.Config{RootCAs: pool, ServerName: "elsewhere.example"}, new(x509.HostnameError))
		refused(&tls.Config{}, new(x509.UnknownAuthorityError))
		_, err = rlock.Open(rueidis.ClientOption{InitAddress: []string{address}})
		require.Error(t, err, "nothing is said in plain text")
	})
}
