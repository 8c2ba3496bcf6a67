package api

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

func TestBatch(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		mine, other := env.NewLocker(t, client), env.NewLocker(t, client)
		held, err := other.Acquire(t.Context(), "job:1", rlock.WithTTL(time.Hour))
		require.NoError(t, err)
		require.NoError(t, env.Do(t, client, "LPUSH", "job:3", "x").Error())

		results, err := mine.TryAcquireEach(t.Context(), env.Keys(5), rlock.WithTTL(time.Minute))
		require.NoError(t, err)
		require.Len(t, results, 5)
		require.ErrorIs(t, results[1].Err, rlock.ErrHeld)
		var facts *rlock.AcquireError
		require.ErrorAs(t, results[1].Err, &facts)
		require.Equal(t, "job:1", facts.Key)
		require.InDelta(t, time.Hour, facts.Remaining, float64(time.Minute))
		require.Equal(t, 1, facts.Attempts)
		require.ErrorContains(t, results[3].Err, "WRONGTYPE")
		require.Nil(t, results[1].Lock)
		require.Nil(t, results[3].Lock)

		locks := []*rlock.Lock{results[0].Lock, results[2].Lock, results[4].Lock}
		tokens := map[string]bool{}
		for _, lock := range locks {
			require.NoError(t, lock.Err())
			require.NotZero(t, lock.Fence())
			require.Equal(t, 1, lock.Attempts())
			require.Equal(t, lock.Token(), env.Get(t, client, lock.Key()))
			require.LessOrEqual(t, time.Until(lock.Deadline()), time.Minute)
			tokens[lock.Token()] = true
		}
		require.Len(t, tokens, 3)

		require.NoError(t, env.Do(t, client, "SET", "job:2", "thief").Error())
		for i, err := range mine.ExtendEach(t.Context(), locks, time.Hour) {
			if i == 1 {
				require.ErrorIs(t, err, rlock.ErrLost)
				require.Error(t, locks[i].Err())
				continue
			}
			require.NoError(t, err)
			require.InDelta(t, time.Hour, time.Until(locks[i].Deadline()), float64(time.Minute))
		}
		for i, err := range mine.ReleaseEach(t.Context(), locks) {
			if i == 1 {
				require.ErrorIs(t, err, rlock.ErrLost)
				continue
			}
			require.NoError(t, err)
			require.ErrorIs(t, context.Cause(locks[i].Context()), rlock.ErrReleased)
			require.Empty(t, env.Get(t, client, locks[i].Key()))
		}
		require.Equal(t, "thief", env.Get(t, client, "job:2"))
		for _, err := range mine.ReleaseEach(t.Context(), locks) {
			require.ErrorIs(t, err, rlock.ErrReleased)
		}
		require.NoError(t, held.Err())
		require.Equal(t, held.Token(), env.Get(t, client, "job:1"))
	})
}

// A batch takes and releases its locks with one script for up to 128 keys, extends each with one, and sends
// nothing else. The server knows the scripts.
func TestBatchCommands(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		server := e.Start(t)
		locker := env.NewLocker(t, server.Client(t))
		cycle := func() {
			locks := env.TakeEach(t, locker, env.Keys(100))
			for _, errs := range [][]error{locker.ExtendEach(t.Context(), locks, time.Minute),
				locker.ReleaseEach(t.Context(), locks)} {
				for _, err := range errs {
					require.NoError(t, err)
				}
			}
		}
		cycle() // the server learns the scripts
		before := server.CommandStats(t)
		cycle()
		after := server.CommandStats(t)
		require.Equal(t, int64(1+1+1), after["evalsha"]-before["evalsha"])
		require.Zero(t, after["eval"]-before["eval"])
		require.Zero(t, after["script|load"]-before["script|load"])

		held := env.TakeEach(t, locker, env.Keys(50))
		before = server.CommandStats(t)
		results, err := locker.TryAcquireEach(t.Context(), env.Keys(100))
		require.NoError(t, err)
		// TryAcquire does not stand in line, so its holders are not known here.
		require.Equal(t, int64(1), server.CommandStats(t)["evalsha"]-before["evalsha"])
		for i, r := range results {
			require.Equal(t, i < 50, r.Err != nil)
		}
		locker.ReleaseEach(t.Context(), held)
	})
}

