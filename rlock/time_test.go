package rlock_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock/internal/wide"
)

// inBubble runs a test with fake time, the real client and an embedded server
// that are connected by pipes. It fails if a goroutine outlives the test.
func inBubble(t *testing.T, test func(t *testing.T, client rueidis.Client, redis *redis)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		redis := &redis{Miniredis: miniredis.NewMiniRedis()}
		redis.ClockTTL(true)
		// The connection comes first, because miniredis has no server before it.
		first, err := redis.Dial()
		require.NoError(t, err)
		redis.Server().SetPreHook(redis.hook)
		defer redis.Close()
		client, err := rueidis.NewClient(rueidis.ClientOption{
			InitAddress:       []string{"pipe"},
			ForceSingleClient: true,
			DisableCache:      true,
			PipelineMultiplex: -1,
			DialCtxFn: func(context.Context, string, *net.Dialer, *tls.Config) (net.Conn, error) {
				if conn := first; conn != nil {
					first = nil
					return redis.slowConn(conn), nil
				}
				conn, err := redis.Dial()
				return redis.slowConn(conn), err
			},
		})
		require.NoError(t, err)
		defer client.Close()
		test(t, client, redis)
	})
}

// redis is the embedded server, which counts calls and can fail them.
type redis struct {
	*miniredis.Miniredis
	scripts atomic.Int64 // script calls so far
	loading atomic.Bool  // scripts are refused, as by a server that loads its data
	network atomic.Pointer[network]
	wide    wide.Scripts
	inner   sync.Map // peers of dispatch
}

func (r *redis) hook(peer *server.Peer, command string, args ...string) bool {
	if _, ok := r.inner.Load(peer); ok {
		return false
	}
	argv := r.wide.Command(append([]string{command}, args...))
	if command != "EVALSHA" && command != "EVAL" {
		return false
	}
	r.scripts.Add(1)
	time.Sleep(r.network.Load().lag())
	if r.loading.Load() {
		peer.WriteError("LOADING Redis is loading the dataset in memory")
		return true
	}
	if wide.Needed {
		r.dispatch(peer, argv)
	}
	return wide.Needed
}

// dispatch runs a command and sends its reply with whole integers.
func (r *redis) dispatch(peer *server.Peer, argv []string) {
	var reply bytes.Buffer
	inner := server.NewPeer(bufio.NewWriter(&reply))
	inner.Ctx, inner.Resp3 = peer.Ctx, peer.Resp3
	r.inner.Store(inner, nil)
	defer r.inner.Delete(inner)
	r.Server().Dispatch(inner, argv)
	inner.Flush()
	peer.WriteRaw(wide.Reply(reply.String()))
}

func open(t *testing.T, client rueidis.Client, opts ...rlock.LockerOption) *rlock.Locker {
	t.Helper()
	locker, err := rlock.New(client, opts...)
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return locker
}

// waits acquires a key that is held throughout and returns the error.
func waits(t *testing.T, client rueidis.Client, policy rlock.Retry) *rlock.AcquireError {
	t.Helper()
	require.NoError(t, client.Do(t.Context(),
		client.B().Set().Key("held").Value("other").PxMilliseconds(3_600_000).Build()).Error())
	_, err := open(t, client).Acquire(t.Context(), "held", rlock.WithRetry(policy))
	require.ErrorIs(t, err, rlock.ErrGaveUp)
	var facts *rlock.AcquireError
	require.ErrorAs(t, err, &facts)
	return facts
}

func TestRetryLimits(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		policy   rlock.Retry
		attempts int
		least    time.Duration
		most     time.Duration
	}{
		"attempts": {rlock.Fixed(100 * time.Millisecond).MaxAttempts(5), 5, 400 * time.Millisecond,
			400 * time.Millisecond},
		"one attempt": {rlock.Fixed(time.Hour).MaxAttempts(1), 1, 0, 0},
		"time": {rlock.Fixed(300 * time.Millisecond).MaxTime(time.Second), 5, time.Second,
			time.Second},
		"less time than once": {rlock.Fixed(time.Minute).MaxTime(time.Second), 2, time.Second, time.Second},
		"both, attempts": {rlock.Fixed(time.Second).MaxTime(time.Minute).MaxAttempts(3), 3, 2 * time.Second,
			2 * time.Second},
		"exponential": {rlock.Exponential(10*time.Millisecond, 80*time.Millisecond).MaxAttempts(6), 6,
			(10 + 20 + 40 + 80 + 80) / 2 * time.Millisecond, (10 + 20 + 40 + 80 + 80) * time.Millisecond},
		"exponential, flat": {rlock.Exponential(time.Second, time.Second).MaxAttempts(100), 100,
			99 * time.Second / 2, 99 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, client rueidis.Client, _ *redis) {
				facts := waits(t, client, test.policy)
				require.Equal(t, test.attempts, facts.Attempts)
				require.GreaterOrEqual(t, facts.Waited, test.least)
				require.LessOrEqual(t, facts.Waited, test.most)
			})
		})
	}
}

