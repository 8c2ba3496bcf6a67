package rlock_test

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/internal/bed"
)

// BenchmarkCycle is an uncontended acquire and release on one connection.
func BenchmarkCycle(b *testing.B) {
	client := bed.Start(b).Client(b)
	for name, opts := range map[string][]rlock.Option{"fenced": nil, "unfenced": {rlock.WithFence(false)}} {
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
		release := rueidis.NewLuaScript(`if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0`)
		ctx := b.Context()
		b.ReportAllocs()
		for b.Loop() {
			if err := client.Do(ctx, client.B().Set().Key("bench").Value("token").Nx().PxMilliseconds(10000).Build()).Error(); err != nil {
				b.Fatal(err)
			}
			if err := release.Exec(ctx, client, []string{"bench"}, []string{"token"}).Error(); err != nil {
				b.Fatal(err)
			}
		}
	})
}
