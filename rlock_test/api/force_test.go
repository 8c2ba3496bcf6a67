package api

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// ForceAcquire takes a lock whatever its holder's lease and options are, and a free one.
func TestForceAcquire(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		for name, opts := range map[string][]rlock.Option{
			"a lease": nil, "for ever": {rlock.WithTTL(rlock.NoExpiry)}, "without a fence": {rlock.WithFence(false)},
			"extended": {rlock.WithAutoExtend(true)}, "a chosen token": {rlock.WithToken("mine")},
		} {
			t.Run(name, func(t *testing.T) {
				holder, err := env.NewLocker(t, client).Acquire(t.Context(), name, opts...)
				require.NoError(t, err)
				lock, err := env.NewLocker(t, client).ForceAcquire(t.Context(), name, rlock.WithTTL(time.Minute))
				require.NoError(t, err)
				require.True(t, lock.Valid())
				require.Equal(t, 1, lock.Attempts())
				require.Greater(t, lock.Fence(), holder.Fence())
				require.Equal(t, lock.Token(), env.Get(t, client, name))
				require.Greater(t, env.TTL(t, client, name), 50*time.Second)

				require.ErrorIs(t, holder.Extend(t.Context(), time.Hour), rlock.ErrLost)
				require.ErrorIs(t, holder.Release(t.Context()), rlock.ErrLost)
				_, err = lock.Verify(t.Context())
				require.NoError(t, err, "the former holder cannot harm the new one")
				require.NoError(t, lock.Release(t.Context()))
				require.Empty(t, env.Get(t, client, name))
			})
		}
		locker := env.NewLocker(t, client)
		lock, err := locker.ForceAcquire(t.Context(), "free", rlock.WithTTL(rlock.NoExpiry))
		require.NoError(t, err)
		require.Equal(t, -time.Millisecond, env.TTL(t, client, "free"))
		_, err = locker.ForceAcquire(lock.Context(), "free")
		require.ErrorIs(t, err, rlock.ErrAlreadyHeld, "a holder does not rob itself")
		require.NoError(t, lock.Release(t.Context()))

		require.NoError(t, env.Do(t, client, "RPUSH", "list", "1").Error())
		_, err = locker.ForceAcquire(t.Context(), "list")
		require.ErrorContains(t, err, "WRONGTYPE", "what is no lock is left alone")
		require.NoError(t, env.Do(t, client, "LLEN", "list").Error())
		_, err = locker.ForceAcquire(t.Context(), "")
		require.ErrorIs(t, err, rlock.ErrInvalid)
	})
}

// A former holder of the same Locker has lost its lock when ForceAcquire returns, also where the server tells
// nothing, and costs no command more.
func TestForceAcquireEndsTheHolderOfItsLocker(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(l *rlock.Locker) (*rlock.Lock, error){
		"waits": func(l *rlock.Locker) (*rlock.Lock, error) { return l.Acquire(t.Context(), "job") },
		"extended": func(l *rlock.Locker) (*rlock.Lock, error) {
			return l.Acquire(t.Context(), "job", rlock.WithAutoExtend(true))
		},
		"tries":  func(l *rlock.Locker) (*rlock.Lock, error) { return l.TryAcquire(t.Context(), "job") },
		"a set":  func(l *rlock.Locker) (*rlock.Lock, error) { return l.AcquireAll(t.Context(), []string{"{job}", "job"}) },
		"forced": func(l *rlock.Locker) (*rlock.Lock, error) { return l.ForceAcquire(t.Context(), "job") },
		"reader": func(l *rlock.Locker) (*rlock.Lock, error) { return l.AcquireShared(t.Context(), "job") },
		"permit": func(l *rlock.Locker) (*rlock.Lock, error) { return l.AcquirePermit(t.Context(), "job", 2) },
	} {
		for _, fenced := range []bool{true, false} {
			t.Run(fmt.Sprint(name, ", fences: ", fenced), func(t *testing.T) {
				t.Parallel()
				server := env.Start(t)
				l := env.NewLocker(t, server.Client(t))
				env.MustLock(t)(l.ForceAcquire(t.Context(), "other")) // the server learns the script
				former := env.MustLock(t)(take(l))
				before := server.ScriptCalls(t)
				lock := env.MustLock(t)(l.ForceAcquire(t.Context(), "job", rlock.WithFence(fenced)))
				require.Equal(t, before+1, server.ScriptCalls(t))
				require.True(t, lock.Valid())
				require.ErrorIs(t, former.Err(), rlock.ErrLost)
				_, err := l.TryAcquireShared(t.Context(), "job")
				require.ErrorIs(t, err, rlock.ErrHeld)
				require.ErrorIs(t, former.Release(t.Context()), rlock.ErrLost)
				require.NoError(t, lock.Release(t.Context()))
			})
		}
	}
}