// Pauses grow to the longest and stay there, however often they are doubled: that does not overflow.
func TestExponential(t *testing.T) {
	t.Parallel()
	for _, first := range []time.Duration{1, time.Second, 1<<33 + 1, time.Hour} {
		policy := rlock.Exponential(first, time.Hour)
		for number, about := 1, first; number < 200; number, about = number+1, min(2*about, time.Hour) {
			pause, more := policy.Pause(rlock.Attempt{Number: number})
			require.True(t, more)
			require.GreaterOrEqual(t, pause, about/2, "%v, %d", first, number)
			require.LessOrEqual(t, pause, about, "%v, %d", first, number)
		}
	}
}

func TestRetryFuncSeesTheFacts(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, client rueidis.Client, _ *redis) {
		var seen []rlock.Attempt
		waits(t, client, rlock.RetryFunc(func(a rlock.Attempt) (time.Duration, bool) {
			seen = append(seen, a)
			return time.Duration(a.Number) * time.Second, a.Number < 3
		}))
		require.Equal(t, []rlock.Attempt{
			{Number: 1, Elapsed: 0, Previous: 0, Remaining: time.Hour},
			{Number: 2, Elapsed: time.Second, Previous: time.Second, Remaining: time.Hour - time.Second},
			{Number: 3, Elapsed: 3 * time.Second, Previous: 2 * time.Second, Remaining: time.Hour - 3*time.Second},
		}, seen)
	})
}

// A policy has no state: sharing one changes nothing for anybody.
func TestRetryIsShared(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, client rueidis.Client, _ *redis) {
		policy := rlock.Exponential(10*time.Millisecond, time.Second).MaxAttempts(4)
		var group sync.WaitGroup
		for range 50 {
			group.Go(func() {
				for range 3 {
					facts := waits(t, client, policy)
					require.Equal(t, 4, facts.Attempts)
					require.LessOrEqual(t, facts.Waited, 70*time.Millisecond)
				}
			})
		}
		group.Wait()
	})
}

// Whatever the policy, a waiter looks again when the holder's lease ends.
func TestWaitIsBoundedByTheLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, client rueidis.Client, _ *redis) {
		locker := open(t, client)
		_, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(30*time.Second))
		require.NoError(t, err)
		start := time.Now()
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithRetry(rlock.Fixed(time.Hour)))
		require.NoError(t, err)
		require.LessOrEqual(t, lock.Attempts(), 3)
		require.InDelta(t, 30*time.Second, time.Since(start), float64(5*time.Millisecond))
	})
}

func TestExtensionsPerLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, client rueidis.Client, redis *redis) {
		locker := open(t, client, rlock.WithTTL(30*time.Second), rlock.WithAutoExtend(true))
		var locks []*rlock.Lock
		for _, key := range []string{"a", "b", "c"} {
			lock, err := locker.Acquire(t.Context(), key)
			require.NoError(t, err)
			locks = append(locks, lock)
		}
		time.Sleep(11 * time.Second) // the server learns the script
		before := redis.scripts.Load()
		time.Sleep(time.Hour)
		// Three calls a lease for all of them, and not one more.
		require.InDelta(t, 3600/10, redis.scripts.Load()-before, 1)
		for _, lock := range locks {
			require.NoError(t, lock.Err())
			require.NoError(t, lock.Release(t.Context()))
		}
		before = redis.scripts.Load()
		time.Sleep(time.Hour)
		require.Equal(t, before, redis.scripts.Load(), "nothing is extended that is not held")
	})
}

