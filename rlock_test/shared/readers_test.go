package shared

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// crowd has n readers of a Locker wait behind a holder of the whole lock, which it then releases. The
// readers have the lock together then.
func crowd(t *testing.T, l *rlock.Locker, key string, n int, opts ...rlock.Option) []*rlock.Lock {
	t.Helper()
	writer := env.MustLock(t)(l.Acquire(t.Context(), key))
	got := make(chan *rlock.Lock, n)
	for range n {
		go func() {
			lock, err := l.AcquireShared(t.Context(), key, opts...)
			if err != nil {
				t.Error(err)
			}
			got <- lock
		}()
	}
	env.AwaitWaiting(t, l, int64(n))
	require.NoError(t, writer.Release(t.Context()))
	locks := make([]*rlock.Lock, n)
	for i := range locks {
		locks[i] = env.Receive(t, got)
		require.NotNil(t, locks[i])
	}
	return locks
}

// held returns how many the server has for a key.
func held(t *testing.T, l *rlock.Locker, key string) int {
	t.Helper()
	return len(env.Inspect(t, l, key).Holders)
}

// Readers of a process share one holder, and each has a handle of its own.
func TestReadersOfAProcessShareAHolder(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		l := env.OpenOn(t, server)
		ctx := t.Context()
		locks := crowd(t, l, "k", 5)
		require.Equal(t, 1, held(t, l, "k"))
		a, b := locks[0], locks[1]
		require.Equal(t, a.Fence(), b.Fence())
		require.Equal(t, a.Token(), b.Token())
		require.Len(t, l.Locks(), 5)
		own := env.MustLock(t)(l.AcquireShared(ctx, "k", rlock.WithUniqueToken(true)))
		require.NotEqual(t, a.Token(), own.Token())
		require.Equal(t, 2, held(t, l, "k"))
		require.ErrorIs(t, env.ErrorOf(a.Detach()), rlock.ErrInvalid)
		handoff := env.Detach(t, own)
		own = env.MustLock(t)(l.Attach(ctx, handoff))
		require.NoError(t, own.Release(ctx))

		inA, inB := a.Context(), b.Context()
		before := server.ScriptCalls(t)
		require.NoError(t, a.Release(ctx))
		require.Equal(t, before, server.ScriptCalls(t), "nothing is sent")
		require.ErrorIs(t, context.Cause(inA), rlock.ErrReleased)
		require.ErrorIs(t, a.Release(ctx), rlock.ErrReleased)
		require.ErrorIs(t, a.Extend(ctx, time.Minute), rlock.ErrReleased)
		require.Empty(t, a.Token())
		require.NoError(t, inB.Err())
		require.NoError(t, b.Verify(ctx))
		require.Equal(t, []error{nil, nil, nil}, l.ReleaseEach(ctx, locks[2:]))
		require.Equal(t, 1, held(t, l, "k"))
		require.NoError(t, b.Release(ctx))
		idle(t, l.Client())
	})
}

