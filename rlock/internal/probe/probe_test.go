package probe_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock/internal/clock"
	"github.com/rlock-go/toolkit/rlock/internal/probe"
)

// replies of a server, by the start of the command. They are as the protocol has them; an
// empty one ends the connection.
type replies map[string]string

// healthy is a Redis 7 of which nothing is to be said.
var healthy = replies{
	"HELLO":            "%3\r\n+server\r\n+redis\r\n+version\r\n+7.0.15\r\n+proto\r\n:3\r\n",
	"CONFIG GET":       "%2\r\n+maxmemory\r\n+0\r\n+maxmemory-policy\r\n+noeviction\r\n",
	"INFO replication": bulk("# Replication\r\nrole:master\r\nconnected_slaves:0\r\n"),
	"MGET":             "*1\r\n+token\r\n",
	"PEXPIRE":          ":1\r\n",
	"":                 "+OK\r\n",
}

const denied = "-NOPERM this user has no permissions\r\n"

func bulk(text string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(text), text) }

// client returns a client of a server within the test that answers as replies say, and
// as healthy says otherwise.
func (r replies) client(t *testing.T) rueidis.Client {
	t.Helper()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:       []string{"server:6379"},
		ForceSingleClient: true,
		DisableCache:      true,
		DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
			here, there := net.Pipe()
			go r.serve(there)
			return here, nil
		},
	})
	require.NoError(t, err)
	return client
}

func (r replies) serve(conn net.Conn) {
	defer conn.Close()
	for in := bufio.NewReader(conn); ; {
		var words []string
		for n := number(in); n > 0; n-- {
			word := make([]byte, number(in)+2)
			if _, err := readFull(in, word); err != nil {
				return
			}
			words = append(words, string(word[:len(word)-2]))
		}
		if words == nil {
			return
		}
		reply := r.reply(strings.Join(words, " "))
		if _, err := conn.Write([]byte(reply)); err != nil || reply == "" {
			return
		}
	}
}

// number reads the length behind the first byte of a line, 0 at the end.
func number(in *bufio.Reader) int {
	line, err := in.ReadString('\n')
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	return n
}

func readFull(in *bufio.Reader, p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		var more int
		more, err = in.Read(p[n:])
		n += more
	}
	return n, err
}

func (r replies) reply(command string) string {
	for _, some := range []replies{r, healthy} {
		longest := ""
		for start := range some {
			if strings.HasPrefix(command, start) && len(start) > len(longest) {
				longest = start
			}
		}
		if reply, ok := some[longest]; ok {
			return reply
		}
	}
	panic("no reply")
}

// scratch is a lock of which each call answers as the test says, and tells of a change.
type scratch struct {
	acquired, cached         bool
	acquire, peek, release   error
	stand, listen            error
	stale                    bool          // the cache does not hear of the release
	changed                  chan struct{} // nil: nobody hears of changes
	deafToLease, deafToFreed bool          // nothing is told of them
	held                     bool
}

var errLost = errors.New("connection lost")

func (s *scratch) Key() string { return "app:rlock:probe:1" }

func (s *scratch) Acquire(context.Context) (bool, error) {
	s.held = s.acquire == nil
	if s.held && !s.deafToLease {
		s.tell()
	}
	return s.acquired, s.acquire
}

func (s *scratch) Peek(context.Context) (held, cached bool, err error) {
	return s.held || s.stale, s.cached, s.peek
}

func (s *scratch) Release(context.Context) error {
	if s.held = false; !s.deafToFreed {
		s.tell()
	}
	return s.release
}

func (s *scratch) Stand(context.Context) error { return s.stand }

func (s *scratch) Channel() string { return "channel" }

func (s *scratch) Listen(context.Context) error { return s.listen }

func (s *scratch) tell() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// refusal is an error as a server sends it.
func refusal(t *testing.T, text string) error {
	t.Helper()
	client := replies{"GET": "-" + text + "\r\n"}.client(t)
	defer client.Close()
	err := client.Do(t.Context(), client.B().Get().Key("k").Build()).Error()
	require.Error(t, err)
	return err
}

