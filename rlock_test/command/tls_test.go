//go:build unix

package command

import (
	"crypto/tls"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// With rediss:// the whole way is encrypted, and the server must have a certificate of a known authority.
func TestTLS(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		address, authority := e.StartWithTLS(t)
		secure := func(url string, args ...string) (int, string, string) {
			cmd := command(url, args...)
			cmd.Env = append(cmd.Env, "SSL_CERT_FILE="+authority, "SSL_CERT_DIR=")
			p := beginCommand(t, cmd)
			code := p.code()
			return code, p.stdout.String(), p.stderr.String()
		}
		code, stdout, stderr := secure("rediss://"+address, "run", "--limit", "2", "job", "--", binary, "who",
			"job")
		require.Zero(t, code, stderr)
		require.Contains(t, stdout, "1 of 2 permits")
		code, stdout, stderr = secure("rediss://"+address, "probe")
		require.Zero(t, code, stdout+stderr)

		_, port, _ := strings.Cut(address, ":")
		for name, c := range map[string]struct {
			url  string
			call func(url string, args ...string) (int, string, string)
			says string
		}{
			"no authority": {"rediss://" + address,
				func(url string, args ...string) (int, string,
					string) {
					return call(t, url, args...)
				}, "signer of the server's certificate"},
			"another name":  {"rediss://localhost:" + port, secure, "x509: "},
			"no encryption": {"redis://" + address, secure, "speaks only TLS"},
		} {
			code, stdout, stderr := c.call(c.url, "run", "-n", "job", "--", "true")
			require.Equal(t, 125, code, name)
			require.Empty(t, stdout, name)
			require.Contains(t, stderr, c.says, name)
		}
		plain := e.Start(t)
		code, _, stderr = secure("rediss://"+plain.Addr(), "run", "-n", "job", "--", "true")
		require.Equal(t, 125, code)
		require.Contains(t, stderr, "use redis:// in the URL")
		code, _, stderr = secure("rediss://localhost:"+port+"?skip_verify=true", "run", "job", "--", "true")
		require.Zero(t, code, stderr)
	})
}

// A server that asks for a certificate, as Redis does by default, gets one.
func TestClientCertificate(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		address, authority := e.StartWithTLS(t)
		dir := filepath.Dir(authority)
		with := func(files map[string]string, args ...string) (int, string) {
			cmd := command("rediss://"+address, args...)
			for name, file := range files {
				cmd.Env = append(cmd.Env, "RLOCK_TLS_"+name+"="+filepath.Join(dir, file))
			}
			p := beginCommand(t, cmd)
			code := p.code()
			return code, p.stderr.String()
		}
		only := map[string]string{"CA": "ca.crt"}
		both := map[string]string{"CA": "ca.crt", "CERT": "server.crt", "KEY": "server.key"}
		code, stderr := with(only, "run", "job", "--", "true")
		require.Zero(t, code, stderr)
		admin, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress: []string{address}, TLSConfig: &tls.Config{InsecureSkipVerify: true},
		})
		require.NoError(t, err)
		defer admin.Close()
		set := admin.B().ConfigSet().ParameterValue().ParameterValue("tls-auth-clients", "yes").Build()
		require.NoError(t, admin.Do(t.Context(), set).Error())
		code, stderr = with(both, "run", "job", "--", "true")
		require.Zero(t, code, stderr)
		code, stderr = with(only, "run", "job", "--", "true")
		require.Equal(t, 125, code)
		require.Contains(t, stderr, "the server demands a certificate: set RLOCK_TLS_CERT and RLOCK_TLS_KEY")
		require.NotContains(t, stderr, "waiting")
		env.Certificate(t, dir, "stranger", nil)
		stranger := map[string]string{"CA": "ca.crt", "CERT": "stranger.crt", "KEY": "stranger.key"}
		code, stderr = with(stranger, "run", "job", "--", "true")
		require.Equal(t, 125, code)
		require.Contains(t, stderr, "does not accept the certificate of RLOCK_TLS_CERT")
	})
}
