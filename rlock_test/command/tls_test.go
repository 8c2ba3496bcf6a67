//go:build unix

package command

import (
	"strings"
	"testing"

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
		code, stdout, stderr := secure("rediss://"+address, "run", "--limit", "2", "job", "--", binary, "who", "job")
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
			"no authority":  {"rediss://" + address, func(url string, args ...string) (int, string, string) { return call(t, url, args...) }, "SSL_CERT_FILE names certificate authorities"},
			"another name":  {"rediss://localhost:" + port, secure, "x509: "},
			"no encryption": {"redis://" + address, secure, "the URL begins with rediss://"},
		} {
			code, stdout, stderr := c.call(c.url, "run", "job", "--", "true")
			require.Equal(t, 125, code, name)
			require.Empty(t, stdout, name)
			require.Contains(t, stderr, c.says, name)
		}
		plain := e.Start(t)
		code, _, stderr = secure("rediss://"+plain.Addr(), "run", "job", "--", "true")
		require.Equal(t, 125, code)
		require.Contains(t, stderr, "the URL begins with redis://")
		code, _, stderr = secure("rediss://localhost:"+port+"?skip_verify=true", "run", "job", "--", "true")
		require.Zero(t, code, stderr)
	})
}
