package failure

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A release goes on for two seconds, as long as a client needs to find the server that
// has taken another's place.
func TestReleaseOutlastsAnOutage(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		f, locker, direct := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if env.Calls(words, gen.ReleaseSHA1) {
				return env.NoReply()
			}
			return run()
		})
		start := time.Now()
		require.Error(t, lock.Release(t.Context()))
		require.Greater(t, time.Since(start), 1900*time.Millisecond)
		require.Equal(t, lock.Token(), env.Get(t, direct, "job"))
		f.When(nil)
		require.NoError(t, lock.Release(t.Context()), "it may be called again")
		require.Empty(t, env.Get(t, direct, "job"))
	})
}

// Very many locks are released one pipeline after the other, so that those of the first are known to be free
// when a later one gets no answer.
func TestReleaseOfVeryMany(t *testing.T) {
	t.Parallel()
	const all, first = 10_000, 1 << 13
	server := env.Start(t)
	proxy := env.NewProxy(t, server.Addr())
	locker := env.OpenLocker(t, rueidis.ClientOption{InitAddress: []string{proxy.Addr()}},
		rlock.WithTTL(time.Hour))
	keys := make([]string, all)
	for i := range keys {
		keys[i] = fmt.Sprintf("key-%05d", i)
	}
	results, err := locker.TryAcquireEach(t.Context(), keys)
	require.NoError(t, err)
	locks := make([]*rlock.Lock, all)
	for i, r := range results {
		require.NoError(t, r.Err)
		locks[i] = r.Lock
	}
	later := []byte(keys[first])
	release := proxy.Hold(func(request []byte) bool { return bytes.Contains(request, later) })
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	freed := 0
	for i, err := range locker.ReleaseEach(ctx, locks) {
		if err == nil {
			freed++
			continue
		}
		require.GreaterOrEqual(t, i, first)
		require.ErrorIs(t, err, rlock.ErrNoAnswer)
	}
	require.Equal(t, first, freed)
	release()
	direct := server.Client(t)
	env.Soon(t, func() bool {
		n, err := direct.Do(t.Context(), direct.B().Exists().Key(keys...).Build()).AsInt64()
		return err == nil && n == 0
	}, "the others are free too")
}

// A lock whose lease has ended is not taken for one that lasted, although the server does not answer when it
// is released.
func TestReleaseOfAnExpiredLockWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	f, locker, _ := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTTL(4*time.Second))
	f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		if env.Calls(words, gen.ReleaseSHA1) {
			return env.NoReply()
		}
		return run()
	})
	ended := func(t *testing.T, err error) {
		require.ErrorIs(t, err, rlock.ErrExpired)
		// And why its keys may be there. On a busy machine the time of the release may be over before its
		// last try is.
		why := errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, rlock.ErrNoAnswer)
		require.True(t, why, "%v", err)
	}
	lock := env.MustLock(t)(locker.Acquire(t.Context(), "release"))
	env.Receive(t, lock.Context().Done())
	ended(t, lock.Release(t.Context()))

	lock = env.MustLock(t)(locker.Acquire(t.Context(), "release each"))
	env.Receive(t, lock.Context().Done())
	ended(t, locker.ReleaseEach(t.Context(), []*rlock.Lock{lock})[0])

	ended(t, locker.Do(t.Context(), "do", func(ctx context.Context, _ *rlock.Lock) error {
		<-ctx.Done()
		return nil
	}, rlock.WithAutoExtend(false)))
}

// A lock that ended because its Locker was closed is freed by a Release like any other,
// although the first try's answer is lost.
func TestReleaseAfterCloseWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		locker.Close()
		f.When(env.Once(gen.ReleaseSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
			run()
			return env.NoReply()
		}))
		require.NoError(t, lock.Release(t.Context()))
		require.Empty(t, env.Get(t, direct, "job"))
	})
}

// A client that is closed stays so.
func TestReleaseWithAClosedClient(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		var tries atomic.Int32
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if env.Calls(words, gen.ReleaseSHA1) {
				tries.Add(1)
				return rueidis.NewErrorResult(rueidis.ErrClosing)
			}
			return run()
		})
		require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrClosed)
		require.Equal(t, int32(4), tries.Load(), "and nothing goes on in the background")
		require.Equal(t, lock.Token(), env.Get(t, direct, "job"))
	})
}