// An extension lengthens the lease that all share, and the handle that has asked for it lasts longer. A
// shorter one ends only that handle earlier. When the handle that has lengthened the lease is released,
// the others do not have it longer than they asked for.
func TestReadersExtend(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	l := env.OpenOn(t, server)
	ctx := t.Context()
	const lease = 8 * time.Second
	locks := crowd(t, l, "k", 3, rlock.WithTTL(lease))
	long, short, rest := locks[0], locks[1], locks[2]
	require.NoError(t, long.Extend(ctx, time.Hour))
	require.Greater(t, env.TTL(t, client, "k"), 50*time.Minute)
	require.Greater(t, time.Until(long.Deadline()), 50*time.Minute)
	require.Less(t, time.Until(rest.Deadline()), lease)
	env.Expire(t, short)
	require.Equal(t, 1, held(t, l, "k"))
	require.ErrorIs(t, short.Release(ctx), rlock.ErrExpired)
	require.NoError(t, long.Release(ctx))
	require.Equal(t, 1, held(t, l, "k"), "one has it still")
	// Nobody asks the last one anything, and it is not released.
	env.Soon(t, func() bool { return held(t, l, "k") == 0 }, "nothing is left of its holder, which had an hour")
	require.ErrorIs(t, rest.Release(ctx), rlock.ErrExpired)

	locks = crowd(t, l, "d", 2, rlock.WithTTL(lease), rlock.WithAutoExtend(true))
	first := locks[0].Deadline()
	env.Soon(t, func() bool { return locks[0].Deadline().After(first) && locks[1].Deadline().After(first) },
		"both are extended")
	require.NoError(t, errors.Join(locks[0].Err(), locks[1].Err()))
	require.NoError(t, locks[0].Release(ctx))
	require.NoError(t, locks[1].Verify(ctx))
	former := locks[1].Token()
	require.NoError(t, locks[1].Extend(ctx, lease/2), "it has the holder alone now")
	require.NotEqual(t, former, locks[1].Token())
	require.NoError(t, locks[1].Release(ctx))
	idle(t, client)
}

// The loss of the holder ends all who share it, however one of them learns of it.
func TestReadersLoseTheirHolder(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	l, operator := env.OpenOn(t, server), env.NewLocker(t, client)
	for name, end := range map[string]func(lock *rlock.Lock){
		"forced": func(lock *rlock.Lock) {
			require.NoError(t, env.Admin(operator).ForceRelease(t.Context(), "k", lock.Token()))
			require.ErrorIs(t, lock.Verify(t.Context()), rlock.ErrLost)
		},
		"noticed by an extension": func(lock *rlock.Lock) {
			require.NoError(t, env.Admin(operator).ForceRelease(t.Context(), "k", lock.Token()))
			require.ErrorIs(t, lock.Extend(t.Context(), time.Minute), rlock.ErrLost)
		},
		"flushed": func(*rlock.Lock) { env.Do(t, client, "FLUSHALL") },
	} {
		locks := crowd(t, l, "k", 4)
		ctx := locks[2].Context()
		end(locks[0])
		env.Soon(t, func() bool { return ctx.Err() != nil }, name)
		require.ErrorIs(t, context.Cause(ctx), rlock.ErrLost, name)
		env.Soon(t, func() bool { return locks[1].Extend(t.Context(), time.Minute) != nil }, name)
		for _, lock := range locks {
			require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost, name)
		}
		env.MustLock(t)(l.AcquireShared(t.Context(), "k")).Release(t.Context())
	}
	idle(t, client)
}

// A reader that gives up while it asks the server for others leaves its place to the next of them. One
// that gives up while it waits costs nobody anything.
func TestReaderThatAsksGivesUp(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	l, other := env.OpenOn(t, server), env.OpenOn(t, server)
	writer := env.MustLock(t)(other.Acquire(t.Context(), "k"))
	ctx, cancel := context.WithCancel(t.Context())
	asks, waits, reads := make(chan error, 1), make(chan error, 1), make(chan *rlock.Lock, 1)
	go func() { asks <- env.ErrorOf(l.AcquireShared(ctx, "k")) }()
	queued(t, client, "k", 1)
	go func() { waits <- env.ErrorOf(l.AcquireShared(ctx, "k", rlock.WithRetry(rlock.Fixed(time.Hour)))) }()
	go func() { lock, _ := l.AcquireShared(t.Context(), "k"); reads <- lock }()
	env.AwaitWaiting(t, l, 3)
	next := make(chan *rlock.Lock, 1)
	elsewhere := env.OpenOn(t, server)
	go func() { lock, _ := elsewhere.Acquire(t.Context(), "k"); next <- lock }()
	queued(t, client, "k", 2)
	cancel()
	require.ErrorIs(t, env.Receive(t, asks), rlock.ErrGaveUp)
	require.ErrorIs(t, env.Receive(t, waits), rlock.ErrGaveUp)
	queued(t, client, "k", 2)
	require.NoError(t, writer.Release(t.Context()))
	reader := env.Receive(t, reads)
	require.NoError(t, reader.Err())
	require.Empty(t, next, "it came later")
	require.NoError(t, reader.Release(t.Context()))
	require.NoError(t, env.Receive(t, next).Release(t.Context()))
	idle(t, client)
}

