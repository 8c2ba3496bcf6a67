package failure

import (
	"context"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// An observer may end the goroutine that reads held locks: the losses of the others are
// noticed all the same.
func TestObserverEndsTheMonitor(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		b := &bomb{kind: rlock.EventLost, end: runtime.Goexit, anywhere: true}
		b.armed.Store(true)
		locker := env.OpenLocker(t, server.Option(), rlock.WithObserver(b), rlock.WithTTL(time.Minute),
			rlock.WithAutoExtend(true))
		var ends []context.Context // a method of a lock may call the observer in this goroutine
		for _, key := range siteKeys {
			lock, err := locker.Acquire(t.Context(), key)
			require.NoError(t, err)
			ends = append(ends, lock.Context())
		}
		server.AwaitTracked(t, len(siteKeys))
		server.Do(t, "FLUSHALL")
		for _, end := range ends {
			env.Receive(t, end.Done())
			require.ErrorIs(t, context.Cause(end), rlock.ErrLost)
		}
		env.Soon(t, b.fired.Load, "the monitor tells the observer")
		last, err := locker.Acquire(t.Context(), "last")
		require.NoError(t, err)
		time.Sleep(300 * time.Millisecond) // it has been read
		server.Do(t, "DEL", "last")
		env.AwaitEnd(t, last, rlock.ErrLost)
	})
}

// When connections break, the server tracks nothing any more: each lock that is held is
// read again, in as few commands as there are hundreds of them, and a lease that was
// shortened in between is extended.
func TestAllIsReadAfterALostConnection(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		const locks = 2000
		server := e.Start(t)
		require.NoError(t, gen.New().Load(t.Context(), server.Client(t)))
		locker := env.OpenLocker(t, server.Option(), rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true),
			rlock.WithFence(false))
		held := make([]*rlock.Lock, locks)
		for i := range held {
			var err error
			held[i], err = locker.Acquire(t.Context(), fmt.Sprint("job:", i))
			require.NoError(t, err)
		}
		server.AwaitTracked(t, locks)
		before := server.CommandStats(t)
		server.Do(t, "MULTI")
		server.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
		server.Do(t, "PEXPIRE", "job:3", "15000")
		server.Do(t, "EXEC")
		server.AwaitTracked(t, locks)
		env.Soon(t, func() bool { return leftOn(t, server, "job:3") > 30*time.Second }, "it is extended")
		time.Sleep(200 * time.Millisecond)
		after := server.CommandStats(t)
		reads, scripts := after["client|caching"]-before["client|caching"], after["evalsha"]-before["evalsha"]
		t.Logf("%d reads, %d scripts", reads, scripts)
		require.LessOrEqual(t, reads, int64(5*locks/100), "each connection that breaks says so")
		require.LessOrEqual(t, scripts, int64(5*locks/100))
		require.Len(t, locker.Locks(), locks)
		server.Do(t, "DEL", "job:1234")
		env.AwaitEnd(t, held[1234], rlock.ErrLost)
	})
}

// A lease that is shortened behind an extension whose answer is still under way is found
// out when it has come.
func TestShortenedBehindAnExtension(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		hook := rlock.NewInvalidations()
		// One connection, since faulty sends the commands of a pipeline one by one.
		f := &env.Faulty{Client: server.Client(t, func(o *rueidis.ClientOption) {
			o.PipelineMultiplex, o.OnInvalidations = -1, hook.OnInvalidations
		})}
		require.NoError(t, gen.New().Load(t.Context(), f.Client))
		locker := env.NewLocker(t, f, rlock.WithInvalidations(hook), rlock.WithFence(false))
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(time.Minute), rlock.WithAutoExtend(true))
		require.NoError(t, err)
		server.AwaitTracked(t, 1)

		gate := env.NewGate(t)
		f.When(env.Once(gen.ExtendSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
			reply := run()
			gate.Pass()
			return reply
		}))
		done := make(chan error, 1)
		go func() { done <- lock.Extend(context.WithoutCancel(t.Context()), time.Minute) }()
		gate.Await(t)
		server.AwaitTracked(t, 1) // anew
		server.Do(t, "PEXPIRE", "job", "6000")
		time.Sleep(500 * time.Millisecond)
		gate.Open()
		require.NoError(t, env.Receive(t, done))
		env.Soon(t, func() bool { return leftOn(t, server, "job") > 30*time.Second }, "it is extended")
		require.NoError(t, lock.Err())
	})
}
