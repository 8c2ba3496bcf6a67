package topology

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// certificate makes a key pair for name that issuer has signed, or a CA that has
// signed itself, and writes both into dir as PEM.
func certificate(t *testing.T, dir, name string, issuer *tls.Certificate) *tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()),
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	parent, signer := template, any(key)
	if issuer == nil {
		template.IsCA, template.BasicConstraintsValid, template.KeyUsage = true, true, x509.KeyUsageCertSign
	} else {
		parent, signer = issuer.Leaf, issuer.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	require.NoError(t, err)
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: der},
		name + ".key": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600))
	}
	leaf, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// Locks work over TLS, with push, and not with a server that another authority vouches
// for, or nobody, or that has the certificate of another name.
func TestTLS(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		dir := t.TempDir()
		ca := certificate(t, dir, "ca", nil)
		certificate(t, dir, "server", ca)
		server := e.Start(t,
			"--tls-cert-file", filepath.Join(dir, "server.crt"), "--tls-key-file", filepath.Join(dir, "server.key"),
			"--tls-ca-cert-file", filepath.Join(dir, "ca.crt"), "--tls-auth-clients", "no")
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		address := listener.Addr().String()
		require.NoError(t, listener.Close())
		_, port, err := net.SplitHostPort(address)
		require.NoError(t, err)
		server.Do(t, "CONFIG", "SET", "tls-port", port)

		pool := x509.NewCertPool()
		pool.AddCert(ca.Leaf)
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
		others.AddCert(certificate(t, t.TempDir(), "ca", nil).Leaf)
		refused(&tls.Config{RootCAs: others}, new(x509.UnknownAuthorityError))
		refused(&tls.Config{RootCAs: pool, ServerName: "elsewhere.example"}, new(x509.HostnameError))
		refused(&tls.Config{}, new(x509.UnknownAuthorityError))
		_, err = rlock.Open(rueidis.ClientOption{InitAddress: []string{address}})
		require.Error(t, err, "nothing is said in plain text")
	})
}
