package observe

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	const note, fault = rlock.ProbeNote, rlock.ProbeFault
	rule := "~app:* ~rlock:fence:* -@all +get +mget +set +del +pexpire +persist +pttl +incr +time +eval " +
		"+evalsha +multi +exec +ping "
	as := func(o rueidis.ClientOption) rueidis.ClientOption {
		o.Username, o.Password = "app", "secret"
		return o
	}
	app := rlock.WithPrefix("app:")
	for name, test := range map[string]struct {
		setup func(t *testing.T, server *env.Server) *rlock.Locker
		want  map[string]rlock.ProbeSeverity // where it is not ok
		says  string                         // the faults
	}{
		"healthy": {
			func(t *testing.T, server *env.Server) *rlock.Locker { return env.OpenLocker(t, server.Option()) },
			nil, "",
		},
		"without fences": {
			func(t *testing.T, server *env.Server) *rlock.Locker {
				return env.OpenLocker(t, server.Option(), rlock.WithFence(false))
			},
			nil, "",
		},
		"without a hook": {
			func(t *testing.T, server *env.Server) *rlock.Locker { return env.NewLocker(t, server.Client(t)) },
			map[string]rlock.ProbeSeverity{"client": note, "held": note, "waiting": note}, "",
		},
		"a client that sends again": {
			func(t *testing.T, server *env.Server) *rlock.Locker {
				return env.NewLocker(t, server.Client(t, func(o *rueidis.ClientOption) { o.ConnLifetime = time.Hour }))
			},
			map[string]rlock.ProbeSeverity{"client": fault, "held": note, "waiting": note}, "ConnLifetime",
		},
		"a hook of another client": {
			func(t *testing.T, server *env.Server) *rlock.Locker {
				return env.NewLocker(t, server.Client(t), rlock.WithInvalidations(rlock.NewInvalidations()))
			},
			map[string]rlock.ProbeSeverity{"client": note, "held": fault, "waiting": fault},
			"no push reached the Invalidations",
		},
		"without a cache": {
			func(t *testing.T, server *env.Server) *rlock.Locker {
				option := server.Option()
				option.DisableCache = true
				return env.OpenLocker(t, option)
			},
			map[string]rlock.ProbeSeverity{"held": note, "cache": note, "waiting": note}, "",
		},
		"RESP2": {
			func(t *testing.T, server *env.Server) *rlock.Locker {
				option := server.Option()
				option.DisableCache, option.AlwaysRESP2 = true, true
				return env.OpenLocker(t, option)
			},
			map[string]rlock.ProbeSeverity{"held": note, "cache": note, "waiting": note, "protocol": note}, "",
		},
		"locks may be evicted": {
			func(t *testing.T, server *env.Server) *rlock.Locker {
				server.Do(t, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
				return env.OpenLocker(t, server.Option())
			},
			map[string]rlock.ProbeSeverity{"eviction": fault}, "allkeys-lru",
		},
		"locks may be evicted, told by INFO": {
			func(t *testing.T, server *env.Server) *rlock.Locker {
				server.Do(t, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "volatile-ttl")
				server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-config")
				return env.OpenLocker(t, as(server.Option()))
			},
			map[string]rlock.ProbeSeverity{"eviction": fault}, "volatile-ttl",
		},
		"an evicting policy without a limit": {
			func(t *testing.T, server *env.Server) *rlock.Locker {
				server.Do(t, "CONFIG", "SET", "maxmemory-policy", "allkeys-lru")
				return env.OpenLocker(t, server.Option())
			},
			map[string]rlock.ProbeSeverity{"eviction": note}, "",
		},
		"the least user": {
			func(t *testing.T, server *env.Server) *rlock.Locker {
				server.Do(t, append([]string{"ACL", "SETUSER", "app", "on", ">secret"},
					strings.Fields(rule+"+client|tracking +client|caching")...)...)
				return env.OpenLocker(t, as(server.Option()), app)
			},
			map[string]rlock.ProbeSeverity{"queue": note, "shared": note, "eviction": note, "replication": note}, "",
		},
		"a user without client caching": {
			func(t *testing.T, server *env.Server) *rlock.Locker {
				server.Do(t, append([]string{"ACL", "SETUSER", "app", "on", ">secret"},
					strings.Fields(rule+"+client|tracking")...)...)
				return env.OpenLocker(t, as(server.Option()), app)
			},
			map[string]rlock.ProbeSeverity{"queue": note, "shared": note, "held": fault, "cache": fault,
				"waiting": fault, "eviction": note, "replication": note}, "client|caching",
		},
		"a user without scripts": {
			func(t *testing.T, server *env.Server) *rlock.Locker {
				server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all", "-@scripting")
				return env.OpenLocker(t, as(server.Option()))
			},
			map[string]rlock.ProbeSeverity{"locks": fault, "queue": env.NoFinding, "held": env.NoFinding,
				"cache": env.NoFinding, "waiting": env.NoFinding, "shared": env.NoFinding}, "may not acquire a lock",
		},
		"a user without counters": {
			func(t *testing.T, server *env.Server) *rlock.Locker {
				server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~app:*", "+@all")
				return env.OpenLocker(t, as(server.Option()), app)
			},
			map[string]rlock.ProbeSeverity{"locks": fault, "queue": env.NoFinding, "held": env.NoFinding,
				"cache": env.NoFinding, "waiting": env.NoFinding, "shared": env.NoFinding}, "locks work WithFence(false)",
		},
		"a client that is not told of its own changes": {
			func(t *testing.T, server *env.Server) *rlock.Locker {
				option := server.Option()
				option.ClientTrackingOptions, option.PipelineMultiplex = []string{"OPTIN", "NOLOOP"}, -1
				return env.OpenLocker(t, option)
			},
			map[string]rlock.ProbeSeverity{"held": fault, "cache": fault, "waiting": fault}, "NOLOOP",
		},
		"a hook of a client without a cache": {
			func(t *testing.T, server *env.Server) *rlock.Locker {
				client := server.Client(t, func(o *rueidis.ClientOption) { o.DisableCache = true })
				return env.NewLocker(t, client, rlock.WithInvalidations(rlock.NewInvalidations()))
			},
			map[string]rlock.ProbeSeverity{"client": note, "held": note, "cache": note, "waiting": note}, "",
		},
		"a user who may not release": {
			func(t *testing.T, server *env.Server) *rlock.Locker {
				server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-del")
				return env.OpenLocker(t, as(server.Option()))
			},
			map[string]rlock.ProbeSeverity{"locks": fault, "held": env.NoFinding, "cache": env.NoFinding,
				"waiting": env.NoFinding, "shared": note}, "cannot be released",
		},
		"a user without multi": {
			func(t *testing.T, server *env.Server) *rlock.Locker {
				server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "&*", "+@all", "-multi")
				return env.OpenLocker(t, as(server.Option()))
			},
			map[string]rlock.ProbeSeverity{"cache": fault, "waiting": note}, "or fails too; grant ACL SETUSER",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := env.Start(t)
			locker := test.setup(t, server)
			report, err := locker.Probe(t.Context())
			require.NoError(t, err)
			require.Equal(t, env.Severities(test.want), env.Worst(t, report), "%s", report)
			if test.says == "" {
				require.NoError(t, report.Err())
			} else {
				require.ErrorContains(t, report.Err(), test.says)
			}
			if test.want["locks"] != fault {
				reply := server.Do(t, "KEYS", "*rlock:probe:*")
				keys, err := reply.AsStrSlice()
				require.NoError(t, err)
				require.Empty(t, keys)
			}
		})
	}
}

