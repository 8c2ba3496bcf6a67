package shared

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A share that is extended automatically lasts, and does not keep the share of a dead holder.
func TestShareIsExtended(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	l := env.OpenOn(t, server)
	const lease = 4 * time.Second
	dead := env.MustLock(t)(l.AcquirePermits(t.Context(), "k", 1, 2, rlock.WithTTL(lease)))
	live := env.MustLock(t)(l.AcquirePermits(t.Context(), "k", 1, 2, rlock.WithTTL(lease),
		rlock.WithAutoExtend(true)))
	env.Detach(t, dead)
	time.Sleep(lease + lease/2)
	require.NoError(t, live.Err())
	require.Equal(t, 1, len(env.Inspect(t, l, "k").Holders))
	require.NoError(t, live.Release(t.Context()))
	idle(t, server.Client(t))
}

// A share whose replies are lost is not left behind, and a lost reply of a release or an extension
// costs time and nothing else.
func TestSharesWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	f, l, client := env.NewFaulty(t, env.Engines(t)[0])
	lose := func(sha string, times int32) {
		var left atomic.Int32 // the reaper calls at the same time
		left.Store(times)
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			answer := run()
			if env.Calls(words, sha) && left.Add(-1) >= 0 {
				return env.NoReply()
			}
			return answer
		})
	}
	lose(gen.WaitSHA1, 1)
	lock := env.MustLock(t)(l.TryAcquirePermits(t.Context(), "k", 1, 1))
	require.Equal(t, 1, len(env.Inspect(t, l, "k").Holders))
	lose(gen.ExtendSHA1, 1)
	require.NoError(t, lock.Extend(t.Context(), time.Minute))
	lose(gen.ReleaseSHA1, 1)
	require.NoError(t, lock.Release(t.Context()))
	lose(gen.WaitSHA1, 3)
	require.Error(t, env.ErrorOf(l.TryAcquirePermits(t.Context(), "k", 1, 1)))
	lose("", 0)
	idle(t, client)
}

// queued returns once n wait for a key in its queue.
func queued(t *testing.T, client rueidis.Client, key string, n int64) {
	t.Helper()
	env.Soon(t, func() bool {
		names, _ := env.Do(t, client, "KEYS", "rlock:queue:{*}:"+key).AsStrSlice()
		if len(names) == 0 {
			return false
		}
		waiting, err := env.Do(t, client, "ZCARD", names[0]).AsInt64()
		return err == nil && waiting == n
	}, "they wait in the queue")
}

// Who gives up waiting leaves nothing, and those behind get in at once.
func TestReaderThatGivesUp(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	l := env.OpenOn(t, server)
	held := env.MustLock(t)(l.AcquirePermits(t.Context(), "k", 1, 2))
	ctx, cancel := context.WithCancel(t.Context())
	two := make(chan error, 1)
	go func() { two <- env.ErrorOf(l.AcquirePermits(ctx, "k", 2, 2)) }()
	queued(t, client, "k", 1)
	one := make(chan *rlock.Lock, 1)
	go func() { lock, _ := l.AcquirePermits(t.Context(), "k", 1, 2); one <- lock }()
	queued(t, client, "k", 2)
	cancel()
	require.ErrorIs(t, env.Receive(t, two), rlock.ErrGaveUp)
	lock := env.Receive(t, one)
	require.NoError(t, lock.Err())
	require.NoError(t, lock.Release(t.Context()))
	require.NoError(t, held.Release(t.Context()))
	idle(t, client)
}

// The readers behind a writer that gives up waiting get in at once: the server has let this one in before any
// heartbeat of it arrives.
func TestWriterThatGivesUp(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		f, l, client := env.NewFaulty(t, e)
		beat := env.NewGate(t)
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if env.Calls(words, gen.WaitSHA1) && slices.Contains(words, "heartbeat") {
				beat.Pass()
			}
			return run()
		})
		other := env.NewLocker(t, client, rlock.WithTTL(time.Hour))
		share := env.MustLock(t)(other.AcquireShared(t.Context(), "k"))
		ctx, cancel := context.WithCancel(t.Context())
		writer := make(chan error, 1)
		go func() { writer <- env.ErrorOf(other.Acquire(ctx, "k")) }()
		queued(t, client, "k", 1)
		reader := make(chan acquired, 1)
		go func() {
			lock, err := l.AcquireShared(t.Context(), "k", rlock.WithTTL(time.Hour))
			reader <- acquired{lock, err}
		}()
		queued(t, client, "k", 2)
		cancel()
		require.ErrorIs(t, env.Receive(t, writer), rlock.ErrGaveUp)
		env.Soon(t, func() bool { return held(t, other, "k") == 2 }, "the reader is let in")
		beat.Open()
		got := comes(t, reader)
		require.NoError(t, got.err)
		require.NoError(t, got.lock.Release(t.Context()))
		require.NoError(t, share.Release(t.Context()))
		idle(t, client)
	})
}

