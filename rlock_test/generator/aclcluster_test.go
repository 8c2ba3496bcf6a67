package generator

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// clusterWords returns what the rule of PRODUCTION.md needs besides on a cluster.
func clusterWords(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile(filepath.Join(root, "docs", "PRODUCTION.md"))
	require.NoError(t, err)
	words := regexp.MustCompile("On a cluster add `([^`]*)`").FindSubmatch(page)
	require.NotNil(t, words)
	return strings.Fields(string(words[1]))
}

// On a cluster, the rule of PRODUCTION.md with what it adds for one is enough, also while
// a slot moves.
func TestRuleOnACluster(t *testing.T) {
	t.Parallel()
	words := append(rule(t, "app"), clusterWords(t)...)
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		for _, node := range cluster.Nodes {
			node.Do(t, append([]string{"ACL", "SETUSER", "app", "reset"}, words...)...)
		}
		locker := env.OpenLocker(t, rueidis.ClientOption{InitAddress: cluster.Addrs(), Username: "app",
			Password: "secret"})
		for _, key := range []string{"app:{a}", "app:{b}", "app:{c}"} { // one of each node
			require.NoError(t, locker.Do(t.Context(), key, func(ctx context.Context, lock *rlock.Lock) error {
				return lock.Extend(ctx, time.Minute)
			}))
			_, err := locker.Check(t.Context(), key)
			require.NoError(t, err)
		}

		held, err := locker.Acquire(t.Context(), "app:{a}", rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		m := env.SplitSlot(t, cluster, "app:{a}")
		// Without the right to ask at the new place, the client goes from one to the other.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		require.NoError(t, held.Extend(ctx, time.Hour))
		m.Carry(t)
		m.End(t)
		require.NoError(t, held.Release(t.Context()))
	})
}
