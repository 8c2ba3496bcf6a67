package topology

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// kinds take locks of each kind that a release has a script of its own for.
var kinds = map[string]func(t *testing.T, l *rlock.Locker, key string) *rlock.Lock{
	"key": func(t *testing.T, l *rlock.Locker, key string) *rlock.Lock {
		return env.MustLock(t)(l.Acquire(t.Context(), key))
	},
	"set": func(t *testing.T, l *rlock.Locker, key string) *rlock.Lock {
		return env.MustLock(t)(l.AcquireAll(t.Context(), []string{key, "{" + key + "}2"}))
	},
	"share": func(t *testing.T, l *rlock.Locker, key string) *rlock.Lock {
		return env.MustLock(t)(l.AcquireShared(t.Context(), key))
	},
}

// soonFree waits until a node has a key no longer. That takes less than a call to a silent node does.
func soonFree(t *testing.T, node *env.Server, key string) {
	t.Helper()
	env.Soon(t, func() bool {
		reply := node.Do(t, "EXISTS", key)
		n, err := reply.ToInt64()
		require.NoError(t, err)
		return n == 0
	}, key+" is free")
}

// Locks of several kinds are released together while one node is silent: those of the others are free soon,
// also if such a node does not know the scripts any more.
func TestReleaseEachBesideASilentNode(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		require.NoError(t, gen.New().Load(t.Context(), cluster.Client(t)))
		l := openOn(t, cluster, rlock.WithTTL(time.Hour))
		var all, free []*rlock.Lock
		n := 0
		for _, take := range kinds {
			for node := range cluster.Nodes {
				n += 1000
				lock := take(t, l, keyFrom(cluster, node, n))
				if all = append(all, lock); node < 2 {
					free = append(free, lock)
				}
			}
		}
		cluster.Nodes[1].Do(t, "SCRIPT", "FLUSH")
		cluster.Nodes[2].Stop()
		t.Cleanup(cluster.Nodes[2].Cont)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		released := make(chan []error, 1)
		go func() { released <- l.ReleaseEach(ctx, all) }()
		for _, lock := range free {
			soonFree(t, cluster.Nodes[env.FirstOwner(lock.Key())], lock.Key())
		}
		for i, err := range env.Receive(t, released) {
			if env.FirstOwner(all[i].Key()) == 2 {
				require.Error(t, err)
			} else {
				require.NoError(t, err)
			}
		}
	})
}

// Who wants a lock of another node in the same process has it while ReleaseEach still waits for the silent
// one.
func TestAcquireDuringReleaseEachBesideASilentNode(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		require.NoError(t, gen.New().Load(t.Context(), cluster.Client(t)))
		l := openOn(t, cluster, rlock.WithTTL(time.Hour))
		silent, other, least := keyOn(t, cluster, 2), keyOn(t, cluster, 0), keyOn(t, cluster, 1)
		locks := []*rlock.Lock{
			env.MustLock(t)(l.Acquire(t.Context(), silent)), env.MustLock(t)(l.Acquire(t.Context(), other)),
			env.MustLock(t)(l.Acquire(t.Context(), least, rlock.WithMinHold(time.Second))),
		}
		cluster.Nodes[2].Stop()
		t.Cleanup(cluster.Nodes[2].Cont)
		ctx, cancel := context.WithCancel(t.Context())
		released := make(chan []error, 1)
		go func() { released <- l.ReleaseEach(ctx, locks) }()
		for _, lock := range locks[1:] {
			require.NoError(t, env.MustLock(t)(l.Acquire(t.Context(), lock.Key())).Release(t.Context()))
		}
		require.Empty(t, released, "it waits for the silent node")
		cancel()
		errs := env.Receive(t, released)
		require.Error(t, errs[0])
		require.NoError(t, errs[1])
		require.NoError(t, errs[2])
	})
}

// A set of several slots is released while one of its nodes is silent: its keys at the others are free
// soon, whether they are one or several of a slot.
func TestCrossSlotReleaseBesideASilentNode(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		l := openOn(t, cluster, rlock.WithTTL(time.Hour), rlock.WithCrossSlot(true))
		two, one := "{"+keyOn(t, cluster, 0)+"}", keyOn(t, cluster, 1)
		lock := env.MustLock(t)(l.AcquireAll(t.Context(),
			[]string{two + "1", two + "2", one, keyOn(t, cluster, 2)}))
		cluster.Nodes[2].Stop()
		t.Cleanup(cluster.Nodes[2].Cont)
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		require.Error(t, lock.Release(ctx))
		soonFree(t, cluster.Nodes[0], two+"1")
		soonFree(t, cluster.Nodes[0], two+"2")
		soonFree(t, cluster.Nodes[1], one)
	})
}

// What is freed in the background while one node is silent is free at the others soon, whatever kinds there
// are.
func TestBackgroundReleaseBesideASilentNode(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		cluster := e.StartCluster(t)
		f := &env.Faulty{Client: cluster.Client(t)}
		require.NoError(t, gen.New().Load(t.Context(), f.Client))
		l := env.NewLocker(t, f, rlock.WithTTL(time.Hour))
		var locks []*rlock.Lock
		for node, kind := range []string{"set", "key", "share"} {
			locks = append(locks, kinds[kind](t, l, keyOn(t, cluster, node)))
		}
		cluster.Nodes[2].Stop()
		t.Cleanup(cluster.Nodes[2].Cont)
		f.When(func([]string, func() rueidis.RedisResult) rueidis.RedisResult { return env.NoReply() })
		for _, err := range l.ReleaseEach(t.Context(), locks) {
			require.Error(t, err)
		}
		f.When(nil)
		soonFree(t, cluster.Nodes[0], locks[0].Key())
		soonFree(t, cluster.Nodes[1], locks[1].Key())
	})
}