// Readers that wait get in when the key is deleted, when everything is, and when a writer that waits
// before them dies.
func TestWaitersOfSharesAreNotStranded(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		client := server.Client(t)
		for _, what := range []string{"DEL", "FLUSHALL"} {
			l := env.OpenOn(t, server)
			env.MustLock(t)(l.Acquire(t.Context(), "k", rlock.WithTTL(time.Hour)))
			readers := make(chan *rlock.Lock, 5)
			for range cap(readers) {
				go func() { lock, _ := l.AcquireShared(t.Context(), "k"); readers <- lock }()
			}
			env.AwaitWaiting(t, l, int64(cap(readers)))
			queued(t, client, "k", 1) // for all of them
			if what == "DEL" {
				env.Do(t, client, "DEL", "k")
			} else {
				env.Do(t, client, "FLUSHALL")
			}
			for range cap(readers) {
				lock := env.Receive(t, readers)
				require.NoError(t, lock.Err(), what)
				_ = lock.Release(t.Context())
			}
			env.Do(t, client, "FLUSHALL")
		}

		l, dying := env.OpenOn(t, server), env.OpenOn(t, server)
		held := env.MustLock(t)(l.AcquireShared(t.Context(), "w", rlock.WithTTL(time.Hour)))
		go func() { _, _ = dying.Acquire(t.Context(), "w") }()
		queued(t, client, "w", 1)
		reader := make(chan *rlock.Lock, 1)
		go func() { lock, _ := l.AcquireShared(t.Context(), "w"); reader <- lock }()
		queued(t, client, "w", 2)
		dying.Close()
		lock := env.Receive(t, reader)
		require.NoError(t, errors.Join(lock.Err(), held.Err()))
	})
}

// A process that stands still at the head of the queue stops those behind it for two seconds at most,
// whatever it wants, and however long the present holders have the lock. When it goes on, it has its place
// again.
func TestWaiterThatStandsStill(t *testing.T) {
	t.Parallel()
	take := func(acquire func() (*rlock.Lock, error)) chan acquired {
		got := make(chan acquired, 1)
		go func() {
			lock, err := acquire()
			got <- acquired{lock, err}
		}()
		return got
	}
	hour := rlock.WithTTL(time.Hour)
	reads := func(l *rlock.Locker) (*rlock.Lock, error) { return l.AcquireShared(t.Context(), "k", hour) }
	permit := func(l *rlock.Locker) (*rlock.Lock,
		error) {
		return l.AcquirePermits(t.Context(), "k", 1, 4, hour)
	}
	for name, test := range map[string]struct {
		others, still func(l *rlock.Locker) (*rlock.Lock, error)
	}{
		"a writer among readers": {
			reads, func(l *rlock.Locker) (*rlock.Lock, error) { return l.Acquire(t.Context(), "k", hour) },
		},
		"a reader among permits": {permit, reads},
		"one who wants all permits": {permit, func(l *rlock.Locker) (*rlock.Lock, error) {
			return l.AcquirePermits(t.Context(), "k", 4, 4, hour)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, still, client := env.NewFaulty(t, env.Engines(t)[0])
			first, err := test.others(env.NewLocker(t, client))
			require.NoError(t, err)
			waits := take(func() (*rlock.Lock, error) { return test.still(still) })
			queued(t, client, "k", 1)
			gate := env.NewGate(t)
			f.When(func(_ []string, run func() rueidis.RedisResult) rueidis.RedisResult { gate.Pass(); return run() })
			other := env.NewLocker(t, client)
			start := time.Now()
			second := comes(t, take(func() (*rlock.Lock, error) { return test.others(other) }))
			require.NoError(t, second.err)
			require.Less(t, time.Since(start), 20*time.Second, "it is two seconds on a machine that is not busy")
			gate.Open()
			queued(t, client, "k", 1)
			require.NoError(t, first.Release(t.Context()))
			require.NoError(t, second.lock.Release(t.Context()))
			last := comes(t, waits)
			require.NoError(t, last.err)
			require.NoError(t, last.lock.Release(t.Context()))
			idle(t, client)
		})
	}
}
