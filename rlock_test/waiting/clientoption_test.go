package waiting

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// clientOptions are ways of building a client that change which of its connections a
// command takes, and which of them hear from the server.
var clientOptions = map[string]struct {
	change func(option *rueidis.ClientOption)
	told   bool                           // the server tells a Locker of Open of changed keys
	probe  map[string]rlock.ProbeSeverity // what Probe finds that is not ok
}{
	"as it comes":                 {func(*rueidis.ClientOption) {}, true, nil},
	"a connection for each call":  {func(o *rueidis.ClientOption) { o.DisableAutoPipelining = true }, true, nil},
	"one connection in all pools": {func(o *rueidis.ClientOption) { o.BlockingPoolSize = 1 }, true, nil},
	"a connection for each call of a pool of one": {func(o *rueidis.ClientOption) {
		o.DisableAutoPipelining, o.BlockingPoolSize = true, 1
	}, true, nil},
	"a connection for each pipeline": {func(o *rueidis.ClientOption) { o.BlockingPipeline = 1 }, true, nil},
	"one pipelined connection":       {func(o *rueidis.ClientOption) { o.PipelineMultiplex = -1 }, true, nil},
	"256 pipelined connections":      {func(o *rueidis.ClientOption) { o.PipelineMultiplex = 8 }, true, nil},
	"always pipelining":              {func(o *rueidis.ClientOption) { o.AlwaysPipelining = true }, true, nil},
	"no retries":                     {func(o *rueidis.ClientOption) { o.DisableRetry = true }, true, nil},
	"a single client":                {func(o *rueidis.ClientOption) { o.ForceSingleClient = true }, true, nil},
	"tracking unless refused":        {func(o *rueidis.ClientOption) { o.ClientTrackingOptions = []string{"OPTOUT"} }, true, nil},
	"tracking of everything":         {func(o *rueidis.ClientOption) { o.ClientTrackingOptions = []string{"BCAST"} }, true, nil},
	"tracking of a prefix that covers": {func(o *rueidis.ClientOption) {
		o.ClientTrackingOptions = []string{"BCAST", "PREFIX", "job", "PREFIX", "rlock:probe:"}
	}, true, nil},
	"tracking of a prefix that does not cover": {func(o *rueidis.ClientOption) {
		o.ClientTrackingOptions = []string{"BCAST", "PREFIX", "other"}
	}, false, map[string]rlock.ProbeSeverity{"cache": rlock.ProbeFault, "waiting": rlock.ProbeFault,
		"held": rlock.ProbeFault}},
	"no cache": {func(o *rueidis.ClientOption) { o.DisableCache = true }, false,
		map[string]rlock.ProbeSeverity{"cache": rlock.ProbeNote, "waiting": rlock.ProbeNote,
			"held": rlock.ProbeNote}},
	"RESP2": {func(o *rueidis.ClientOption) { o.DisableCache, o.AlwaysRESP2 = true, true }, false,
		map[string]rlock.ProbeSeverity{"cache": rlock.ProbeNote, "waiting": rlock.ProbeNote,
			"held": rlock.ProbeNote, "protocol": rlock.ProbeNote}},
}

// Whatever the options of the client, an extended lock ends when its key is deleted,
// soon where the server tells and at the next extension where not;
// whoever waits for a key that a stranger frees gets it, with a handful of questions
// where the server tells and by polling where not; and Probe says which it is.
func TestClientOptions(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		for name, test := range clientOptions {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				option := server.Option()
				test.change(&option)
				locker := env.OpenLocker(t, option)
				t.Run("a loss", func(t *testing.T) { lossIsNoticed(t, server, locker, "job:lost:"+name, test.told) })
				t.Run("a wait", func(t *testing.T) { waitEnds(t, server, locker, "job:wanted:"+name, test.told) })
				t.Run("probe", func(t *testing.T) {
					report, err := locker.Probe(t.Context())
					require.NoError(t, err)
					require.Equal(t, env.Severities(test.probe), env.Worst(t, report), "%s", report)
				})
			})
		}
	})
}

// lossIsNoticed loses a lock whose next extension is 20 seconds away, where the server
// tells, or less than 2.
func lossIsNoticed(t *testing.T, server *env.Server, locker *rlock.Locker, key string, told bool) {
	ttl := 6 * time.Second
	if told {
		ttl = time.Minute
	}
	lock, err := locker.Acquire(t.Context(), key, rlock.WithTTL(ttl), rlock.WithAutoExtend(true))
	require.NoError(t, err)
	time.Sleep(300 * time.Millisecond) // its key has been read
	require.NoError(t, lock.Err())
	server.Do(t, "DEL", key)
	env.AwaitEnd(t, lock, rlock.ErrLost)
}

// waitEnds has a stranger hold a key without a lease, and free it.
func waitEnds(t *testing.T, server *env.Server, locker *rlock.Locker, key string, told bool) {
	server.Do(t, "SET", key, "stranger")
	freed := time.AfterFunc(time.Second, func() { server.Do(t, "DEL", key) })
	defer freed.Stop()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	lock, err := locker.Acquire(ctx, key)
	require.NoError(t, err, "nobody has told it that the key is free, and it has not looked")
	if told {
		require.LessOrEqual(t, lock.Attempts(), 5, "it polls, though the server would tell")
	}
	require.NoError(t, lock.Release(t.Context()))
}

// A client that sends what it may to a replica sends it nothing that a lock depends on:
// a replica that is behind would tell of losses that are none.
func TestReadsFromReplicas(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		pair := e.StartPair(t)
		option := pair.Primary.Option()
		option.Standalone.ReplicaAddress = []string{pair.Replica.Addr()}
		option.SendToReplicas = func(cmd rueidis.Completed) bool { return cmd.IsReadOnly() }
		locker := env.OpenLocker(t, option)
		t.Run("in step", func(t *testing.T) {
			lossIsNoticed(t, pair.Primary, locker, "job:lost", true)
			waitEnds(t, pair.Primary, locker, "job:wanted", true)
			report, err := locker.Probe(t.Context())
			require.NoError(t, err)
			require.NoError(t, report.Err(), "%s", report)
		})
		t.Run("behind", func(t *testing.T) {
			// The replica follows nobody who answers, and serves what it had.
			_, port, err := net.SplitHostPort(env.NewProxy(t, "127.0.0.1:1").Addr())
			require.NoError(t, err)
			pair.Replica.Do(t, "REPLICAOF", "127.0.0.1", port)
			lock, err := locker.Acquire(t.Context(), "job:kept", rlock.WithTTL(9*time.Second),
				rlock.WithAutoExtend(true))
			require.NoError(t, err)
			first := lock.Deadline()
			for n := 0; n < 20 || lock.Deadline().Equal(first); n++ { // until it is extended, too
				require.NoError(t, lock.Verify(t.Context()))
				time.Sleep(50 * time.Millisecond)
			}
			require.NoError(t, lock.Err())
			lossIsNoticed(t, pair.Primary, locker, "job:lost too", true)
			waitEnds(t, pair.Primary, locker, "job:wanted too", false)
		})
	})
}
