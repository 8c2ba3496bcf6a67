package generator

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock_test/env"
)

// reader is a module of a caller whose client sends reads of a cluster to replicas. It prints what
// it reads of one key of each node, alone, in a batch, and without a key.
var reader = map[string]string{
	"lua/look.lua": "-- mode: read\n-- KEYS[1] k key\n-- returns: string?\nreturn redis.call('GET', KEYS[1])\n",
	"lua/store.lua": "-- mode: write\n-- KEYS[1] k key\n-- ARGV[1] v string\n-- returns: ok\nreturn " +
		"redis.call('SET', KEYS[1], ARGV[1])\n",
	"lua/sum.lua": "-- mode: read\n-- ARGV[1] a int\n-- ARGV[2] b int\n-- returns: int\nreturn ARGV[1] + " +
		"ARGV[2]\n",
	"main.go": `package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/redis/rueidis"

	"example.test/reader/bindings"
)

func main() {
	ctx, scripts := context.Background(), bindings.New()
	client, err := rueidis.NewClient(rueidis.ClientOption{
		InitAddress:    os.Args[1:],
		SendToReplicas: func(cmd rueidis.Completed) bool { return cmd.IsReadOnly() },
	})
	if err != nil {
		panic(err)
	}
	defer client.Close()
	var params []bindings.LookParams
	for _, key := range []string{"{a}", "{b}", "{c}"} { // one of each node
		if err := scripts.Store(ctx, client, bindings.StoreParams{K: key, V: "of " + key}); err != nil {
			panic(err)
		}
		for { // until the replica has it
			got, err := scripts.Look(ctx, client, bindings.LookParams{K: key})
			if err != nil {
				panic(err)
			}
			if got.Valid {
				fmt.Println(got.V)
				break
			}
			time.Sleep(time.Millisecond)
		}
		params = append(params, bindings.LookParams{K: key})
	}
	for _, reply := range scripts.LookBatch(ctx, client, params) {
		fmt.Println(reply.Value.V, reply.Err)
	}
	fmt.Println(scripts.Sum(ctx, client, bindings.SumParams{A: 2, B: 3}))
}
`,
}

// With -replicas, scripts that read go to the replicas of a cluster whose client asks for that,
// and scripts that write to the primaries. Without it, all go to the primaries.
func TestReplicas(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFiles(t, dir, reader)
	stranger(t, dir, "example.test/reader", false)
	for flag, onReplicas := range map[string]bool{"-replicas": true, "-replicas=false": false} {
		_, stderr, err := run(t, root, nil, "run", "./generator/redislua", "-scripts", filepath.Join(dir, "lua"),
			"-out", filepath.Join(dir, "bindings"), flag)
		require.NoError(t, err, stderr)
		binary := filepath.Join(dir, "reader"+flag+".exe")
		_, stderr, err = run(t, dir, offline, "build", "-o", binary, ".")
		require.NoError(t, err, stderr)
		t.Run(flag, func(t *testing.T) {
			t.Parallel()
			env.Each(t, func(t *testing.T, e env.Engine) {
				cluster := e.StartReplicatedCluster(t)
				for _, s := range slices.Concat(cluster.Nodes, cluster.Replicas) {
					require.Eventually(t, func() bool { // a client asks any of them who the replicas are
						slots := s.Do(t, "CLUSTER", "SLOTS")
						ranges, err := slots.ToArray()
						return err == nil && len(ranges) >= 3 &&
							!slices.ContainsFunc(ranges, func(r rueidis.RedisMessage) bool {
								parts, err := r.ToArray()
								return err != nil || len(parts) < 4 // first, last, primary, replica
							})
					}, 30*time.Second, 20*time.Millisecond)
				}
				require.Equal(t, []string{"of {a}", "of {b}", "of {c}", "of {a} <nil>", "of {b} <nil>", "of {c} <nil>",
					"5 <nil>"},
					lines(program(t, binary, cluster.Addrs()...)))
				stats := func(servers []*env.Server) (all string) {
					for _, s := range servers {
						info := s.Do(t, "INFO", "commandstats")
						text, err := info.ToString()
						require.NoError(t, err)
						all += text
					}
					return all
				}
				require.Equal(t, onReplicas, strings.Contains(stats(cluster.Replicas), "cmdstat_evalsha_ro"),
					"reads go to replicas")
				if onReplicas { // otherwise the call without a key may go to any node
					require.NotContains(t, stats(cluster.Replicas), "cmdstat_evalsha:", "writes go to primaries")
				}
				require.Equal(t, onReplicas, strings.Contains(stats(cluster.Nodes)+stats(cluster.Replicas), "evalsha_ro"),
					"without -replicas, EVALSHA reads too")
			})
		})
	}
}

// program runs a binary and returns what it printed.
func program(t *testing.T, binary string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), binary, args...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	require.NoError(t, err)
	return string(out)
}