// A key that this Locker holds is asked about like any other, as it may have been deleted
// or replaced. Then the lock that it was has ended, and the key can be had.
func TestTryAsksAboutALockOfItsOwn(t *testing.T) {
	t.Parallel()
	try := map[string]func(t *testing.T, locker *rlock.Locker) (*rlock.Lock, error){
		"TryAcquire": func(t *testing.T, locker *rlock.Locker) (*rlock.Lock, error) {
			return locker.TryAcquire(t.Context(), "job")
		},
		"TryAcquireEach": func(t *testing.T, locker *rlock.Locker) (*rlock.Lock, error) {
			results, err := locker.TryAcquireEach(t.Context(), []string{"other", "job"})
			require.NoError(t, err)
			require.NoError(t, results[0].Err)
			require.NoError(t, results[0].Lock.Release(t.Context()))
			return results[1].Lock, results[1].Err
		},
	}
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client, rlock.WithTTL(rlock.NoExpiry))
		for name, try := range try {
			lock, err := locker.Acquire(t.Context(), "job")
			require.NoError(t, err, name)
			_, err = try(t, locker)
			require.ErrorIs(t, err, rlock.ErrHeld, name)
			require.NoError(t, lock.Err(), name)

			require.NoError(t, env.Do(t, client, "SET", "job", "foreign", "PX", "60000").Error())
			_, err = try(t, locker)
			var facts *rlock.AcquireError
			require.ErrorAs(t, err, &facts, name)
			require.ErrorIs(t, err, rlock.ErrHeld, name)
			require.InDelta(t, time.Minute, facts.Remaining, float64(20*time.Second), "it is the other's")
			require.Error(t, lock.Err(), name)
			require.ErrorIs(t, context.Cause(lock.Context()), rlock.ErrLost)
			require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
			require.NoError(t, env.Do(t, client, "DEL", "job").Error())

			lock, err = locker.Acquire(t.Context(), "job")
			require.NoError(t, err, name)
			require.NoError(t, env.Do(t, client, "DEL", "job").Error())
			next, err := try(t, locker)
			require.NoError(t, err, name)
			require.Error(t, lock.Err(), name)
			require.ErrorIs(t, context.Cause(lock.Context()), rlock.ErrLost)
			require.NoError(t, next.Err(), name)
			require.NoError(t, next.Release(t.Context()))
		}
	})
}

func TestBatchRefuses(t *testing.T) {
	t.Parallel()
	server := env.Start(t)
	client := server.Client(t)
	locker := env.NewLocker(t, client)
	foreign, err := env.NewLocker(t, client).Acquire(t.Context(), "foreign")
	require.NoError(t, err)
	own, err := locker.Acquire(t.Context(), "own")
	require.NoError(t, err)
	var none context.Context
	before := server.ScriptCalls(t)

	for name, test := range map[string]struct {
		ctx  context.Context
		keys []string
		opts []rlock.Option
		is   error
	}{
		"an empty key":  {t.Context(), []string{"a", ""}, nil, rlock.ErrInvalid},
		"a key twice":   {t.Context(), []string{"a", "b", "a"}, nil, rlock.ErrDuplicateKey},
		"no context":    {none, []string{"a"}, nil, rlock.ErrInvalid},
		"a bad TTL":     {t.Context(), []string{"a"}, []rlock.Option{rlock.WithTTL(0)}, rlock.ErrInvalid},
		"counter's key": {t.Context(), []string{"rlock:fence:{1}"}, nil, rlock.ErrInvalid},
	} {
		results, err := locker.TryAcquireEach(test.ctx, test.keys, test.opts...)
		require.ErrorIs(t, err, test.is, name)
		require.Nil(t, results, name)
	}
	results, err := locker.TryAcquireEach(t.Context(), nil)
	require.NoError(t, err, "nothing to do")
	require.Empty(t, results)

	locks := []*rlock.Lock{nil, foreign, {}}
	for name, errs := range map[string][]error{
		"extend":           locker.ExtendEach(t.Context(), locks, time.Hour),
		"release":          locker.ReleaseEach(t.Context(), locks),
		"extend by zero":   locker.ExtendEach(t.Context(), []*rlock.Lock{own}, 0),
		"extend with nil":  locker.ExtendEach(none, []*rlock.Lock{own}, time.Hour),
		"release with nil": locker.ReleaseEach(none, []*rlock.Lock{own}),
	} {
		for _, err := range errs {
			require.ErrorIs(t, err, rlock.ErrInvalid, name)
		}
	}
	require.Equal(t, before, server.ScriptCalls(t), "nothing is sent")

	twice := []*rlock.Lock{own, nil, own}
	errs := locker.ExtendEach(t.Context(), twice, time.Hour)
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[2], rlock.ErrInvalid)
	errs = locker.ReleaseEach(t.Context(), twice)
	require.NoError(t, errs[0])
	require.ErrorIs(t, errs[2], rlock.ErrInvalid)
}