// Readers who wait end with their Locker, those who have the lock too, and an observer that panics in
// one that asks leaves the others to go on.
func TestReadersAndTheirLocker(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	l, other := env.OpenOn(t, server), env.OpenOn(t, server)
	writer := env.MustLock(t)(other.Acquire(t.Context(), "k"))
	panics := rlock.ObserverFunc(func(_ context.Context, e rlock.Event) {
		if e.Kind == rlock.EventAcquired {
			panic("observer")
		}
	})
	panicked, reads := make(chan any, 1), make(chan *rlock.Lock, 2)
	go func() {
		defer func() { panicked <- recover() }()
		_, _ = l.AcquireShared(t.Context(), "k", rlock.WithObserver(panics))
	}()
	queued(t, client, "k", 1)
	for range cap(reads) {
		go func() { lock, _ := l.AcquireShared(t.Context(), "k"); reads <- lock }()
	}
	env.AwaitWaiting(t, l, 3)
	require.NoError(t, writer.Release(t.Context()))
	require.Equal(t, "observer", env.Receive(t, panicked))
	a, b := env.Receive(t, reads), env.Receive(t, reads)
	require.NoError(t, errors.Join(a.Err(), b.Err()))
	require.NoError(t, a.Verify(t.Context()))

	stranded := make(chan error, 3)
	blocked := env.MustLock(t)(other.Acquire(t.Context(), "x"))
	for range cap(stranded) {
		go func() { stranded <- env.ErrorOf(l.AcquireShared(t.Context(), "x")) }()
	}
	env.AwaitWaiting(t, l, 3)
	inA := a.Context()
	l.Close()
	for range cap(stranded) {
		require.ErrorIs(t, env.Receive(t, stranded), rlock.ErrClosed)
	}
	require.ErrorIs(t, context.Cause(inA), rlock.ErrClosed)
	require.ErrorIs(t, b.Err(), rlock.ErrClosed)
	require.NoError(t, blocked.Release(t.Context()))
}

// Whatever gets no answer, nothing is left behind: the last release, or the acquisition of the reader
// who asks, whose token the others then do not get.
func TestReadersWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	f, l, client := env.NewFaulty(t, env.Engines(t)[0])
	for _, sha := range []string{gen.WaitSHA1, gen.ReleaseSHA1} {
		for range 5 {
			var left atomic.Int32
			left.Store(2)
			f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
				answer := run()
				if env.Calls(words, sha) && left.Add(-1) >= 0 {
					return env.NoReply()
				}
				return answer
			})
			var work sync.WaitGroup
			for range 20 {
				work.Go(func() {
					for range 5 {
						if err := l.DoShared(t.Context(), "k",
							func(context.Context, *rlock.Lock) error { return nil }); err != nil {
							t.Error(err)
						}
					}
				})
			}
			work.Wait()
		}
	}
	idle(t, client)
}

