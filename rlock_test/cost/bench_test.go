package cost

import (
	"os"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// BenchmarkCycle is an uncontended acquire and release on one connection.
func BenchmarkCycle(b *testing.B) {
	client := env.Start(b).Client(b)
	for name, opts := range map[string][]rlock.LockerOption{"fenced": nil,
		"unfenced": {rlock.WithFence(false)}} {
		b.Run(name, func(b *testing.B) {
			locker, err := rlock.New(client, opts...)
			require.NoError(b, err)
			defer locker.Close()
			ctx := b.Context()
			b.ReportAllocs()
			for b.Loop() {
				lock, err := locker.Acquire(ctx, "bench")
				if err != nil {
					b.Fatal(err)
				}
				if err := lock.Release(ctx); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("floor", func(b *testing.B) {
		release := rueidis.NewLuaScript(
			`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
		ctx := b.Context()
		b.ReportAllocs()
		for b.Loop() {
			if err := client.Do(ctx, client.B().Set().Key("bench").Value("token").Nx().PxMilliseconds(
				10000).Build()).Error(); err != nil {
				b.Fatal(err)
			}
			if err := release.Exec(ctx, client, []string{"bench"}, []string{"token"}).Error(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkCheck is a check from the client-side cache, beside the same command sent
// through rueidis by hand, and beside asking the server.
func BenchmarkCheck(b *testing.B) {
	server := env.Start(b)
	client := server.Client(b)
	locker, err := rlock.New(client)
	require.NoError(b, err)
	defer locker.Close()
	ctx := b.Context()
	lock, err := locker.Acquire(ctx, "bench", rlock.WithTTL(time.Hour))
	require.NoError(b, err)
	defer lock.Release(ctx)
	text, err := os.ReadFile("../../scripts/check.lua")
	require.NoError(b, err)
	for name, check := range map[string]func() error{
		"cached": func() error {
			_, err := locker.Check(ctx, "bench")
			return err
		},
		"cached, by hand": func() error {
			command := client.B().EvalRo().Script(string(text)).Numkeys(1).Key("bench").Cache()
			_, err := client.DoCache(ctx, command, time.Minute).ToString()
			return err
		},
		"from the server": func() error {
			_, err := env.Admin(locker).Inspect(ctx, "bench")
			return err
		},
		"valid": func() error {
			if lock.Err() != nil {
				return rlock.ErrNotHeld
			}
			return nil
		},
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := check(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkHundredLocks acquires and releases a hundred locks, in one pipeline and
// one by one.
func BenchmarkHundredLocks(b *testing.B) {
	locker := env.NewLocker(b, env.Start(b).Client(b))
	keys := env.Keys(100)
	b.Run("batch", func(b *testing.B) {
		for b.Loop() {
			results, err := locker.TryAcquireEach(b.Context(), keys)
			if err != nil {
				b.Fatal(err)
			}
			locks := make([]*rlock.Lock, len(results))
			for i, r := range results {
				if r.Err != nil {
					b.Fatal(r.Err)
				}
				locks[i] = r.Lock
			}
			for _, err := range locker.ReleaseEach(b.Context(), locks) {
				if err != nil {
					b.Fatal(err)
				}
			}
		}
	})
	b.Run("one by one", func(b *testing.B) {
		for b.Loop() {
			locks := make([]*rlock.Lock, len(keys))
			for i, key := range keys {
				lock, err := locker.TryAcquire(b.Context(), key)
				if err != nil {
					b.Fatal(err)
				}
				locks[i] = lock
			}
			for _, lock := range locks {
				if err := lock.Release(b.Context()); err != nil {
					b.Fatal(err)
				}
			}
		}
	})
}