func TestBatchAfterClose(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.Start(t).Client(t)
		locker := env.NewLocker(t, client)
		locks := env.TakeEach(t, locker, env.Keys(2))
		locker.Close()
		results, err := locker.TryAcquireEach(t.Context(), []string{"a", "b"})
		require.NoError(t, err)
		for _, r := range results {
			require.ErrorIs(t, r.Err, rlock.ErrClosed)
		}
		for _, err := range locker.ExtendEach(t.Context(), locks, time.Hour) {
			require.ErrorIs(t, err, rlock.ErrClosed)
		}
		for _, err := range locker.ReleaseEach(t.Context(), locks) {
			require.NoError(t, err)
		}
	})
}

// Releases of the same locks in opposite orders do not wait for each other for ever.
func TestBatchReleasesOverlap(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		locker := env.NewLocker(t, e.Start(t).Client(t))
		const n = 500 // enough for them to meet
		for range 20 {
			locks := env.TakeEach(t, locker, env.Keys(n))
			backwards := make([]*rlock.Lock, len(locks))
			for i, lock := range locks {
				backwards[len(locks)-1-i] = lock
			}
			var freed atomic.Int32
			require.NoError(t, env.Together(4, func(n int) error {
				for _, err := range locker.ReleaseEach(t.Context(), [][]*rlock.Lock{locks, backwards}[n%2]) {
					if err == nil {
						freed.Add(1)
					}
				}
				return nil
			}))
			require.Equal(t, int32(n), freed.Load(), "each is released once")
		}
	})
}

func TestBatchOnACluster(t *testing.T) {
	t.Parallel()
	env.Each(t, func(t *testing.T, e env.Engine) {
		client := e.StartCluster(t).Client(t)
		locker := env.NewLocker(t, client)
		locks := env.TakeEach(t, locker, env.Keys(100))
		for _, err := range locker.ExtendEach(t.Context(), locks, time.Minute) {
			require.NoError(t, err)
		}
		for _, err := range locker.ReleaseEach(t.Context(), locks) {
			require.NoError(t, err)
		}
		for _, key := range env.Keys(100) {
			require.Empty(t, env.Get(t, client, key))
		}
	})
}

// A locked context's own keys are refused one by one.
func TestBatchUnderAHolder(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		locker := env.NewLocker(t, client)
		require.NoError(t, locker.Do(t.Context(), "job:1", func(ctx context.Context, _ *rlock.Lock) error {
			results, err := locker.TryAcquireEach(ctx, env.Keys(3), rlock.WithToken("mine"))
			require.NoError(t, err)
			require.NoError(t, results[0].Err)
			require.ErrorIs(t, results[1].Err, rlock.ErrAlreadyHeld)
			require.False(t, strings.Contains(results[1].Err.Error(), "attempts"))
			require.NoError(t, results[2].Err)
			return nil
		}))
	})
}