// What Release could not do is done in the background when the server is back.
func TestFailedReleaseIsFinishedInTheBackground(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t, "--appendonly", "yes", "--appendfsync", "always")
		locker := env.NewLocker(t, server.Client(t))
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(rlock.NoExpiry))
		require.NoError(t, err)
		set, err := locker.AcquireAll(t.Context(), []string{"a", "b"}, rlock.WithTTL(rlock.NoExpiry))
		require.NoError(t, err)
		server.Kill()
		require.Error(t, lock.Release(t.Context()))
		for _, err := range locker.ReleaseEach(t.Context(), []*rlock.Lock{set}) {
			require.Error(t, err)
		}
		server.Restart(t)
		direct := server.Client(t)
		env.Soon(t, func() bool {
			return env.Get(t, direct, "job") == "" && env.Get(t, direct, "a") == "" && env.Get(t, direct, "b") == ""
		}, "nothing is left")
		require.NoError(t, lock.Release(t.Context()), "it was done, though not by this call")
		require.NoError(t, set.Release(t.Context()))
		require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrReleased)
	})
}

// What a server refused that could not free a key is freed soon after it can.
func TestRefusedReleaseIsFinishedInTheBackground(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		var refused atomic.Int32
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if env.Calls(words, gen.ReleaseSHA1) && refused.Add(1) <= 3 {
				return f.Refuse("READONLY for now")
			}
			return run()
		})
		require.ErrorContains(t, lock.Release(t.Context()), "READONLY")
		env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "it is freed")
	})
}

// However long the server's lease is: an extension whose reply was lost may have made
// it longer than anybody here knows.
func TestFailedReleaseAfterALostExtension(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		f, locker, direct := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithTTL(3*time.Second))
		require.NoError(t, err)
		f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
			if env.Calls(words, gen.ExtendSHA1) {
				run()
			}
			return env.NoReply()
		})
		require.Error(t, lock.Extend(t.Context(), time.Hour))
		require.Error(t, lock.Release(t.Context()))
		time.Sleep(3 * time.Second)
		require.NotEmpty(t, env.Get(t, direct, "job"))
		f.When(nil)
		env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "it is freed")
	})
}

// With a token of one's own nothing is done in the background, so a lock that is gone
// when Release is called again was lost.
func TestFailedReleaseWithOnesOwnToken(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job", rlock.WithToken("mine"))
		require.NoError(t, err)
		f.When(
			func([]string, func() rueidis.RedisResult) rueidis.RedisResult { return f.Refuse("READONLY for now") })
		require.ErrorContains(t, lock.Release(t.Context()), "READONLY")
		f.When(nil)
		require.NoError(t, env.Do(t, direct, "SET", "job", "thief").Error())
		require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
	})
}

// An answer that cannot be is an error of the Release that got it, and not of a later one.
func TestReleaseAfterAnAnswerThatCannotBe(t *testing.T) {
	t.Parallel()
	f, locker, direct := env.NewFaulty(t, env.Engines(t)[0])
	lock, err := locker.AcquireAll(t.Context(), []string{"job", "other"})
	require.NoError(t, err)
	f.When(env.Once(gen.ReleaseManySHA1, func(func() rueidis.RedisResult) rueidis.RedisResult {
		return f.Client.Do(t.Context(), f.Client.B().Eval().Script("return {7, 1}").Numkeys(0).Build())
	}))
	require.ErrorContains(t, lock.Release(t.Context()), "something between them changes answers")
	env.Soon(t, func() bool { return env.Get(t, direct, "job") == "" }, "it is freed in the background")
	require.NoError(t, lock.Release(t.Context()))
}

// Extending and releasing at once is safe, also when the server refuses.
func TestExtendWhileReleaseIsRefused(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, _ := env.NewFaulty(t, e)
		for range 20 {
			f.When(nil)
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				if env.Calls(words, gen.ReleaseSHA1) {
					return f.Refuse("READONLY for now")
				}
				return run()
			})
			extended := make(chan struct{})
			go func() {
				defer close(extended)
				_ = lock.Extend(t.Context(), time.Minute) // it may come too late
			}()
			require.Error(t, lock.Release(t.Context()))
			env.Receive(t, extended)
			f.When(nil)
			require.NoError(t, lock.Release(t.Context()))
		}
	})
}

