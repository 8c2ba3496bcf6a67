package env

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
	"strconv"
	"testing"
	"time"
)

// StartWithTLS starts a server as Start does. It returns the address for TLS, and the file of the authority
// that has signed the server's certificate. The certificate is for 127.0.0.1.
func (e Engine) StartWithTLS(tb testing.TB) (address, authority string) {
	tb.Helper()
	dir := tb.TempDir()
	ca := Certificate(tb, dir, "ca", nil)
	Certificate(tb, dir, "server", ca)
	authority = filepath.Join(dir, "ca.crt")
	server := e.Start(tb,
		"--tls-cert-file", filepath.Join(dir, "server.crt"), "--tls-key-file", filepath.Join(dir, "server.key"),
		"--tls-ca-cert-file", authority, "--tls-auth-clients", "no")
	var err error
	for range startTries {
		var port int
		if port, err = freePort(); err != nil {
			break
		}
		set := server.control.B().Arbitrary("CONFIG", "SET", "tls-port", strconv.Itoa(port)).Build()
		if err = server.control.Do(tb.Context(), set).Error(); err == nil {
			return net.JoinHostPort(host, strconv.Itoa(port)), authority
		}
	}
	tb.Fatal("no port for TLS: ", err)
	return "", ""
}

// Certificate makes a key pair with this name for 127.0.0.1, signed by issuer. Without an issuer, it makes an
// authority that signs itself. Certificate writes name.crt and name.key into dir, as PEM.
func Certificate(tb testing.TB, dir, name string, issuer *tls.Certificate) *tls.Certificate {
	tb.Helper()
	made, err := certificate(dir, name, issuer)
	if err != nil {
		tb.Fatal(err)
	}
	return made
}

func certificate(dir, name string, issuer *tls.Certificate) (*tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
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
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	for file, block := range map[string]*pem.Block{
		name + ".crt": {Type: "CERTIFICATE", Bytes: der},
		name + ".key": {Type: "PRIVATE KEY", Bytes: secret},
	} {
		if err := os.WriteFile(filepath.Join(dir, file), pem.EncodeToMemory(block), 0o600); err != nil {
			return nil, err
		}
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}, nil
}
