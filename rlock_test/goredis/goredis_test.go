package goredis

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
	"github.com/rlock-go/toolkit/rlock_test/goredis/bindings"
	"github.com/rlock-go/toolkit/rlock_test/goredis/gen"
	"github.com/rlock-go/toolkit/rlock_test/goredis/reads"
)

// A raw reply is what go-redis makes of it.
func TestRaw(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		client := single(t, server)
		for _, c := range []struct {
			commands [][]string
			want     any
		}{
			{nil, nil},
			{[][]string{{"SET", "k", "text"}}, "text"},
			{[][]string{{"DEL", "k"}, {"HSET", "k", "field", "value"}}, []any{"field", "value"}},
			{[][]string{{"DEL", "k"}, {"RPUSH", "k", "a", "b"}}, int64(2)},
		} {
			for _, command := range c.commands {
				server.Do(t, command...)
			}
			got, err := bindings.New().Anything(t.Context(), client, bindings.AnythingParams{Any: "k"})
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		}
	})
}

// A server that has forgotten its scripts gets their text, alone and in a pipeline, and a server
// that was sent them by Load does not.
func TestUnknownScripts(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		client := single(t, server)
		scripts := reads.New()
		sent := func(command string) bool { // since the last CONFIG RESETSTAT
			info := server.Do(t, "INFO", "commandstats")
			text, err := info.ToString()
			require.NoError(t, err)
			server.Do(t, "CONFIG", "RESETSTAT")
			return strings.Contains(text, "cmdstat_"+command+":")
		}
		for i := range 3 {
			if i < 2 {
				server.Do(t, "SCRIPT", "FLUSH")
			} else {
				require.NoError(t, scripts.Load(t.Context(), client))
			}
			_ = sent("eval")
			if i == 0 {
				require.NoError(t, scripts.Store(t.Context(), client, reads.StoreParams{K: "k", V: "v"}))
			} else {
				for _, reply := range scripts.StoreBatch(t.Context(), client,
					[]reads.StoreParams{{K: "k", V: "v"}, {K: "l", V: "v"}}) {
					require.NoError(t, reply.Err)
				}
			}
			require.Equal(t, i < 2, sent("eval"))
			got, err := scripts.Look(t.Context(), client, reads.LookParams{K: "k"})
			require.NoError(t, err)
			require.Equal(t, reads.Null[string]{V: "v", Valid: true}, got)
			require.Equal(t, i < 2, sent("eval_ro"), "the read is sent as one that replicas take")
		}
	})
}

// What a caller refuses is a typed error, and nothing is sent: keys in two slots of a cluster, an
// empty key, and a Ring.
func TestRefusals(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		cluster := e.StartCluster(t)
		client := clustered(t, cluster)
		scripts := reads.New()
		move := reads.MoveParams{From: "a", To: "b"}
		err := scripts.Move(t.Context(), client, move)
		var slots *reads.CrossSlotError
		require.ErrorAs(t, err, &slots)
		require.Equal(t, [2]string{"a", "b"}, slots.Keys)
		require.ErrorAs(t, scripts.MoveBatch(t.Context(), client, []reads.MoveParams{move})[0].Err, &slots)

		var param *reads.ParamError
		require.ErrorAs(t, scripts.Move(t.Context(), client, reads.MoveParams{From: "a"}), &param)
		require.Equal(t, "to", param.Param)

		ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{"one": cluster.Nodes[0].Addr()}})
		defer ring.Close()
		_, alone := scripts.Count(t.Context(), ring, reads.CountParams{K: "k"})
		for _, err := range []error{
			alone, scripts.Load(t.Context(), ring),
			scripts.CountBatch(t.Context(), ring, []reads.CountParams{{K: "k"}})[0].Err,
		} {
			require.ErrorAs(t, err, &param)
			require.ErrorContains(t, err, "it is a *redis.Ring")
			require.ErrorContains(t, err, "give a *redis.Client or a *redis.ClusterClient")
		}
	})
}

