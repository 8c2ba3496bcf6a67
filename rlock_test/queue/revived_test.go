package queue

import (
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/rlocktest"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// place is one of a queue, as a replica may have it that is promoted too late to know that it has been
// served.
type place struct{ queue, score, member string }

// places returns those of the queue of a key.
func places(t *testing.T, client rueidis.Client, key string) (all []place) {
	t.Helper()
	name := queueOf(t, client, key)
	scores, err := env.Do(t, client, "ZRANGE", name, "0", "-1", "WITHSCORES").AsZScores()
	require.NoError(t, err)
	for i, member := range queued(t, client, key) {
		all = append(all, place{name, strconv.FormatFloat(scores[i].Score, 'f', -1, 64), member})
	}
	return all
}

// revives puts places back into the queue of a key, which nobody of those who live owns for a second more.
func revives(t *testing.T, client rueidis.Client, key string, all []place) {
	t.Helper()
	require.NoError(t, env.Do(t, client, "SET", key, "released, which the replica does not know", "PX",
		"1000").Error())
	for _, p := range all {
		stands(t, client, p.queue, p.score, p.member)
	}
}

// inBubble runs a test under a false clock, with a server in memory. Each Locker is a process of its own.
func inBubble(t *testing.T, test func(t *testing.T, client rueidis.Client, open func() *rlock.Locker)) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := rlocktest.StartInMemory(t)
		client, err := server.Client()
		require.NoError(t, err)
		t.Cleanup(client.Close)
		test(t, client, func() *rlock.Locker { return env.OpenLocker(t, server.Option()) })
	})
}

// Of a replica that was promoted too late, the queue has places that were served. Whoever is granted the key
// for one of them lives, and does not have what it waited for any more: it gives the key back at once,
// however many there are. Each would cost its lease otherwise.
func TestRevivedPlaces(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		n      int
		served func(t *testing.T, l *rlock.Locker, got <-chan *rlock.Lock)
		opts   []rlock.Option
	}{
		"one":            {n: 1},
		"five":           {n: 5},
		"without an end": {n: 2, opts: []rlock.Option{rlock.WithTTL(rlock.NoExpiry)}},
		"without fences": {n: 2, opts: []rlock.Option{rlock.WithFence(false)}},
		"whose leases have ended": {n: 2, served: func(t *testing.T, _ *rlock.Locker, got <-chan *rlock.Lock) {
			<-env.Taken(t, got).Context().Done()
		}},
		"whose leases have ended unnoticed": {n: 1,
			served: func(t *testing.T, l *rlock.Locker, got <-chan *rlock.Lock) {
				lock := env.Taken(t, got)
				time.Sleep(time.Minute)
				require.Error(t, lock.Err())
				for i := range 2_000 { // whose registry forgets it
					env.MustLock(t)(l.Acquire(t.Context(), "other"+strconv.Itoa(i), rlock.WithTTL(time.Hour)))
				}
			}},
		"that were handed on": {n: 1, served: func(t *testing.T, l *rlock.Locker, got <-chan *rlock.Lock) {
			lock := env.Taken(t, got)
			next := env.NextInLine(t, l, "k")
			require.NoError(t, lock.Release(t.Context()))
			require.NoError(t, env.Taken(t, next).Release(t.Context()))
		}},
		"that were handed on to another lease": {n: 1,
			served: func(t *testing.T, l *rlock.Locker, got <-chan *rlock.Lock) {
				lock := env.Taken(t, got)
				require.NotEmpty(t, lock.Token())
				next := env.NextInLine(t, l, "k")
				require.NoError(t, lock.Release(t.Context()))
				require.NoError(t, env.Taken(t, next).Release(t.Context()))
			}},
		"that have got another token": {n: 1, served: func(t *testing.T, l *rlock.Locker, got <-chan *rlock.Lock) {
			lock := env.Taken(t, got)
			require.NoError(t, lock.Extend(t.Context(), time.Second))
			require.NoError(t, lock.Release(t.Context()))
		}},
		"that keep others out": {n: 1, opts: []rlock.Option{rlock.WithMinHold(5 * time.Second)},
			served: func(t *testing.T, l *rlock.Locker, got <-chan *rlock.Lock) {
				require.NoError(t, env.Taken(t, got).Release(t.Context()))
				time.Sleep(10 * time.Second)
			}},
		"that were detached": {n: 1, served: func(t *testing.T, l *rlock.Locker, got <-chan *rlock.Lock) {
			lock, err := l.Attach(t.Context(), env.Detach(t, env.Taken(t, got)))
			require.NoError(t, err)
			require.NoError(t, lock.Release(t.Context()))
			time.Sleep(2 * time.Minute)
		}},
		"that were released together": {n: 1, served: func(t *testing.T, l *rlock.Locker, got <-chan *rlock.Lock) {
			require.Equal(t, []error{nil}, l.ReleaseEach(t.Context(), []*rlock.Lock{env.Taken(t, got)}))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, client rueidis.Client, open func() *rlock.Locker) {
				held := env.MustLock(t)(open().Acquire(t.Context(), "k", rlock.WithTTL(time.Hour)))
				lockers, got := make([]*rlock.Locker, test.n), make([]<-chan *rlock.Lock, test.n)
				for i := range lockers {
					lockers[i] = open()
					got[i] = waits(t, client, lockers[i], "k", test.opts...)
				}
				all := places(t, client, "k")
				require.Len(t, all, test.n)
				require.NoError(t, held.Release(t.Context()))
				for i := range lockers {
					if test.served != nil {
						test.served(t, lockers[i], got[i])
					} else {
						require.NoError(t, env.Taken(t, got[i]).Release(t.Context()))
					}
				}
				idle(t, client, "k")

				revives(t, client, "k", all)
				start := time.Now()
				lock := env.MustLock(t)(open().Acquire(t.Context(), "k"))
				// The key is free after a second. A look that comes too early is made up for by a heartbeat.
				require.Less(t, time.Since(start), 2300*time.Millisecond)
				require.NoError(t, lock.Release(t.Context()))
				idle(t, client, "k")
			})
		})
	}
}

// After FLUSHALL all who wait join again at once: the last of them need not wait until its next heartbeat.
func TestQueueAfterAFlush(t *testing.T) {
	inBubble(t, func(t *testing.T, client rueidis.Client, open func() *rlock.Locker) {
		const n = 30
		held := env.MustLock(t)(open().Acquire(t.Context(), "k", rlock.WithTTL(time.Hour),
			rlock.WithAutoExtend(true)))
		served := make(chan error, n)
		for range n {
			got := waits(t, client, open(), "k")
			go func() { served <- (<-got).Release(t.Context()) }()
		}
		start := time.Now()
		require.NoError(t, env.Do(t, client, "FLUSHALL").Error())
		for range n {
			require.NoError(t, <-served)
		}
		require.Less(t, time.Since(start), 100*time.Millisecond)
		env.AwaitEnd(t, held, rlock.ErrLost)
		idle(t, client, "k")
	})
}
