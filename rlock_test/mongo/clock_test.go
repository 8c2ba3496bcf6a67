package mongo_test

import (
	"crypto/rand"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/rlock-go/toolkit/rlock"
)

// The servers' clock counts, whatever that of the process says.
func TestServersClock(t *testing.T) {
	t.Parallel()
	const ttl = 300 * time.Millisecond
	for name, shift := range map[string]time.Duration{"ahead": 30 * time.Hour, "behind": -30 * time.Hour} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := startProxy(t, ferret)
			p.set(rules{shift: shift})
			locks := collection(t, p.uri(), bson.NewObjectID().Hex())
			one, other := open(t, locks), open(t, locks)
			began := time.Now()
			acquire(t, one, "k", "a", ttl, true)
			require.Eventually(t, func() bool {
				acquired, _, err := other.Acquire(t.Context(), "k", "b", time.Hour)
				require.NoError(t, err)
				return acquired
			}, time.Minute, time.Millisecond)
			require.GreaterOrEqual(t, time.Since(began), ttl)
			expires, err := locks.FindOne(t.Context(), bson.D{{Key: "_id", Value: "k"}}).Raw()
			require.NoError(t, err)
			ahead := time.Until(expires.Lookup("expires").Time()) - time.Hour
			require.InDelta(t, shift, ahead, float64(10*time.Minute))
		})
	}
}

// Two servers, such as before and after a failover, have clocks that differ by as much as they may. Nobody
// takes the lease of another before it is over.
func TestNoOverlap(t *testing.T) {
	t.Parallel()
	const ttl = 50 * time.Millisecond
	name := bson.NewObjectID().Hex()
	var backends []rlock.Backend
	for _, shift := range []time.Duration{0, 99 * time.Millisecond, 40 * time.Millisecond} {
		p := startProxy(t, ferret)
		p.set(rules{shift: shift})
		backends = append(backends, open(t, collection(t, p.uri(), name)))
	}
	var (
		mu     sync.Mutex
		leases [][2]time.Duration // from when to when somebody counts on one, since began
		began  = time.Now()
		group  sync.WaitGroup
	)
	for worker := range 6 {
		b := backends[worker%len(backends)]
		group.Go(func() {
			for time.Since(began) < 5*time.Second {
				sent := time.Since(began)
				acquired, _, err := b.Acquire(t.Context(), "k", rand.Text(), ttl)
				if err != nil {
					t.Error(err)
					return
				}
				if acquired {
					mu.Lock()
					leases = append(leases, [2]time.Duration{time.Since(began), sent + ttl})
					mu.Unlock()
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	group.Wait()
	require.Greater(t, len(leases), 1)
	for i, one := range leases {
		for _, other := range leases[:i] {
			require.False(t, max(one[0], other[0]) < min(one[1], other[1]), "two count on %v and %v", one, other)
		}
	}
}
