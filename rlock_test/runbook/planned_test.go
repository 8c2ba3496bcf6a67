//go:build unix

package runbook

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A planned failover loses no lock that was held before it, and those who wait or call again have their locks
// within a lease. With -v it prints what the runbook says of that.
func TestPlannedFailover(t *testing.T) {
	env.Long(t)
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Run("sentinel", func(t *testing.T) {
			s := e.StartSentinel(t)
			plannedFailover(t, s.Option(), func() { s.Switch(t) })
		})
		t.Run("sentinel, while writes are paused", func(t *testing.T) {
			s := e.StartSentinel(t)
			lost := plannedFailover(t, s.Option(), func() {
				s.Primary.Do(t, "CLIENT", "PAUSE", "5000", "WRITE")
				s.Switch(t)
			})
			require.Zero(t, lost, "the replica has had all of them")
		})
		t.Run("cluster", func(t *testing.T) {
			c := e.StartReplicatedCluster(t)
			option := c.Nodes[0].Option()
			option.InitAddress = c.Addrs()
			option.ClusterOption.ShardsRefreshInterval = time.Second
			lost := plannedFailover(t, option, func() {
				c.Replicas[0].Do(t, "CLUSTER", "FAILOVER")
				env.Soon(t, func() bool {
					reply := c.Replicas[0].Do(t, "ROLE")
					role, err := reply.ToArray()
					require.NoError(t, err)
					name, err := role[0].ToString()
					return err == nil && name == "master"
				}, "the replica takes over")
			})
			require.Zero(t, lost, "the replica has had all of them")
		})
	})
}

// plannedFailover has sixteen callers use eight keys while a failover is made, and returns how many locks
// were lost.
func plannedFailover(t *testing.T, option rueidis.ClientOption, failover func()) (lost int) {
	const lease = 10 * time.Second
	locker := env.OpenLocker(t, option, rlock.WithTTL(lease))
	var keys []string // of the node that is replaced
	for _, key := range env.Keys(60) {
		if env.FirstOwner(key) == 0 {
			keys = append(keys, key)
		}
	}
	require.Greater(t, len(keys), 8)
	held := make([]*rlock.Lock, len(keys[8:]))
	for i, key := range keys[8:] {
		var err error
		held[i], err = locker.Acquire(t.Context(), key, rlock.WithAutoExtend(true))
		require.NoError(t, err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var (
		all     sync.WaitGroup
		mu      sync.Mutex
		longest time.Duration
		failed  []error
	)
	for i := range 16 { // two processes for each of eight keys
		l := env.OpenLocker(t, option, rlock.WithTTL(lease))
		all.Go(func() {
			for ctx.Err() == nil {
				began := time.Now()
				lock, err := l.Acquire(ctx, keys[i/2])
				if err == nil {
					time.Sleep(time.Millisecond)
					err = lock.Release(context.WithoutCancel(ctx))
				}
				if ctx.Err() != nil {
					return
				}
				mu.Lock()
				longest = max(longest, time.Since(began))
				if err != nil {
					failed = append(failed, err)
				}
				if errors.Is(err, rlock.ErrNotHeld) {
					lost++
				}
				mu.Unlock()
			}
		})
	}
	time.Sleep(2 * time.Second)
	failover()
	time.Sleep(lease + 5*time.Second)
	stop()
	all.Wait()
	t.Logf("the longest wait: %v; %d locks lost; errors: %v", longest.Round(10*time.Millisecond), lost, failed)
	require.Less(t, longest, lease+3*time.Second)
	for _, lock := range held {
		require.NoError(t, lock.Err())
		require.NoError(t, lock.Verify(t.Context()), "it has come along")
	}
	return lost
}

// A newer server follows an older one and takes over with the locks, those who wait and the fences.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	old := env.Engines(t)[0]
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		before, after := old.Start(t, "--repl-diskless-sync-delay", "0"), e.Start(t)
		holder := open(t, before, "web-3")
		lock := env.TakeEach(t, holder, []string{"app:order:17"}, rlock.WithTTL(time.Minute))[0]
		after.Follow(t, before)
		after.Do(t, "REPLICAOF", "NO", "ONE")
		next := open(t, after, "web-4")
		require.Equal(t, "web-3", env.HolderOf(t, next, "app:order:17").Owner)
		took := env.NextInLine(t, next, "app:order:17")
		attached, err := open(t, after, "web-3").Attach(t.Context(), env.Detach(t, lock))
		require.NoError(t, err)
		require.NoError(t, attached.Release(t.Context()))
		require.Greater(t, env.Taken(t, took).Fence(), lock.Fence())
	})
}