// Probe names the rights for the queue between processes that a user lacks, in the words of an
// ACL rule. With these words there is nothing more to say.
func TestProbeNamesRightsForTheQueue(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, test := range map[string]struct{ without, grant string }{
			"the queue's key":   {"resetkeys ~app:* ~rlock:fence:* ~rlock:grant:*", "~rlock:queue:*"},
			"the channel's key": {"resetkeys ~app:* ~rlock:fence:* ~rlock:queue:*", "~rlock:grant:* ~rlock:queue:*"},
			"the channel":       {"resetchannels", "&rlock:grant:* +spublish +ssubscribe"},
			"publish":           {"-spublish", "&rlock:grant:* +spublish"},
			"subscribe":         {"-ssubscribe", "&rlock:grant:* +ssubscribe"},
			"count":             {"-pubsub|shardnumsub", "+pubsub|shardnumsub"},
			"join":              {"-zadd -zrank", "+zadd +zrank ~rlock:queue:*"},
			"leave":             {"-zrem", "+zrem ~rlock:queue:*"},
			"others' fences":    {"resetkeys ~app:* ~rlock:queue:* ~rlock:grant:*", "~rlock:fence:*"},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := e.Start(t)
				setUser := func(rule string) {
					server.Do(t, append([]string{"ACL", "SETUSER", "app"}, strings.Fields(rule)...)...)
				}
				setUser("on >secret ~app:* ~rlock:* &rlock:* +@all")
				setUser(test.without)
				option := server.Option()
				option.Username, option.Password = "app", "secret"
				probe := func() (finding rlock.ProbeFinding) {
					report, err := env.OpenLocker(t, option, rlock.WithPrefix("app:"),
						rlock.WithFence(false)).Probe(t.Context())
					require.NoError(t, err)
					require.NoError(t, report.Err(), "locks work without the queue")
					for _, f := range report {
						if f.Name == "queue" {
							finding = f
						}
					}
					return finding
				}
				lacking := probe()
				require.Equal(t, rlock.ProbeNote, lacking.Severity, lacking)
				require.Error(t, lacking.Err)
				_, grant, _ := strings.Cut(lacking.Text, "; grant ")
				for word := range strings.FieldsSeq(test.grant) {
					require.Contains(t, strings.Fields(grant), word, lacking)
				}
				setUser(grant)
				require.Equal(t, rlock.ProbeOK, probe().Severity, grant)
			})
		}
	})
}

