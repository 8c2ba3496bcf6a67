package main

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/redis/rueidis"
)

// readPassword has each connection take the password from the file of RLOCK_PASSWORD_FILE, if that is set, so
// that a CMD that runs for long outlasts a new one.
func (c *connection) readPassword(getenv func(string) string) error {
	path, user := getenv("RLOCK_PASSWORD_FILE"), c.Username
	if path == "" {
		return nil
	}
	if c.Password != "" {
		return errors.New("the URL has a password, and RLOCK_PASSWORD_FILE names a file with a password; use " +
			"only one of them")
	}
	_, err := passwordIn(path)
	c.AuthCredentialsFn = func(rueidis.AuthCredentialsContext) (rueidis.AuthCredentials, error) {
		password, err := passwordIn(path)
		return rueidis.AuthCredentials{Username: user, Password: password}, err
	}
	return err
}

// passwordIn reads a file whose only line is a password.
func passwordIn(path string) (string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return "", fmt.Errorf("RLOCK_PASSWORD_FILE: %w", err)
	}
	password := strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case password == "":
		return "", fmt.Errorf("RLOCK_PASSWORD_FILE: %s is empty; its only line must be the password", quote(path))
	case strings.Contains(password, "\n"):
		return "", fmt.Errorf("RLOCK_PASSWORD_FILE: %s has several lines; its only line must be the password",
			quote(path))
	}
	return password, nil
}

// readCertificates has connections with TLS use the files of RLOCK_TLS_CERT, RLOCK_TLS_KEY and RLOCK_TLS_CA.
// Each connection reads the certificate anew, as it does the password.
func (c *connection) readCertificates(getenv func(string) string) error {
	cert, key, authority := getenv("RLOCK_TLS_CERT"), getenv("RLOCK_TLS_KEY"), getenv("RLOCK_TLS_CA")
	switch {
	case cert == "" != (key == ""):
		return errors.New("RLOCK_TLS_CERT and RLOCK_TLS_KEY belong together; set both, or none")
	case c.TLSConfig == nil && cert+authority != "":
		return errors.New("RLOCK_TLS_CERT, RLOCK_TLS_KEY and RLOCK_TLS_CA are for TLS; use a URL that begins " +
			"with rediss://")
	case c.TLSConfig == nil:
		return nil
	}
	if authority != "" {
		text, err := os.ReadFile(authority)
		if err != nil {
			return fmt.Errorf("RLOCK_TLS_CA: %w", err)
		}
		c.TLSConfig.RootCAs = x509.NewCertPool()
		if !c.TLSConfig.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("RLOCK_TLS_CA: %s has no certificate in PEM", quote(authority))
		}
	}
	c.certified = cert != ""
	own := func() (*tls.Certificate, error) {
		if !c.certified {
			return &tls.Certificate{}, nil // none is sent
		}
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("RLOCK_TLS_CERT and RLOCK_TLS_KEY: %w", err)
		}
		return &pair, nil
	}
	c.TLSConfig.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		c.asked.Store(true)
		return own()
	}
	_, err := own()
	return err
}