// Load reaches each node of a cluster, and says which one fails.
func TestLoad(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		cluster := e.StartCluster(t)
		client := clustered(t, cluster)
		require.NoError(t, gen.New().Load(t.Context(), client))
		for _, node := range cluster.Nodes {
			reply := node.Do(t, "SCRIPT", "EXISTS", gen.AcquireSHA1, gen.ReleaseSHA1)
			known, err := reply.AsIntSlice()
			require.NoError(t, err)
			require.Equal(t, []int64{1, 1}, known)
		}
		cluster.Nodes[1].Do(t, "ACL", "SETUSER", "default", "-script|load")
		err := gen.New().Load(t.Context(), client)
		require.ErrorContains(t, err, "gen: load Acquire on "+cluster.Nodes[1].Addr()+": NOPERM")
		require.NotContains(t, err.Error(), cluster.Nodes[0].Addr())
	})
}

// A script that writes is sent once: if its answer is lost, the call returns the error, although
// go-redis repeats other commands. One that may be repeated is repeated, unless WithoutRetry.
func TestLostAnswers(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		call  func(context.Context, *reads.Scripts, redis.UniversalClient) (int64, error)
		opts  []reads.Option
		value string // of the key afterwards; the answer is lost once
	}{
		"once":          {countOnce, nil, "1"},
		"once, batch":   {countOnceInBatch, nil, "1"},
		"repeated":      {count, nil, "2"},
		"without retry": {count, []reads.Option{reads.WithoutRetry()}, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) {
				server := e.Start(t)
				proxy := env.NewProxy(t, server.Addr())
				client := redis.NewClient(&redis.Options{Addr: proxy.Addr()})
				defer client.Close()
				scripts := reads.New(c.opts...)
				require.NoError(t, scripts.Load(t.Context(), client))
				proxy.DropReply(func(request []byte) bool { return bytes.Contains(request, []byte("evalsha")) })
				_, err := c.call(t.Context(), scripts, client)
				reply := server.Do(t, "GET", "k")
				value, _ := reply.ToString()
				require.Equal(t, c.value, value)
				require.Equal(t, c.value == "1", err != nil, "%v", err)
				require.Equal(t, 1, proxy.Dropped())
			})
		})
	}
}

func count(ctx context.Context, s *reads.Scripts, c redis.UniversalClient) (int64, error) {
	return s.Count(ctx, c, reads.CountParams{K: "k"})
}

func countOnce(ctx context.Context, s *reads.Scripts, c redis.UniversalClient) (int64, error) {
	return s.CountOnce(ctx, c, reads.CountOnceParams{K: "k"})
}

func countOnceInBatch(ctx context.Context, s *reads.Scripts, c redis.UniversalClient) (int64, error) {
	reply := s.CountOnceBatch(ctx, c, []reads.CountOnceParams{{K: "k"}})[0]
	return reply.Value, reply.Err
}

// With -replicas, reads go to the replicas of a cluster if the client sends reads there.
func TestReplicas(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		cluster := e.StartReplicatedCluster(t)
		for _, s := range slices.Concat(cluster.Nodes, cluster.Replicas) {
			require.Eventually(t, func() bool { // a client asks any of them who the replicas are
				slots := s.Do(t, "CLUSTER", "SLOTS")
				ranges, err := slots.ToArray()
				return err == nil && len(ranges) >= 3 && !slices.ContainsFunc(ranges, func(r rueidis.RedisMessage) bool {
					parts, err := r.ToArray()
					return err != nil || len(parts) < 4 // first, last, primary, replica
				})
			}, 30*time.Second, 20*time.Millisecond)
		}
		client := clustered(t, cluster, func(o *redis.ClusterOptions) { o.ReadOnly = true })
		scripts := reads.New()
		var params []reads.LookParams
		for _, key := range []string{"{a}", "{b}", "{c}"} { // one of each node
			require.NoError(t, scripts.Store(t.Context(), client, reads.StoreParams{K: key, V: "of " + key}))
			require.Eventually(t, func() bool { // until the replica has it
				got, err := scripts.Look(t.Context(), client, reads.LookParams{K: key})
				return err == nil && got == reads.Null[string]{V: "of " + key, Valid: true}
			}, 30*time.Second, 5*time.Millisecond)
			params = append(params, reads.LookParams{K: key})
		}
		for i, reply := range scripts.LookBatch(t.Context(), client, params) {
			require.NoError(t, reply.Err)
			require.Equal(t, "of "+params[i].K, reply.Value.V)
		}
		sum, err := scripts.Sum(t.Context(), client, reads.SumParams{A: 2, B: 3})
		require.NoError(t, err)
		require.Equal(t, int64(5), sum)
		stats := ""
		for _, s := range cluster.Replicas {
			info := s.Do(t, "INFO", "commandstats")
			text, err := info.ToString()
			require.NoError(t, err)
			stats += text
		}
		require.Contains(t, stats, "cmdstat_evalsha_ro", "reads go to replicas")
		require.NotContains(t, stats, "cmdstat_evalsha:", "writes go to primaries")
	})
}

