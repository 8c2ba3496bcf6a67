package wire

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"strings"
	"syscall"

	"github.com/redis/rueidis"
)

// Advice says what to do about an error of the server or of a connection to it. It returns "" if that is
// not known. No other code gives advice.
func Advice(err error) string {
	if err == nil || contextEnded(err) {
		return ""
	}
	if Forbidden(err) { // a server has other words for a command in a script
		return codes["NOPERM"]
	}
	var (
		server *rueidis.RedisError
		backed *BackendError
	)
	switch {
	case errors.As(err, &backed): // the protocol of the backend is not known here
		return ""
	case !errors.As(err, &server):
		return connectionAdvice(err)
	}
	said := server.Error()
	code, _, _ := strings.Cut(said, " ")
	if do := codes[code]; do != "" {
		return do
	}
	return inWords(said)
}

// codes says what to do about an error of the server, by its first word.
var codes = map[string]string{
	"NOPERM": "give the user the rights that docs/PRODUCTION.md lists, and the further rights for readers " +
		"and permits; Locker.Probe, or rlock probe --prefix, names the missing rights for keys with that prefix",
	"NOAUTH":    noPassword,
	"WRONGPASS": wrongPassword,
	"DENIED":    "the server is in protected mode, so it serves its own host only; give it a password",
	"WRONGTYPE": "the key, or a key that rlock keeps beside it, stores something else; " +
		"choose another key, or a prefix",
	"READONLY":    "the server is a replica; connect to the primary, or use Sentinel or Cluster, which find it",
	"OOM":         "the server's memory is full; free some of it, or raise maxmemory",
	"MISCONF":     "the server cannot write its data to disk; its log says why",
	"NOREPLICAS":  "too few replicas are connected to the server for its min-replicas-to-write",
	"LOADING":     "the server has just started; try again soon",
	"CLUSTERDOWN": "no node of the cluster serves the key; see CLUSTER INFO",
	"MASTERDOWN":  "the server is a replica without its primary; see INFO replication",
	"BUSY":        "a script keeps the server busy; SCRIPT KILL ends a script that has written nothing",
	"TRYAGAIN":    "the slot of the key moves to another node; try again soon",
	"MOVED":       "the server is a node of a cluster; build the client without ForceSingleClient",
}

const (
	noPassword    = "the server wants a password; give the client the user and the password"
	wrongPassword = "the user or the password is wrong, the user is disabled, or the password was changed; " +
		"with AuthCredentialsFn, a running client takes the new password"
)

// inWords is Advice for an error without a code of its own. The more special words come first.
func inWords(said string) string {
	said = strings.ToLower(strings.NewReplacer("`", "'").Replace(said))
	for _, known := range [...]struct{ words, do string }{
		{"unknown command 'eval", "the server runs no Lua scripts, and locks need them. If it is a sentinel, set " +
			"Sentinel.MasterSet (in a URL master_set), which leads to the primary. Otherwise a proxy or " +
			"rename-command has removed EVALSHA and EVAL; locks need both under these names"},
		{"unknown command 'cluster", "several addresses must belong to one cluster, or to sentinels; for " +
			"sentinels, set Sentinel.MasterSet (in a URL master_set) to the name that they watch"},
		{"called from script", missing},
		{"unknown command", missing},
		{"no such master with that name", "the sentinels watch no primary of that name; set Sentinel.MasterSet " +
			"(in a URL master_set) to a name that SENTINEL MASTERS lists"},
		{"max number of clients reached", fullHouse},
		{"invalid password", wrongPassword},
		{"without any password configured", "the server has no password; leave it out"},
		{"no password is set", "the server has no password; leave it out"},
		{"db index is out of range", "the server has no database of that number; a cluster has only 0"},
	} {
		if strings.Contains(said, known.words) {
			return known.do
		}
	}
	return ""
}

const (
	missing = "the server has no such command: rename-command in its configuration, or a proxy, has removed " +
		"it, or its version is too old; locks need the commands under Rights in docs/PRODUCTION.md, not " +
		"renamed"
	fullHouse = "raise maxclients, or see with CLIENT LIST which clients have so many connections"
)

// connectionAdvice is Advice for an error that no server has sent.
func connectionAdvice(err error) string {
	var (
		dns    *net.DNSError
		plain  tls.RecordHeaderError
		verify *tls.CertificateVerificationError
		op     *net.OpError
	)
	switch {
	case errors.Is(err, rueidis.ErrNoCache):
		return "set DisableCache, or allow HELLO 3 and CLIENT TRACKING at the server and for its user"
	case errors.As(err, &dns):
		return "see whether the host's name is right"
	case errors.As(err, &plain):
		return "the server speaks no TLS at that port; leave TLSConfig out (in a URL redis:// instead of rediss://)"
	case errors.As(err, &verify):
		return "put the signer of the server's certificate in TLSConfig.RootCAs, or in SSL_CERT_FILE, and " +
			"connect to a name that is in the certificate"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "nothing listens there; see whether the server runs, and at which address and port"
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "the server or a proxy closes the connection. Perhaps the server has ended, has reached its " +
			"maxclients (see INFO clients and stats), or speaks only TLS. Or a proxy has no server behind it, or " +
			"knows no HELLO; then try AlwaysRESP2 with DisableCache"
	case errors.As(err, &op) && op.Op == "dial" && op.Timeout():
		return "nothing answers there; see the address, the network and its firewalls"
	case strings.Contains(err.Error(), "received unknown message type"):
		return "the server at that address is no Redis, or speaks only TLS"
	}
	return ""
}