func TestRun(t *testing.T) {
	t.Parallel()
	fine := map[string]probe.Severity{
		"locks": probe.OK, "queue": probe.OK, "held": probe.OK, "cache": probe.OK, "waiting": probe.OK,
		"shared":  probe.OK,
		"version": probe.OK, "protocol": probe.OK, "eviction": probe.OK, "replication": probe.OK,
	}
	const none probe.Severity = -1 // there is no such row
	for name, c := range map[string]struct {
		change  func(t *testing.T, s *scratch)
		replies replies
		want    map[string]probe.Severity // where it is not fine
		says    string                    // one row
		err     error
	}{
		"healthy": {},
		"the reply is lost": {
			change: func(_ *testing.T, s *scratch) { s.acquire = errLost },
			err:    errLost,
		},
		"a replica": {
			change: func(t *testing.T, s *scratch) {
				s.acquire = refusal(t, "READONLY You can't write against a read only replica.")
			},
			want: map[string]probe.Severity{"locks": probe.Fault, "queue": none, "held": none, "cache": none,
				"waiting": none, "shared": none},
			says: "connect to the primary",
		},
		"no right to run scripts": {
			change: func(t *testing.T, s *scratch) { s.acquire = refusal(t, "NOPERM no permissions to run evalsha") },
			want: map[string]probe.Severity{"locks": probe.Fault, "queue": none, "held": none, "cache": none,
				"waiting": none, "shared": none},
			says: `of the key "app:rlock:probe:1"; grant ACL SETUSER <user> ` +
				`~app:* ~rlock:* &rlock:* +@all -@admin -@dangerous +info +role`,
		},
		"no right within a script": {
			change: func(t *testing.T, s *scratch) {
				s.acquire = refusal(t, "ERR The user executing the script can't run this command or subcommand script: 1")
			},
			want: map[string]probe.Severity{"locks": probe.Fault, "queue": none, "held": none, "cache": none,
				"waiting": none, "shared": none},
			says: "grant ACL SETUSER <user> ~app:* ",
		},
		"something else": {
			change: func(t *testing.T, s *scratch) { s.acquire = refusal(t, "ERR unknown command") },
			want: map[string]probe.Severity{"locks": probe.Fault, "queue": none, "held": none, "cache": none,
				"waiting": none, "shared": none},
			says: "a free lock cannot be acquired",
		},
		"somebody holds it": {
			change: func(_ *testing.T, s *scratch) { s.acquired = false },
			want:   map[string]probe.Severity{"locks": probe.Fault},
			says:   "a free lock cannot be acquired",
		},
		"the release is refused": {
			change: func(t *testing.T, s *scratch) { s.release = refusal(t, "NOPERM no permissions to run del") },
			want:   map[string]probe.Severity{"locks": probe.Fault, "held": none, "cache": none, "waiting": none},
			says:   "a lock cannot be released",
		},
		"the release is lost": {
			change: func(_ *testing.T, s *scratch) { s.release = errLost },
			err:    errLost,
		},
		"nobody hears": {
			change: func(_ *testing.T, s *scratch) { s.changed = nil },
			want:   map[string]probe.Severity{"held": probe.Note, "waiting": probe.Note},
			says:   "there are no Invalidations: a waiter learns by a heartbeat",
		},
		"no cache": {
			change: func(_ *testing.T, s *scratch) { s.cached, s.deafToLease = false, true },
			want:   map[string]probe.Severity{"held": probe.Note, "cache": probe.Note, "waiting": probe.Note},
			says:   "no cache: the loss of a held lock is noticed when it is extended, verified or released",
		},
		"the cached read is refused": {
			change: func(t *testing.T, s *scratch) { s.peek = refusal(t, "NOPERM no permissions to run multi") },
			want:   map[string]probe.Severity{"cache": probe.Fault, "waiting": probe.Note},
			says:   "build the client with DisableCache",
		},
		"the server tells nothing": {
			change: func(_ *testing.T, s *scratch) { s.deafToLease, s.deafToFreed, s.stale = true, true, true },
			want:   map[string]probe.Severity{"held": probe.Fault, "cache": probe.Fault, "waiting": probe.Fault},
			says:   "polls every 250ms",
		},
		"the server tells the cache only": {
			change: func(_ *testing.T, s *scratch) { s.deafToLease, s.deafToFreed = true, true },
			want:   map[string]probe.Severity{"held": probe.Fault, "waiting": probe.Fault},
			says:   "no push reached the Invalidations",
		},
		"no right to ask for tracking": {
			change:  func(_ *testing.T, s *scratch) { s.deafToLease, s.deafToFreed, s.stale = true, true, true },
			replies: replies{"CLIENT CACHING": denied},
			want:    map[string]probe.Severity{"held": probe.Fault, "cache": probe.Fault, "waiting": probe.Fault},
			says:    "grant +client|caching and +client|tracking (NOPERM",
		},
		"everything is tracked": {
			change: func(_ *testing.T, s *scratch) { s.deafToLease = true },
			replies: replies{"CLIENT CACHING": "-ERR CLIENT CACHING YES is only valid when tracking is enabled in " +
				"OPTIN mode.\r\n"},
			want: map[string]probe.Severity{"held": probe.Fault},
			says: "and grant +client|caching (<nil>)",
		},
		"no right to read": {
			replies: replies{"MGET": denied},
			want:    map[string]probe.Severity{"held": probe.Fault},
			says:    "grant +mget and +pexpire",
		},
		"no right to change a lease": {
			replies: replies{"PEXPIRE": denied},
			want:    map[string]probe.Severity{"held": probe.Fault, "shared": probe.Note},
			says:    "grant +mget and +pexpire",
		},
		"the change of the lease is lost": {
			replies: replies{"PEXPIRE": ""},
			err:     io.EOF,
		},
		"no right to use a queue": {
			replies: replies{"ZADD": denied, "SPUBLISH": denied},
			want:    map[string]probe.Severity{"queue": probe.Note, "shared": probe.Note},
			says:    "grant &rlock:grant:* +spublish +zadd ~rlock:queue:* (NOPERM",
		},
		"a server without sharded channels": {
			replies: replies{"SPUBLISH": "-ERR unknown command 'SPUBLISH'\r\n"},
			want:    map[string]probe.Severity{"queue": probe.Note, "shared": probe.Note},
			says:    "for a freed key gets it (unknown command", // no right helps
		},
		"no right to name a channel in a script": {
			change: func(t *testing.T, s *scratch) { s.stand = refusal(t, "NOPERM no permissions to access a key") },
			want:   map[string]probe.Severity{"queue": probe.Note, "shared": probe.Note},
			says:   "grant +hset ~rlock:grant:* ~rlock:holders:* ~rlock:queue:* ~rlock:waiters:* (NOPERM",
		},
		"no right to hear of grants": {
			change: func(t *testing.T, s *scratch) {
				s.listen = refusal(t,
					"NOPERM no permissions to run ssubscribe")
			},
			want: map[string]probe.Severity{"queue": probe.Note},
			says: "asks every 250ms; grant &rlock:grant:* +ssubscribe (NOPERM",
		},
		"no connection to hear of grants": {
			change: func(_ *testing.T, s *scratch) { s.listen = errLost },
			want:   map[string]probe.Severity{"queue": probe.Note},
			says:   "does not hear of grants so far, and asks every 250ms (connection lost",
		},
		"the Locker is closed": {
			change: func(_ *testing.T, s *scratch) { s.listen = clock.ErrStopped },
			err:    clock.ErrStopped,
		},
		"no right to have holders": {
			replies: replies{"PEXPIREAT": denied},
			want:    map[string]probe.Severity{"shared": probe.Note},
			says:    "AcquireShared and AcquirePermits are refused; grant +pexpireat ~rlock:holders:* (NOPERM",
		},
		"the look at holders is lost": {
			replies: replies{"PEXPIREAT": ""},
			err:     io.EOF,
		},
		"the look at a queue is lost": {
			replies: replies{"ZCARD": ""},
			err:     io.EOF,
		},
		"RESP2": {
			replies: replies{"HELLO": "%3\r\n+server\r\n+redis\r\n+version\r\n+7.0.15\r\n+proto\r\n:2\r\n"},
			want:    map[string]probe.Severity{"protocol": probe.Note},
			says:    "RESP2: the server cannot push",
		},
		"too old": {
			replies: replies{"HELLO": "%3\r\n+server\r\n+redis\r\n+version\r\n+6.2.1\r\n+proto\r\n:3\r\n"},
			want:    map[string]probe.Severity{"version": probe.Fault},
			says:    "it is redis 6.2.1; the scripts need Redis 7.0 or later",
		},
		"locks may be evicted": {
			replies: replies{"CONFIG GET": "%2\r\n+maxmemory\r\n+100\r\n+maxmemory-policy\r\n+allkeys-lru\r\n"},
			want:    map[string]probe.Severity{"eviction": probe.Fault},
			says:    "maxmemory-policy is allkeys-lru and maxmemory 100",
		},
		"locks could be evicted": {
			replies: replies{"CONFIG GET": "%2\r\n+maxmemory\r\n+0\r\n+maxmemory-policy\r\n+allkeys-lru\r\n"},
			want:    map[string]probe.Severity{"eviction": probe.Note},
			says:    "but there is no maxmemory",
		},
		"INFO tells of eviction": {
			replies: replies{"CONFIG GET": denied,
				"INFO memory": bulk("maxmemory:7\r\nmaxmemory_policy:volatile-ttl\r\n")},
			want: map[string]probe.Severity{"eviction": probe.Fault},
			says: "maxmemory-policy is volatile-ttl and maxmemory 7",
		},
		"nothing tells of eviction": {
			replies: replies{"CONFIG GET": denied, "INFO memory": denied},
			want:    map[string]probe.Severity{"eviction": probe.Note},
			says:    "its maxmemory-policy must be noeviction",
		},
		"replicas": {
			replies: replies{"INFO replication": bulk("role:master\r\nconnected_slaves:2\r\n")},
			want:    map[string]probe.Severity{"replication": probe.Note},
			says:    "replicas: 2. They learn of a lock after the primary has granted it",
		},
		"it is a replica": {
			replies: replies{"INFO replication": bulk("role:slave\r\nconnected_slaves:0\r\n")},
			want:    map[string]probe.Severity{"replication": probe.Note},
			says:    "it is a replica; locks are taken on its primary",
		},
		"nothing tells of replicas": {
			replies: replies{"INFO replication": denied},
			want:    map[string]probe.Severity{"replication": probe.Note},
			says:    "let the resource check the fence",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := c.replies.client(t)
				defer client.Close()
				s := &scratch{acquired: true, cached: true, changed: make(chan struct{}, 1)}
				if c.change != nil {
					c.change(t, s)
				}
				start := time.Now()
				rows, err := probe.Run(t.Context(), probe.Target{
					Client: client, Built: client, Scratch: s, Changed: s.changed, Grants: s, Poll: 250 * time.Millisecond,
				})
				require.LessOrEqual(t, time.Since(start), 2*time.Second+100*time.Millisecond)
				if c.err != nil {
					require.ErrorIs(t, err, c.err)
					return
				}
				require.NoError(t, err)
				got, text := map[string]probe.Severity{}, ""
				for _, row := range rows {
					got[row.Name] = max(got[row.Name], row.Severity)
					require.Equal(t, row.Name == "version" || row.Name == "protocol" || row.Name == "eviction" ||
						row.Name == "replication",
						row.Server == "server:6379", "%v", row)
					text += fmt.Sprintf("%s: %s (%v)\n", row.Name, row.Text, row.Err)
				}
				for name, severity := range fine {
					if other, ok := c.want[name]; ok {
						severity = other
					}
					if at, ok := got[name]; ok {
						require.Equal(t, severity, at, "%s of\n%s", name, text)
					} else {
						require.Equal(t, none, severity, "no %s in\n%s", name, text)
					}
				}
				require.Contains(t, text, c.says)
			})
		})
	}
}

// What ends the test ends each of its waits.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]scratch{
		"held":  {deafToLease: true},
		"cache": {stale: true},
		"push":  {deafToFreed: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				client := replies{}.client(t)
				defer client.Close()
				s.acquired, s.cached, s.changed = true, true, make(chan struct{}, 1)
				stop := make(chan struct{})
				time.AfterFunc(100*time.Millisecond, func() { close(stop) })
				start := time.Now()
				_, err := probe.Run(t.Context(),
					probe.Target{Client: client, Built: client, Scratch: &s, Changed: s.changed, Grants: &s, Stop: stop})
				require.ErrorIs(t, err, clock.ErrStopped)
				require.Less(t, time.Since(start), 200*time.Millisecond)

				s.changed = make(chan struct{}, 1)
				ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
				defer cancel()
				rows, err := probe.Run(ctx,
					probe.Target{Client: client, Built: client, Scratch: &s, Changed: s.changed, Grants: &s})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.NotEmpty(t, rows, "what was found until then")
			})
		})
	}
}