// Of two calls of ForceAcquire at the same time, the one that the server has run last has the lock, whichever
// is answered first.
func TestForceAcquireTwiceAtATime(t *testing.T) {
	t.Parallel()
	for _, fenced := range []bool{true, false} {
		t.Run(fmt.Sprint("fences: ", fenced), func(t *testing.T) {
			t.Parallel()
			f, l, client := env.NewFaulty(t, env.Engines(t)[0])
			env.MustLock(t)(l.ForceAcquire(t.Context(), "other")) // the server learns the script
			gate := env.NewGate(t)
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if !env.Calls(words, gen.ForceAcquireSHA1) {
					return run()
				}
				f.When(nil)
				result := run()
				gate.Pass()
				return result
			})
			first := make(chan *rlock.Lock, 1)
			go func() { first <- env.MustLock(t)(l.ForceAcquire(t.Context(), "job", rlock.WithFence(fenced))) }()
			gate.Await(t)
			second := env.MustLock(t)(l.ForceAcquire(t.Context(), "job", rlock.WithFence(fenced)))
			gate.Open()
			robbed := env.Taken(t, first)
			require.ErrorIs(t, robbed.Err(), rlock.ErrLost)
			require.True(t, second.Valid())
			require.Equal(t, second.Token(), env.Get(t, client, "job"))
			require.NoError(t, second.Release(t.Context()))
		})
	}
}

// A lock that ForceAcquire has taken goes to nobody who waits behind its former holder, in whose turn it is.
func TestForceAcquireEndsATurn(t *testing.T) {
	t.Parallel()
	l := env.NewLocker(t, env.Start(t).Client(t), rlock.WithTurn(time.Hour), rlock.WithAutoExtend(true), rlock.WithTTL(time.Minute))
	first := env.MustLock(t)(l.Acquire(t.Context(), "job"))
	former, next := env.NextInLine(t, l, "job"), env.NextInLine(t, l, "job")
	require.NoError(t, first.Release(t.Context()))
	robbed := env.Taken(t, former)
	lock := env.MustLock(t)(l.ForceAcquire(t.Context(), "job"))
	require.ErrorIs(t, robbed.Release(t.Context()), rlock.ErrLost)
	select {
	case <-next:
		require.Fail(t, "the lock has two holders")
	case <-time.After(100 * time.Millisecond):
	}
	require.NoError(t, lock.Release(t.Context()))
	require.NoError(t, env.Taken(t, next).Release(t.Context()))
}

// The server tells the holder, whose context ends long before its lease.
func TestForceAcquireTellsTheHolder(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		holder, err := env.OpenOn(t, server).Acquire(t.Context(), "job", rlock.WithTTL(time.Hour))
		require.NoError(t, err)
		ctx := holder.Context()
		lock, err := env.OpenOn(t, server).ForceAcquire(t.Context(), "job")
		require.NoError(t, err)
		env.Receive(t, ctx.Done())
		require.ErrorIs(t, holder.Err(), rlock.ErrLost)
		require.NoError(t, lock.Release(t.Context()))
	})
}

// Those who wait keep their places, be they of the former holder's process, of the new one's or of
// another: a lock that was taken by force is passed on in their order.
func TestForceAcquireKeepsTheQueue(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		client := server.Client(t)
		lockers := []*rlock.Locker{env.OpenOn(t, server), env.OpenOn(t, server), env.OpenOn(t, server)}
		former, err := lockers[0].Acquire(t.Context(), "job", rlock.WithTTL(time.Hour))
		require.NoError(t, err)
		got := make(chan int, len(lockers))
		fences := make(chan uint64, len(lockers))
		for _, i := range []int{2, 1, 0} {
			go func() {
				if lock, err := lockers[i].Acquire(t.Context(), "job", rlock.WithTTL(time.Hour)); err == nil {
					fences <- lock.Fence()
					got <- i
					_ = lock.Release(t.Context())
				}
			}()
			switch i {
			case 0: // it waits behind the former holder, which asks no server
				env.Soon(t, func() bool { return lockers[0].Stats().Waiting == 1 }, "the caller waits")
			default:
				env.Soon(t, func() bool { return queued(t, client) == 3-i }, "the process waits")
			}
		}
		lock, err := lockers[1].ForceAcquire(t.Context(), "job", rlock.WithTTL(time.Hour))
		require.NoError(t, err)
		require.Greater(t, lock.Fence(), former.Fence())
		env.Soon(t, func() bool { return queued(t, client) == 3 }, "the caller of the former holder's process waits in the queue too")
		require.Empty(t, got)
		_, err = lock.Verify(t.Context())
		require.NoError(t, err)
		last := lock.Fence()
		require.NoError(t, lock.Release(t.Context()))
		for _, i := range []int{2, 1, 0} {
			require.Equal(t, i, env.Receive(t, got))
			fence := env.Receive(t, fences)
			require.Greater(t, fence, last)
			last = fence
		}
		require.ErrorIs(t, former.Release(t.Context()), rlock.ErrLost)
		env.Soon(t, func() bool { return env.Get(t, client, "job") == "" }, "nobody has it")
	})
}

