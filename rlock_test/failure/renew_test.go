package failure

import (
	"context"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestRenewScript(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		s := gen.New()
		require.NoError(t, env.Do(t, client, "SET", "mine", "m", "PX", "5000").Error())
		require.NoError(t, env.Do(t, client, "SET", "eternal", "e").Error())
		require.NoError(t, env.Do(t, client, "SET", "theirs", "t", "PX", "5000").Error())
		require.NoError(t, env.Do(t, client, "RPUSH", "list", "l").Error())
		params := gen.ExtendParams{
			Keys:   []string{"gone", "mine", "list", "eternal", "theirs"},
			Tokens: []string{"g", "m", "l", "e", "mine"},
			TTL:    time.Hour,
		}
		for range 2 { // safe to repeat
			lost, err := s.Extend(t.Context(), client, params)
			require.NoError(t, err)
			require.Equal(t, []int64{1, 3, 5}, lost)
		}
		left := func(key string) time.Duration {
			ms, err := env.Do(t, client, "PTTL", key).ToInt64()
			require.NoError(t, err)
			return time.Duration(ms) * time.Millisecond
		}
		require.Greater(t, left("mine"), 55*time.Minute)
		require.Equal(t, -time.Millisecond, left("eternal"), "no lease is longer than none")
		require.LessOrEqual(t, left("theirs"), 5*time.Second)
		require.Empty(t, env.Get(t, client, "gone"))

		lost, err := s.Extend(
			t.Context(), client, gen.ExtendParams{Keys: []string{"mine"}, Tokens: []string{"m"}, TTL: time.Minute},
		)
		require.NoError(t, err)
		require.Empty(t, lost)
		require.Greater(t, left("mine"), 55*time.Minute, "with one token a lease only grows")
	})
}

// Locks of several leases and slots share scripts as far as they can.
func TestRenewalsOfManyKinds(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		hold := func(t *testing.T, client rueidis.Client, scripts func() int64, most int64) {
			locker := env.NewLocker(t, client)
			var locks []*rlock.Lock
			for i := range 60 {
				ttl := time.Duration(2+i%3) * 3 * time.Second
				lock, err := locker.Acquire(t.Context(), fmt.Sprintf("{%d}:%d", i%4, i), rlock.WithTTL(ttl),
					rlock.WithAutoExtend(true))
				require.NoError(t, err)
				locks = append(locks, lock)
			}
			before := scripts()
			time.Sleep(20 * time.Second)
			calls := scripts() - before
			t.Logf("%d scripts", calls)
			require.LessOrEqual(t, calls, most)
			env.SameLocks(t, locks, locker.Locks())
			for i, lock := range locks {
				deadline := lock.Deadline()
				there, err := env.Do(t, client, "PTTL", lock.Key()).ToInt64()
				require.NoError(t, err)
				// Measured after the reply, however long that took: the lease that this process
				// counts on ends no later than the server's, which may have been extended since.
				require.GreaterOrEqual(t, time.Duration(there+1)*time.Millisecond, time.Until(deadline))
				require.LessOrEqual(t, there, int64(2+i%3)*3000)
			}
		}
		t.Run("one server", func(t *testing.T) {
			t.Parallel()
			server := e.Start(t)
			calls := func() int64 { return server.CommandStats(t)["evalsha"] }
			// Three leases; the shortest is extended every two seconds at the latest.
			hold(t, server.Client(t), calls, 40)
		})
		t.Run("cluster", func(t *testing.T) {
			t.Parallel()
			cluster := e.StartCluster(t)
			calls := func() (n int64) {
				for _, node := range cluster.Nodes {
					n += node.CommandStats(t)["evalsha"]
				}
				return n
			}
			// And four slots.
			hold(t, cluster.Client(t), calls, 4*40)
		})
	})
}

// A server that refuses a script because of one key does not cost the others their
// lease.
func TestRenewalsOfForbiddenKeys(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		server.Do(t, "ACL", "SETUSER", "app", "on", ">secret", "~*", "+@all")
		locker := env.NewLocker(t, server.Client(t, func(o *rueidis.ClientOption) {
			o.Username, o.Password = "app", "secret"
		}), rlock.WithTTL(6*time.Second), rlock.WithAutoExtend(true), rlock.WithFence(false))
		var kept []*rlock.Lock
		for i := range 20 {
			lock, err := locker.Acquire(t.Context(), fmt.Sprint("kept:", i))
			require.NoError(t, err)
			kept = append(kept, lock)
		}
		forbidden, err := locker.Acquire(t.Context(), "forbidden")
		require.NoError(t, err)
		server.Do(t, "ACL", "SETUSER", "app", "resetkeys", "~kept:*")
		env.AwaitEnd(t, forbidden, rlock.ErrExpired)
		time.Sleep(2 * time.Second)
		env.SameLocks(t, kept, locker.Locks())
	})
}