// An Extend that shortens the lease, and whose answer is lost, may end while a Release is under
// way. The race detector looks on.
func TestReleaseBesideAnExtendWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	f, locker, direct := env.NewFaulty(t, env.Engines(t)[0], rlock.WithTTL(5*time.Minute))
	lock, err := locker.Acquire(t.Context(), "job")
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	asked := make(chan struct{})
	f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		if !env.IsExtend(words) {
			return run()
		}
		close(asked)
		time.Sleep(100 * time.Millisecond) // and nothing that would order what the two do
		cancel()
		return env.NoReply()
	})
	extended := make(chan error, 1)
	go func() { extended <- lock.Extend(ctx, time.Minute) }()
	env.Receive(t, asked)
	require.NoError(t, lock.Release(t.Context()))
	require.ErrorIs(t, env.Receive(t, extended), rlock.ErrReleased)
	require.Empty(t, env.Get(t, direct, "job"))
}

// A second Release ends with its context while the first has no answer, and so does one of
// a batch.
func TestSecondReleaseKeepsItsContext(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(ctx context.Context, locker *rlock.Locker,
		lock *rlock.Lock) error{
		"Release": func(ctx context.Context, _ *rlock.Locker, lock *rlock.Lock) error { return lock.Release(ctx) },
		"ReleaseEach": func(ctx context.Context, locker *rlock.Locker, lock *rlock.Lock) error {
			return locker.ReleaseEach(ctx, []*rlock.Lock{lock})[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f, locker, _ := env.NewFaulty(t, env.Engines(t)[0])
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err)
			gate := env.NewGate(t)
			f.When(func(_ []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				gate.Pass()
				return run()
			})
			first := make(chan error, 1)
			go func() { first <- lock.Release(context.Background()) }()
			gate.Await(t)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			second := make(chan error, 1)
			go func() { second <- release(ctx, locker, lock) }()
			err = env.Receive(t, second) // though the first has no answer yet
			require.ErrorIs(t, err, context.DeadlineExceeded)
			require.ErrorContains(t, err, "another Release")
			f.When(nil)
			gate.Open()
			require.NoError(t, env.Receive(t, first))
			require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrReleased)
		})
	}
}

// A second Release waits for the first, and does the work if that could not.
func TestConcurrentRelease(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, direct := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		gate := env.NewGate(t)
		f.When(env.Once(gen.ReleaseSHA1, func(func() rueidis.RedisResult) rueidis.RedisResult {
			gate.Pass()
			return f.Refuse("READONLY for now")
		}))
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- lock.Release(t.Context()) }()
		gate.Await(t)
		go func() { second <- lock.Release(t.Context()) }()
		gate.Open()
		require.ErrorContains(t, env.Receive(t, first), "READONLY")
		require.NoError(t, env.Receive(t, second))
		require.Empty(t, env.Get(t, direct, "job"))
	})
}

// The Context ends before another can have the keys.
func TestContextEndsBeforeTheKeysAreFree(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		f, locker, _ := env.NewFaulty(t, e)
		lock, err := locker.Acquire(t.Context(), "job")
		require.NoError(t, err)
		ctx := lock.Context()
		var ended atomic.Bool
		f.When(env.Once(gen.ReleaseSHA1, func(run func() rueidis.RedisResult) rueidis.RedisResult {
			ended.Store(ctx.Err() != nil)
			return run()
		}))
		require.NoError(t, lock.Release(t.Context()))
		require.True(t, ended.Load())
	})
}

// A call that a silent server does not answer ends some two seconds after the time-outs of the client, of
// which a try may take several, however long its context lasts.
func TestCallsOfASilentServer(t *testing.T) {
	t.Parallel()
	const timeOut = 2 * time.Second // in which a busy machine connects too
	for name, call := range map[string]func(locker *rlock.Locker, lock *rlock.Lock) error{
		"Release": func(_ *rlock.Locker, lock *rlock.Lock) error { return lock.Release(context.Background()) },
		"Extend": func(_ *rlock.Locker,
			lock *rlock.Lock) error {
			return lock.Extend(context.Background(), time.Minute)
		},
		"ReleaseEach": func(locker *rlock.Locker, lock *rlock.Lock) error {
			return locker.ReleaseEach(context.Background(), []*rlock.Lock{lock})[0]
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := env.Start(t)
			proxy := env.NewProxy(t, server.Addr())
			locker := env.NewLocker(t, server.Client(t, func(o *rueidis.ClientOption) {
				o.InitAddress = []string{proxy.Addr()}
				o.ConnWriteTimeout, o.Dialer.Timeout = timeOut, timeOut
			}))
			lock := env.MustLock(t)(locker.Acquire(t.Context(), "job"))
			proxy.BlackHole(true)
			began := time.Now()
			require.Error(t, call(locker, lock))
			require.Less(t, time.Since(began), 2*time.Second+10*timeOut)
		})
	}
}