// queued returns how many wait in queues.
func queued(t *testing.T, client rueidis.Client) (n int) {
	t.Helper()
	queues, err := env.Do(t, client, "KEYS", "rlock:queue:*").AsStrSlice()
	require.NoError(t, err)
	for _, queue := range queues {
		members, err := env.Do(t, client, "ZCARD", queue).ToInt64()
		require.NoError(t, err)
		n += int(members)
	}
	return n
}

// A call without an answer is not repeated, because a late copy would rob the next holder, and
// leaves nothing behind.
func TestForceAcquireWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		_, err := env.NewLocker(t, direct).Acquire(t.Context(), "job", rlock.WithTTL(time.Hour))
		require.NoError(t, err)
		calls := 0
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if !env.Calls(words, gen.ForceAcquireSHA1) {
				return run()
			}
			calls++
			run()
			return env.NoReply()
		})
		_, err = locker.ForceAcquire(t.Context(), "job", rlock.WithTTL(time.Hour))
		require.Error(t, err)
		require.NotErrorIs(t, err, rlock.ErrHeld)
		require.Equal(t, 1, calls)
		env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "what the server granted is released")
	})
}

// A lease that was over before somebody used force has expired, and was not lost.
func TestForceAcquireAfterTheLease(t *testing.T) {
	t.Parallel()
	l := env.NewLocker(t, env.Start(t).Client(t))
	former := env.MustLock(t)(l.TryAcquire(t.Context(), "job", rlock.WithTTL(2*time.Second)))
	time.Sleep(time.Until(former.Deadline()) + 50*time.Millisecond)
	lock := env.MustLock(t)(l.ForceAcquire(t.Context(), "job"))
	require.ErrorIs(t, former.Err(), rlock.ErrExpired)
	require.NoError(t, lock.Release(t.Context()))
}

// ForceAcquire with the token that a lock of the same Locker has robs nobody: both handles have the lock.
func TestForceAcquireWithTheTokenOfTheHolder(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		l := env.NewLocker(t, client)
		holder := env.MustLock(t)(l.Acquire(t.Context(), "job", rlock.WithToken("mine")))
		lock := env.MustLock(t)(l.ForceAcquire(t.Context(), "job", rlock.WithToken("mine")))
		require.NoError(t, holder.Err(), "it has the lock")
		_, err := holder.Verify(t.Context())
		require.NoError(t, err)
		require.NoError(t, lock.Release(t.Context()))
		require.Empty(t, env.Get(t, client, "job"))
	})
}

// A token that ForceRelease frees on its way to a caller who has left is lost for the next one too, who has come
// after that.
func TestForceReleaseOfALockThatGoesFurther(t *testing.T) {
	t.Parallel()
	f, l, client := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTurn(time.Minute), rlock.WithFence(false))
	first := env.MustLock(t)(l.Acquire(t.Context(), "job", rlock.WithTTL(time.Hour)))
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error, 1)
	go func() {
		_, err := l.Acquire(ctx, "job")
		left <- err
	}()
	env.AwaitWaiting(t, l, 1)
	gate := env.NewGate(t)
	f.When(env.Once(gen.HandOverSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
		result := run()
		gate.Pass()
		return result
	}))
	released := make(chan error, 1)
	go func() { released <- first.Release(t.Context()) }()
	gate.Await(t)
	require.NoError(t, l.ForceRelease(t.Context(), "job", env.Get(t, client, "job")))
	got := env.NextInLine(t, l, "job")
	leave()
	require.ErrorIs(t, env.Receive(t, left), rlock.ErrGaveUp)
	gate.Open()
	require.NoError(t, env.Receive(t, released))
	next := env.Taken(t, got)
	require.Equal(t, next.Valid(), env.Get(t, client, "job") != "")
	_ = next.Release(t.Context())
}