// Last releases beside new readers, writers of the same process and of another, and readers that lose
// patience: nobody meets whom it must not, and nothing is left.
func TestReadersComeAndGo(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		t.Parallel()
		server := e.Start(t)
		var r resource
		var work sync.WaitGroup
		for range 2 {
			l := env.OpenOn(t, server)
			for i := range 16 {
				work.Go(func() {
					for range 60 {
						read := func(context.Context, *rlock.Lock) error {
							r.readers.Add(1)
							r.check(r.writers.Load() == 0, "a reader meets a writer")
							if i%4 == 0 {
								time.Sleep(time.Millisecond)
							}
							r.check(r.writers.Load() == 0, "a writer came to a reader")
							r.readers.Add(-1)
							return nil
						}
						var err error
						switch {
						case i == 0:
							err = l.Do(t.Context(), "k", func(context.Context, *rlock.Lock) error {
								r.check(r.writers.Add(1) == 1 && r.readers.Load() == 0, "a writer is not alone")
								time.Sleep(100 * time.Microsecond)
								r.check(r.readers.Load() == 0, "a reader came to a writer")
								r.writers.Add(-1)
								return nil
							})
						case i%5 == 0:
							ctx, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
							_ = l.DoShared(ctx, "k", read)
							cancel()
						case i%7 == 0:
							if lock, tried := l.TryAcquireShared(t.Context(), "k"); tried == nil {
								_ = read(t.Context(), lock)
								err = lock.Release(t.Context())
							}
						default:
							err = l.DoShared(t.Context(), "k", read)
						}
						if err != nil {
							t.Error(err)
							return
						}
					}
				})
			}
		}
		work.Wait()
		r.report(t)
		idle(t, server.Client(t))
	})
}

// A writer of another process gets in among a hundred readers of one process of which always some
// read, although a new reader needs no command: it waits for the longest read and a turn.
func TestWriterAmongReadersOfAProcess(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	l, other := env.OpenOn(t, server), env.OpenOn(t, server)
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	var reads, writing atomic.Int64
	const read = 20 * time.Millisecond
	for i := range 100 {
		work.Go(func() {
			time.Sleep(time.Duration(i) * read / 100)
			for ctx.Err() == nil {
				err := l.DoShared(ctx, "k", func(context.Context, *rlock.Lock) error {
					if writing.Load() > 0 {
						t.Error("a reader meets a writer")
					}
					time.Sleep(read)
					reads.Add(1)
					return nil
				})
				if err != nil && ctx.Err() == nil {
					t.Error(err)
				}
			}
		})
	}
	env.Soon(t, func() bool { return reads.Load() > 500 }, "they read")
	waits := make([]time.Duration, 10)
	for i := range waits {
		start, first := time.Now(), reads.Load()
		lock := env.MustLock(t)(other.Acquire(ctx, "k"))
		waits[i] = time.Since(start)
		writing.Add(1)
		before := reads.Load()
		letIn(t, before-first, 100, read)
		time.Sleep(2 * time.Millisecond)
		require.Equal(t, before, reads.Load())
		writing.Add(-1)
		require.NoError(t, lock.Release(ctx))
		env.Soon(t, func() bool { return reads.Load() > before+100 }, "they read again")
	}
	stop()
	work.Wait()
	t.Logf("a writer waited for %v among reads of %v", waits, read)
	slices.Sort(waits)
	require.Less(t, waits[0], time.Second)
}

// A copy of an acquisition that the network has delayed until all readers have left takes the key again,
// and is given up: the reader who has asked knows of it, and does not share what it has got.
func TestLateCopyOfAReadersAcquisition(t *testing.T) {
	t.Parallel()
	f, l, client := env.NewFaulty(t, env.Engines(t)[0])
	late, gate := make(chan func() rueidis.RedisResult, 1), env.NewGate(t)
	var first atomic.Bool
	f.When(func(words []string, run func() rueidis.RedisResult) rueidis.RedisResult {
		if env.Calls(words, gen.WaitSHA1) && first.CompareAndSwap(false, true) {
			late <- run
			gate.Pass()
			return env.NoReply()
		}
		return run()
	})
	got := make(chan *rlock.Lock, 2)
	for range cap(got) {
		go func() {
			lock, err := l.AcquireShared(t.Context(), "k", rlock.WithTTL(time.Hour))
			if err != nil {
				t.Error(err)
			}
			got <- lock
		}()
	}
	env.AwaitWaiting(t, l, 1)
	gate.Open()
	for range cap(got) {
		require.NoError(t, env.Receive(t, got).Release(t.Context()))
	}
	require.NoError(t, env.Receive(t, late)().Error())
	idle(t, client)
}
