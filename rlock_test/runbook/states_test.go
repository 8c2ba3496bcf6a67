//go:build unix

package runbook

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// states bring servers into the state that a section describes, by its title, and return the variables of the
// shell that its commands run in.
var states = map[string]func(t *testing.T, e env.Engine) []string{
	"RlockLost":                        idle,
	"RlockNoAnswer":                    dead,
	"RlockRefused":                     refused,
	"RlockStuck":                       stuck,
	"RlockSilent":                      stuck,
	"RlockSlow":                        stuck,
	"RlockPolls":                       polls,
	"READONLY":                         replica,
	"OOM":                              full,
	"NOPERM":                           forbidden,
	"WRONGPASS":                        wrongPassword,
	"CLUSTERDOWN":                      clusterDown,
	"Max number of clients":            crowded,
	"EOF":                              idle,
	"A hung function":                  stuck,
	"Exit codes":                       nightly,
	"Restart or upgrade with Sentinel": sentinel,
	"Restart or upgrade of a cluster":  cluster,
	"Restart of one server":            idle,
	"Passwords":                        password,
	"Draining a service":               drained,
}

func url(s *env.Server) string { return "RLOCK_URL=redis://" + s.Addr() }

func idle(t *testing.T, e env.Engine) []string { return []string{url(e.Start(t))} }

func dead(t *testing.T, e env.Engine) []string {
	server := e.Start(t)
	server.Kill()
	return []string{url(server)}
}

func refused(t *testing.T, e env.Engine) []string {
	server := e.Start(t)
	server.Do(t, "LPUSH", "app:list", "1")
	require.ErrorContains(t, env.ErrorOf(open(t, server, "web-3").TryAcquire(t.Context(), "app:list")),
		"WRONGTYPE")
	return []string{url(server)}
}

// open returns a Locker of a service.
func open(t *testing.T, server *env.Server, owner string) *rlock.Locker {
	t.Helper()
	return env.OpenLocker(t, server.Option(), rlock.WithOwner(owner), rlock.WithTTL(30*time.Second))
}

// stuck has web-3 hold two keys, and web-4 wait for one of them.
func stuck(t *testing.T, e env.Engine) []string {
	server := e.Start(t)
	env.TakeEach(t, open(t, server, "web-3"), []string{"app:order:17", "app:order:18"},
		rlock.WithAutoExtend(true))
	waiter := open(t, server, "web-4")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = waiter.Acquire(ctx, "app:order:17") // until the test ends
	}()
	t.Cleanup(func() { cancel(); <-done })
	env.AwaitWaiting(t, waiter, 1)
	env.Soon(t, func() bool { return len(env.Inspect(t, waiter, "app:order:17").Waiters) == 1 },
		"it stands in the queue")
	return []string{url(server)}
}

func nightly(t *testing.T, e env.Engine) []string {
	server := e.Start(t)
	env.TakeEach(t, open(t, server, "web-3"), []string{"app:nightly"}, rlock.WithAutoExtend(true))
	return []string{url(server)}
}

// user makes a user with rights, whose password is secret.
func user(t *testing.T, server *env.Server, rights string) {
	t.Helper()
	server.Do(t, append([]string{"ACL", "SETUSER", "app", "reset", "on", ">secret"},
		strings.Fields(rights)...)...)
}

func polls(t *testing.T, e env.Engine) []string {
	server := e.Start(t)
	user(t, server, "~app:* ~rlock:fence:* +@all -@admin -@dangerous +info +role")
	return []string{"RLOCK_URL=redis://app:secret@" + server.Addr()}
}

func replica(t *testing.T, e env.Engine) []string { return []string{url(e.StartPair(t).Replica)} }

func full(t *testing.T, e env.Engine) []string {
	server := e.Start(t, "--maxmemory", "4mb", "--maxmemory-policy", "noeviction")
	client := server.Client(t)
	for i := 0; ; i++ {
		if err := env.Do(t, client, "SET", fmt.Sprint("filler:", i),
			strings.Repeat("x", 10_000)).Error(); err != nil {
			require.ErrorContains(t, err, "OOM")
			break
		}
	}
	require.ErrorContains(t, env.ErrorOf(open(t, server, "web-3").TryAcquire(t.Context(), "app:order:17")),
		"OOM")
	return []string{url(server)}
}

func forbidden(t *testing.T, e env.Engine) []string {
	server := e.Start(t)
	user(t, server, "~* &* +@all -pexpire")
	option := server.Option()
	option.Username, option.Password = "app", "secret"
	lock, err := env.OpenLocker(t, option).Acquire(t.Context(), "app:order:17")
	require.NoError(t, err)
	require.Regexp(t, env.NoPermission, lock.Extend(t.Context(), time.Minute).Error())
	return []string{url(server)}
}

func wrongPassword(t *testing.T, e env.Engine) []string {
	server := e.Start(t)
	user(t, server, "~* &* +@all")
	option := server.Option()
	option.Username, option.Password = "app", "another"
	require.ErrorContains(t, env.ErrorOf(rlock.Open(option)), "WRONGPASS")
	return []string{url(server)}
}

func clusterDown(t *testing.T, e env.Engine) []string {
	c := e.StartReplicatedCluster(t)
	c.Replicas[2].Do(t, "CONFIG", "SET", "cluster-replica-no-failover", "yes")
	c.Nodes[2].Kill()
	require.Eventually(t, func() bool {
		reply := c.Nodes[0].Do(t, "CLUSTER", "INFO")
		info, err := reply.ToString()
		return err == nil && strings.Contains(info, "cluster_state:fail")
	}, time.Minute, 50*time.Millisecond)
	return []string{url(c.Nodes[0]), "REPLICA_URL=redis://" + c.Replicas[2].Addr()}
}

func crowded(t *testing.T, e env.Engine) []string {
	server := e.Start(t, "--maxclients", "40")
	for range 3 {
		open(t, server, "web-3")
	}
	return []string{url(server)}
}

func sentinel(t *testing.T, e env.Engine) []string {
	s := e.StartSentinel(t)
	sentinels := s.Option()
	return []string{url(s.Primary), "SENTINEL_URL=redis://" + s.Sentinels[0].Addr(),
		"MASTER=" + sentinels.Sentinel.MasterSet}
}

func cluster(t *testing.T, e env.Engine) []string {
	c := e.StartReplicatedCluster(t)
	return []string{url(c.Nodes[0]), "REPLICA_URL=redis://" + c.Replicas[0].Addr()}
}

func password(t *testing.T, e env.Engine) []string {
	file := filepath.Join(t.TempDir(), "users.acl")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	server := e.Start(t, "--aclfile", file)
	server.Do(t, "ACL", "SETUSER", "app", "reset", "on", ">the-old-one", "~*", "&*", "+@all")
	return []string{url(server), "RLOCK_HOST=" + server.Addr()}
}

// drained has a service that has held a lock end in order.
func drained(t *testing.T, e env.Engine) []string {
	server := e.Start(t)
	service := open(t, server, "web-3")
	env.TakeEach(t, service, []string{"app:order:17"}, rlock.WithAutoExtend(true))
	require.NoError(t, service.Shutdown(t.Context()))
	return []string{url(server)}
}
