package topology

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// Probe finds a ConnLifetime, with which commands are sent twice, on every kind of client of rueidis, and
// does not suspect the others of it.
func TestProbeFindsALifetime(t *testing.T) {
	t.Parallel()
	e := env.Engines(t)[0]
	for name, start := range map[string]func(t *testing.T) rueidis.ClientOption{
		"one server": func(t *testing.T) rueidis.ClientOption { return e.Start(t).Option() },
		"a cluster": func(t *testing.T) rueidis.ClientOption {
			return rueidis.ClientOption{InitAddress: e.StartCluster(t).Addrs()}
		},
		"sentinels": func(t *testing.T) rueidis.ClientOption { return e.StartSentinel(t).Option() },
		"replicas": func(t *testing.T) rueidis.ClientOption {
			pair := e.StartPair(t)
			option := pair.Primary.Option()
			option.Standalone.ReplicaAddress = []string{pair.Replica.Addr()}
			option.SendToReplicas = func(rueidis.Completed) bool { return false }
			return option
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			option := start(t)
			for lifetime, want := range map[time.Duration]rlock.ProbeSeverity{0: rlock.ProbeNote,
				time.Hour: rlock.ProbeFault} {
				option.ConnLifetime = lifetime
				client, err := rueidis.NewClient(option)
				require.NoError(t, err)
				t.Cleanup(client.Close)
				report, err := env.NewLocker(t, client).Probe(t.Context())
				require.NoError(t, err)
				require.Equal(t, want, env.Worst(t, report)["client"], "%s", report)
				require.NotContains(t, report.String(), "cannot see either")
			}
		})
	}
}