// A lock that force has freed on its way to its caller ends, also if the server says so only after the
// context of that caller has ended.
func TestContextEndsBeforeForceIsSeen(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	proxy := env.NewProxy(t, server.Addr())
	locker := env.OpenLocker(t, rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, DisableCache: true}, // nobody tells it of lost keys
		rlock.WithTurn(time.Hour), rlock.WithTTL(time.Hour))
	lock := env.MustLock(t)(locker.Acquire(t.Context(), "job"))
	goOn := make(chan struct{})
	slow := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
		if e.Kind == rlock.EventContended {
			<-goOn
		}
	})
	ctx, exceed := env.Deadline(t.Context())
	next := make(chan *rlock.Lock, 1)
	go func() {
		lock, err := locker.Acquire(ctx, "job", rlock.WithObserver(slow))
		assert.NoError(t, err)
		next <- lock
	}()
	env.AwaitWaiting(t, locker, 1)
	require.NoError(t, lock.Release(t.Context()))
	token := env.Get(t, server.Client(t), "job")
	require.NoError(t, locker.ForceRelease(t.Context(), "job", token))
	release := proxy.Hold(func(request []byte) bool { return bytes.Contains(request, []byte(gen.InspectSHA1)) })
	close(goOn)
	env.Soon(t, func() bool { return proxy.Held() > 0 }, "it asks")
	exceed()
	lock = <-next
	require.NoError(t, lock.Err(), "it is not told yet")
	release()
	env.Soon(t, func() bool { return errors.Is(lock.Err(), rlock.ErrLost) }, "it is told")
}

// It ends as well if the context of the caller lasts, and the server says nothing for longer than the call
// asks.
func TestForceIsSeenAfterASilence(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	proxy := env.NewProxy(t, server.Addr())
	locker := env.OpenLocker(t, rueidis.ClientOption{InitAddress: []string{proxy.Addr()}, DisableCache: true}, // nobody tells it of lost keys
		rlock.WithTurn(time.Hour), rlock.WithTTL(time.Hour))
	lock := env.MustLock(t)(locker.Acquire(t.Context(), "job"))
	goOn := make(chan struct{})
	slow := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
		if e.Kind == rlock.EventContended {
			<-goOn
		}
	})
	next := make(chan *rlock.Lock, 1)
	go func() {
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithObserver(slow))
		assert.NoError(t, err)
		next <- lock
	}()
	env.AwaitWaiting(t, locker, 1)
	require.NoError(t, lock.Release(t.Context()))
	token := env.Get(t, server.Client(t), "job")
	require.NoError(t, locker.ForceRelease(t.Context(), "job", token))
	release := proxy.Hold(func(request []byte) bool { return bytes.Contains(request, []byte(gen.InspectSHA1)) })
	close(goOn)
	env.Soon(t, func() bool { return proxy.Held() > 0 }, "it asks")
	lock = <-next
	require.NoError(t, lock.Err(), "it is not told yet")
	time.Sleep(3 * time.Second) // for longer than it asks once more
	release()
	env.Soon(t, func() bool { return errors.Is(lock.Err(), rlock.ErrLost) }, "it is told")
}

// Force that is used on other keys costs an acquisition nothing: least of all the time until a silent server
// answers.
func TestForceOfOtherKeysAsksNothing(t *testing.T) {
	t.Parallel()
	f, locker, client := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTurn(time.Hour), rlock.WithTTL(time.Hour))
	var asked atomic.Int32
	f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		if env.Calls(words, gen.InspectSHA1) {
			asked.Add(1)
		}
		return run()
	})
	for _, key := range env.Keys(20) {
		lock := env.MustLock(t)(locker.Acquire(t.Context(), "job"))
		next := make(chan *rlock.Lock, 1)
		go func() { next <- env.MustLock(t)(locker.Acquire(t.Context(), "job")) }()
		env.AwaitWaiting(t, locker, 1)
		require.NoError(t, env.Do(t, client, "SET", key, "stranger").Error())
		require.NoError(t, locker.ForceRelease(t.Context(), key, "stranger"))
		require.NoError(t, lock.Release(t.Context()))
		require.NoError(t, (<-next).Release(t.Context()))
	}
	require.Less(t, asked.Load(), int32(5), "keys are counted together by their hashes: one in 64")
}