// An observer may end the goroutine that extends locks in the background: the other locks
// of that round, and that lock later, are extended all the same. (A panic there ends the
// program, as one in any goroutine does that nobody recovers.)
func TestObserverEndsARenewal(t *testing.T) {
	t.Parallel()
	b := &bomb{kind: rlock.EventExtended, end: runtime.Goexit, anywhere: true}
	b.armed.Store(true)
	_, locker, _ := env.NewFaulty(t, env.Engines(t)[0], rlock.WithObserver(b), rlock.WithTTL(4*time.Second),
		rlock.WithAutoExtend(true))
	var locks []*rlock.Lock
	for _, key := range siteKeys {
		lock, err := locker.Acquire(t.Context(), key)
		require.NoError(t, err)
		locks = append(locks, lock)
	}
	time.Sleep(6 * time.Second)
	require.True(t, b.fired.Load())
	for _, lock := range locks {
		require.NoError(t, lock.Err())
		require.NoError(t, lock.Release(t.Context()))
	}
}

// A hook of the client may end the goroutine of an automatic extension. It is not waited for: a lease that
// somebody else shortens after the next extension is extended at once.
func TestHookEndsARenewal(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	hook := rlock.NewInvalidations()
	// One connection, since faulty sends the commands of a pipeline one by one.
	f := &env.Faulty{Client: server.Client(t, func(o *rueidis.ClientOption) {
		o.PipelineMultiplex, o.OnInvalidations = -1, hook.OnInvalidations
	})}
	require.NoError(t, gen.New().Load(t.Context(), f.Client))
	var failed, extended atomic.Bool
	observer := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
		failed.Store(failed.Load() || e.Kind == rlock.EventExtendFailed)
		extended.Store(extended.Load() || e.Kind == rlock.EventExtended)
	})
	locker := env.NewLocker(t, f, rlock.WithInvalidations(hook), rlock.WithObserver(observer),
		rlock.WithTTL(12*time.Second))
	lock, err := locker.Acquire(t.Context(), "job", rlock.WithAutoExtend(true))
	require.NoError(t, err)
	f.When(env.Once(gen.ExtendSHA1, func(func() rueidis.RedisResult) rueidis.RedisResult {
		runtime.Goexit()
		return rueidis.RedisResult{}
	}))
	env.Soon(t, extended.Load, "it is extended")
	require.True(t, failed.Load(), "the observer is told of the extension without an answer")
	server.AwaitTracked(t, 1) // anew
	server.Do(t, "PEXPIRE", "job", "3500")
	env.Soon(t, func() bool { return leftOn(t, server, "job") > 4*time.Second }, "it is extended at once")
	require.NoError(t, lock.Err())
}

// The context of a lock that is found lost may end the goroutine that extends it: the answer about another
// lock, of the same command, counts all the same.
func TestContextEndsARenewal(t *testing.T) {
	t.Parallel()
	// all this is ready before the first renewal
	_, locker, direct := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTTL(12*time.Second))
	parent := &endingContext{Context: t.Context()}
	inside, end := make(chan *rlock.Lock), make(chan struct{})
	go func() {
		_ = locker.Do(parent, "lost", func(_ context.Context, lock *rlock.Lock) error {
			inside <- lock
			<-end
			return nil
		})
	}()
	defer close(end)
	lost := env.Receive(t, inside)
	kept, err := locker.Acquire(t.Context(), "kept", rlock.WithAutoExtend(true))
	require.NoError(t, err)
	require.NoError(t, env.Do(t, direct, "DEL", "lost").Error())
	deadline := kept.Deadline()
	parent.armed.Store(true)
	env.Soon(t, func() bool { return !parent.armed.Load() }, "a goroutine has ended")
	env.Soon(t, func() bool { return lost.Err() != nil }, "it has lost its key")
	env.Soon(t, func() bool { return kept.Deadline().After(deadline) }, "the other one is extended")
	require.EqualValues(t, 1, locker.Stats().Extended, "by the command that found the loss")
}

// endingContext is a context whose Done ends the goroutine once.
type endingContext struct {
	context.Context
	armed atomic.Bool
}

func (c *endingContext) Done() <-chan struct{} {
	if c.armed.CompareAndSwap(true, false) {
		runtime.Goexit()
	}
	return c.Context.Done()
}

// Value hides what package context would find in place of Done.
func (c *endingContext) Value(any) any { return nil }