// Locks that were taken at any time are soon extended together, a hundred with a
// call, and each three times a lease or little more often.
func TestExtensionsAreGathered(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, client rueidis.Client, redis *redis) {
		locker := open(t, client, rlock.WithTTL(30*time.Second), rlock.WithAutoExtend(true))
		const locks = 250
		for i := range locks {
			_, err := locker.Acquire(t.Context(), strconv.Itoa(i))
			require.NoError(t, err)
			time.Sleep(time.Duration(i%7) * 50 * time.Millisecond)
		}
		time.Sleep(time.Minute)
		before := redis.scripts.Load()
		time.Sleep(time.Hour)
		require.InDelta(t, 3*3600/10, redis.scripts.Load()-before, 6, "three calls an interval")
		require.Len(t, locker.Locks(), locks)
	})
}

func TestDeadlineIsExact(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, client rueidis.Client, redis *redis) {
		locker := open(t, client)
		start := time.Now()
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(10*time.Second))
		require.NoError(t, err)
		// 0.1 % for clocks that differ, 1 ms for rounding.
		want := 10*time.Second - 10*time.Millisecond - time.Millisecond
		require.Equal(t, want, lock.Deadline().Sub(start))
		<-lock.Context().Done()
		require.Equal(t, want, time.Since(start))
		require.Error(t, lock.Err())
		require.True(t, redis.Exists("job"), "the holder stops before the server lets go")
		require.ErrorIs(t, context.Cause(lock.Context()), rlock.ErrExpired)
	})
}

// A server that stops answering is asked again until the lease ends, not longer.
func TestExtensionIsRetriedUntilTheDeadline(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, client rueidis.Client, redis *redis) {
		locker := open(t, client, rlock.WithTTL(30*time.Second), rlock.WithAutoExtend(true))
		start := time.Now()
		survivor, err := locker.Acquire(t.Context(), "survivor")
		require.NoError(t, err)
		redis.loading.Store(true)
		time.Sleep(25 * time.Second)
		redis.loading.Store(false)
		time.Sleep(time.Minute)
		require.NoError(t, survivor.Err(), "an error is not a loss")

		redis.loading.Store(true)
		<-survivor.Context().Done()
		require.ErrorIs(t, context.Cause(survivor.Context()), rlock.ErrExpired)
		require.Less(t, time.Since(start), 2*time.Minute)
		redis.loading.Store(false)
		before := redis.scripts.Load()
		time.Sleep(time.Hour)
		require.Equal(t, before, redis.scripts.Load())
	})
}

// Waiters of one process are served exactly in the order in which they came, and
// send nothing while they stand in line.
func TestFirstComeFirstServed(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		opts  []rlock.LockerOption
		calls int64 // of scripts, for 50 hand-overs
	}{
		"fixed lease":   {nil, 1},                                              // for fences
		"auto-extended": {[]rlock.LockerOption{rlock.WithAutoExtend(true)}, 1}, // for fences
		"own tokens":    {[]rlock.LockerOption{rlock.WithUniqueToken(true)}, 50},
		"no turn":       {[]rlock.LockerOption{rlock.WithTurn(0)}, 50},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, client rueidis.Client, redis *redis) {
				require.NoError(t, gen.New().Load(t.Context(), client))
				locker := open(t, client, test.opts...)
				require.NoError(t, client.Do(t.Context(),
					client.B().Set().Key("other").Value("stranger").PxMilliseconds(10).Build()).Error())
				// which waits, so that the Locker is told of grants now
				first, err := locker.Acquire(t.Context(), "other")
				require.NoError(t, err)
				require.NoError(t, first.Release(t.Context()))
				first, err = locker.Acquire(t.Context(), "job")
				require.NoError(t, err)
				time.Sleep(time.Second) // blocks of fences stay behind the server's clock
				before := redis.scripts.Load()
				var (
					group sync.WaitGroup
					order []int
					fence = first.Fence()
				)
				for i := range 50 {
					group.Go(func() {
						lock, err := locker.Acquire(t.Context(), "job")
						if err != nil {
							t.Error(err)
							return
						}
						order = append(order, i)
						if lock.Fence() <= fence {
							t.Errorf("the fence fell from %d to %d", fence, lock.Fence())
						}
						fence = lock.Fence()
						if err := lock.Release(t.Context()); err != nil {
							t.Error(err)
						}
					})
					synctest.Wait() // until it stands in line
				}
				require.Equal(t, before, redis.scripts.Load())
				require.NoError(t, first.Release(t.Context()))
				group.Wait()
				require.IsIncreasing(t, order)
				require.Len(t, order, 50)
				require.Equal(t, test.calls+1, redis.scripts.Load()-before, "and the last release")
			})
		})
	}
}