// Probe names the rights for shared locks that a user lacks, and without them says nothing worse of locks
// that nobody shares. With these words locks can be shared.
func TestProbeNamesRightsForShares(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		for name, test := range map[string]struct{ without, grant string }{
			"the key of the holders": {
				"resetkeys ~app:* ~rlock:fence:* ~rlock:queue:* ~rlock:waiters:* ~rlock:grant:*", "~rlock:holders:*",
			},
			"the end of a lease": {"-pexpireat", "+pexpireat ~rlock:holders:*"},
			"the queue":          {"resetkeys ~app:* ~rlock:fence:* ~rlock:holders:* ~rlock:grant:*", ""},
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				server := e.Start(t)
				setUser := func(rule string) {
					server.Do(t, append([]string{"ACL", "SETUSER", "app"}, strings.Fields(rule)...)...)
				}
				setUser("on >secret ~app:* ~rlock:* &rlock:* +@all")
				setUser(test.without)
				option := server.Option()
				option.Username, option.Password = "app", "secret"
				locker := env.OpenLocker(t, option, rlock.WithPrefix("app:"))
				probe := func() (shared, queue rlock.ProbeFinding) {
					report, err := locker.Probe(t.Context())
					require.NoError(t, err)
					require.NoError(t, report.Err(), "locks that nobody shares are as good as ever")
					for _, f := range report {
						switch f.Name {
						case "shared":
							shared = f
						case "queue":
							queue = f
						}
					}
					return shared, queue
				}
				lacking, queue := probe()
				require.Equal(t, rlock.ProbeNote, lacking.Severity, lacking)
				_, err := locker.AcquireShared(t.Context(), "k")
				require.Error(t, err)
				require.Regexp(t, env.NoPermission, err.Error())

				_, grant, _ := strings.Cut(lacking.Text, "; grant ")
				require.Subset(t, strings.Fields(grant), strings.Fields(test.grant), lacking)
				if test.grant == "" {
					_, grant, _ = strings.Cut(queue.Text, "; grant ")
				}
				setUser(grant)
				server.Do(t, "DEL", "app:k") // what a script may have left that ended halfway
				lacking, _ = probe()
				require.Equal(t, rlock.ProbeOK, lacking.Severity, lacking)
				require.NoError(t, env.MustLock(t)(locker.AcquireShared(t.Context(), "k")).Release(t.Context()))
			})
		}
	})
}

