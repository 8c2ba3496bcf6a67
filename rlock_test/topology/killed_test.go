package topology

import (
	"context"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A primary of a cluster is killed under load. Callers of the other nodes go on, those of its keys do once
// its replica has taken over, and what was given up meanwhile is free a second and a half after that.
func TestClusterPrimaryIsKilledUnderLoad(t *testing.T) {
	t.Parallel()
	c := env.Engines(t)[0].StartReplicatedCluster(t)
	const dead, other = 1, 2
	option := rueidis.ClientOption{InitAddress: c.Addrs()}
	given, list := env.OpenLocker(t, option, rlock.WithTTL(time.Hour)), []*rlock.Lock(nil)
	var keys []string
	for _, take := range kinds {
		lock := take(t, given, keyFrom(c, dead, 1000*(len(list)+1)))
		list, keys = append(list, lock), append(keys, lock.Keys()...)
	}

	ctx, stop := context.WithCancel(t.Context())
	var all sync.WaitGroup
	load := func(node int) *pace {
		p, tag := new(pace), "{"+keyFrom(c, node, 0)+"}"
		acquire := map[string]func(l *rlock.Locker) (*rlock.Lock, error){
			"whole":  func(l *rlock.Locker) (*rlock.Lock, error) { return l.Acquire(ctx, tag+"whole") },
			"writer": func(l *rlock.Locker) (*rlock.Lock, error) { return l.Acquire(ctx, tag+"shared") },
			"reader": func(l *rlock.Locker) (*rlock.Lock, error) { return l.AcquireShared(ctx, tag+"shared") },
			"permit": func(l *rlock.Locker) (*rlock.Lock, error) { return l.AcquirePermits(ctx, tag+"permit", 1, 2) },
			"set": func(l *rlock.Locker) (*rlock.Lock, error) {
				return l.AcquireAll(ctx, []string{tag + "a", tag + "b"})
			},
		}
		for range 3 {
			l := env.OpenLocker(t, option, rlock.WithTTL(5*time.Second))
			for what, take := range acquire {
				all.Go(func() {
					for start := time.Now(); ctx.Err() == nil; {
						lock, err := take(l)
						if err != nil {
							time.Sleep(time.Millisecond)
							continue
						}
						p.waited(what, time.Since(start))
						_ = lock.Release(context.WithoutCancel(ctx))
						start = time.Now()
					}
				})
			}
		}
		return p
	}
	ofDead, ofOther := load(dead), load(other)
	time.Sleep(time.Second)
	killed := time.Now()
	all.Go(func() {
		for err := error(nil); err == nil; time.Sleep(time.Millisecond) { // until the primary is dead
			var conn net.Conn
			if conn, err = net.Dial("tcp", c.Nodes[dead].Addr()); err == nil {
				_ = conn.Close()
			}
		}
		given.ReleaseEach(t.Context(), list)
	})
	c.Failover(t, dead)
	began := time.Now()
	for last, late := time.Now(), time.Duration(0); ; last = time.Now() {
		keys = slices.DeleteFunc(keys, func(key string) bool {
			reply := c.Replicas[dead].Do(t, "EXISTS", key)
			n, err := reply.ToInt64()
			require.NoError(t, err)
			return n == 0
		})
		if late = max(late, time.Since(last)-5*time.Millisecond); len(keys) == 0 { // so busy is the machine
			break
		}
		require.Less(t, time.Since(began), 1500*time.Millisecond+5*late, keys)
		time.Sleep(5 * time.Millisecond)
	}
	t.Logf("the replica took over after %v; what was given up is free %v later", began.Sub(killed),
		time.Since(began))
	before := [...]int{ofDead.counted(), ofOther.counted()}
	time.Sleep(6 * time.Second)
	require.Greater(t, ofDead.counted(), before[0], "callers of its keys go on")
	require.Greater(t, ofOther.counted(), before[1], "those of another node too")
	stop()
	all.Wait()
	t.Logf("%d locks of the dead node, the longest wait %v for a %s", ofDead.count, ofDead.longest, ofDead.of)
	t.Logf("%d locks of another node, the longest wait %v for a %s", ofOther.count, ofOther.longest, ofOther.of)
}