// Calls go to the primary that the sentinels name.
func TestSentinel(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		sentinel := e.StartSentinel(t)
		option := sentinel.Option()
		client := redis.NewUniversalClient(
			&redis.UniversalOptions{MasterName: option.Sentinel.MasterSet, Addrs: option.InitAddress})
		defer client.Close()
		lock := gen.AcquireParams{Lock: "job", Queue: "job", Token: "mine", TTL: time.Hour}
		got, err := gen.New().Acquire(t.Context(), client, lock)
		require.NoError(t, err)
		require.EqualValues(t, 1, got.Outcome)
		reply := sentinel.Primary.Do(t, "GET", "job")
		value, err := reply.ToString()
		require.NoError(t, err)
		require.Equal(t, "mine", value)
	})
}

// The rule of the audit is enough for go-redis, on one server and on a cluster.
func TestRule(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		rule := []string{"ACL", "SETUSER", "app", "on", ">secret", "~k", "+eval", "+evalsha", "+incr"}
		server.Do(t, rule...)
		user := single(t, server, func(o *redis.Options) { o.Username, o.Password = "app", "secret" })
		for n := range 2 {
			got, err := count(t.Context(), reads.New(), user)
			require.NoError(t, err)
			require.Equal(t, int64(n+1), got)
		}

		cluster := e.StartCluster(t)
		for _, node := range cluster.Nodes {
			node.Do(t, append(slices.Clone(rule), "+cluster|slots", "+command", "+asking")...)
		}
		users := clustered(t, cluster, func(o *redis.ClusterOptions) { o.Username, o.Password = "app", "secret" })
		for n := range 2 {
			got, err := count(t.Context(), reads.New(), users)
			require.NoError(t, err)
			require.Equal(t, int64(n+1), got)
		}
	})
}

// fake is a Caller for the tests of a program.
type fake struct {
	reads.Caller
	calls atomic.Int32
}

func (f *fake) Count(context.Context, redis.UniversalClient, reads.CountParams) (int64, error) {
	return int64(f.calls.Add(1)), nil
}

func visits(ctx context.Context, c reads.Caller, client redis.UniversalClient) (string, error) {
	n, err := c.Count(ctx, client, reads.CountParams{K: "visits"})
	return fmt.Sprint(n, " visits"), err
}

// A program that takes a Caller can be tested without a server.
func TestFake(t *testing.T) {
	t.Parallel()
	for want := range 2 {
		got, err := visits(t.Context(), new(fake), nil)
		require.NoError(t, err)
		require.Equal(t, "1 visits", got, want)
	}
	var _ reads.Caller = reads.New()
}

// A context that is over is the reason that a call gives.
func TestContext(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := single(t, server)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := count(ctx, reads.New(), client)
	require.ErrorIs(t, err, context.Canceled)
	require.True(t, strings.HasPrefix(err.Error(), "reads: Count: "), err)
	require.ErrorIs(t, reads.New().CountBatch(ctx, client, []reads.CountParams{{K: "k"}})[0].Err,
		context.Canceled)
	require.False(t, errors.As(err, new(*reads.ReplyError)))
}