// A replica refuses to write, and its primary tells that a failover can lose locks.
func TestProbeOfAReplica(t *testing.T) {
	t.Parallel()
	primary, replica := env.Start(t), env.Start(t)
	host, port, err := net.SplitHostPort(primary.Addr())
	require.NoError(t, err)
	replica.Do(t, "REPLICAOF", host, port)
	env.Soon(t, func() bool {
		report, err := env.OpenLocker(t, primary.Option()).Probe(t.Context())
		require.NoError(t, err)
		require.NoError(t, report.Err())
		return env.Worst(t, report)["replication"] == rlock.ProbeNote
	}, "the replica is there")

	report, err := env.OpenLocker(t, replica.Option()).Probe(t.Context())
	require.NoError(t, err)
	require.Equal(t, env.Severities(map[string]rlock.ProbeSeverity{
		"locks": rlock.ProbeFault, "queue": env.NoFinding, "held": env.NoFinding, "cache": env.NoFinding,
		"waiting": env.NoFinding, "shared": env.NoFinding, "replication": rlock.ProbeNote,
	}), env.Worst(t, report), "%s", report)
	require.ErrorContains(t, report.Err(), "connect to the primary")
	var refusal *rueidis.RedisError
	require.ErrorAs(t, report.Err(), &refusal)
	require.ErrorContains(t, refusal, "READONLY")
}

func TestProbeOfACluster(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		c := e.StartCluster(t)
		c.Nodes[1].Do(t, "CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru")
		report, err := env.OpenLocker(t, rueidis.ClientOption{InitAddress: c.Addrs()}).Probe(t.Context())
		require.NoError(t, err)
		require.Equal(t, env.Severities(map[string]rlock.ProbeSeverity{"eviction": rlock.ProbeFault}),
			env.Worst(t, report), "%s", report)
		for _, f := range report {
			if f.Name == "eviction" {
				require.Equal(t, f.Server == c.Nodes[1].Addr(), f.Severity == rlock.ProbeFault)
			}
		}
	})
}

// The embedded server tells less about itself, and can hold locks.
func TestProbeOfTheEmbeddedServer(t *testing.T) {
	t.Parallel()
	server, err := rlocktest.Open()
	require.NoError(t, err)
	t.Cleanup(server.Close)
	report, err := env.OpenLocker(t, server.Option()).Probe(t.Context())
	require.NoError(t, err)
	require.NoError(t, report.Err(), "%s", report)
	got := env.Worst(t, report)
	require.Equal(t, rlock.ProbeOK, got["locks"])
	require.Equal(t, rlock.ProbeOK, got["waiting"])
	require.Equal(t, rlock.ProbeNote, got["eviction"])
}

// What keeps Probe from finding out is an error.
func TestProbeWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	locker := env.OpenLocker(t, server.Option())
	var none context.Context
	_, err := locker.Probe(none)
	require.ErrorIs(t, err, rlock.ErrInvalid)
	server.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	report, err := locker.Probe(ctx)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.Empty(t, report)
	server.Cont()
	locker.Close()
	_, err = locker.Probe(t.Context())
	require.ErrorIs(t, err, rlock.ErrClosed)
}
