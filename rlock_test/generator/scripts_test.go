package generator

import (
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/redislua"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// The protocol, script by script, through the bindings.
func TestScripts(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		s, ctx := gen.New(), t.Context()
		set := func(pairs ...string) {
			t.Helper()
			require.NoError(t, env.Do(t, client, "FLUSHALL").Error())
			for i := 0; i < len(pairs); i += 2 {
				require.NoError(t, env.Do(t, client, "SET", pairs[i], pairs[i+1], "PX", "60000").Error())
			}
		}
		left := func(key string) time.Duration {
			t.Helper()
			n, err := env.Do(t, client, "PTTL", key).ToInt64()
			require.NoError(t, err)
			return time.Duration(n) * time.Millisecond
		}

		t.Run("tokens are compared whole", func(t *testing.T) {
			for _, token := range []string{"job-1", "job-123", "JOB-12", "job-12\x00", ""} {
				set("a", "job-12", "b", "job-12")
				one, err := s.Acquire(ctx, client, gen.AcquireParams{Lock: "a", Queue: "a", Token: token, TTL: time.Hour})
				require.NoError(t, err)
				require.EqualValues(t, 2, one.Outcome)
				all, err := s.AcquireAll(ctx, client,
					gen.AcquireAllParams{Keys: []string{"c", "b"}, Token: token, TTL: time.Hour, Locks: 2})
				require.NoError(t, err)
				require.False(t, all.Acquired)
				require.Equal(t, int64(2), all.Held)
				lost, err := s.Extend(
					ctx, client, gen.ExtendParams{Keys: []string{"a", "b"}, Tokens: []string{token}, TTL: time.Hour},
				)
				require.NoError(t, err)
				require.Equal(t, []int64{1, 2}, lost)
				freed, err := s.ReleaseMany(
					ctx, client, gen.ReleaseManyParams{Keys: []string{"a", "b"}, Locks: 2, Tokens: []string{token}},
				)
				require.NoError(t, err)
				require.Equal(t, []int64{0, 0}, freed)
				require.Equal(t, "job-12", env.Get(t, client, "a"))
				require.Equal(t, "job-12", env.Get(t, client, "b"))
				require.LessOrEqual(t, left("a"), time.Minute)
			}
		})
		t.Run("the owner is confirmed, with the longer lease", func(t *testing.T) {
			for _, test := range []struct{ ask, least, most time.Duration }{
				{time.Second, 30 * time.Second, time.Minute},
				{time.Hour, 59 * time.Minute, time.Hour},
				{0, -time.Millisecond, -time.Millisecond},
			} {
				set("a", "mine", "b", "mine")
				one, err := s.Acquire(ctx, client, gen.AcquireParams{Lock: "a", Queue: "a", Token: "mine", TTL: test.ask})
				require.NoError(t, err)
				require.Equal(t, gen.AcquireResult{Outcome: 1}, one)
				all, err := s.AcquireAll(ctx, client,
					gen.AcquireAllParams{Keys: []string{"b", "c"}, Token: "mine", TTL: test.ask, Locks: 2})
				require.NoError(t, err)
				require.Equal(t, gen.AcquireAllResult{Acquired: true}, all)
				for _, key := range []string{"a", "b"} {
					require.GreaterOrEqual(t, left(key), test.least)
					require.LessOrEqual(t, left(key), test.most)
				}
				require.Equal(t, "mine", env.Get(t, client, "c"))
			}
		})
		t.Run("without a lease", func(t *testing.T) {
			set()
			all, err := s.AcquireAll(ctx, client,
				gen.AcquireAllParams{Keys: []string{"a", "b"}, Token: "mine", Locks: 2})
			require.NoError(t, err)
			require.True(t, all.Acquired)
			require.Equal(t, -time.Millisecond, left("a"))
			require.Equal(t, -time.Millisecond, left("b"))
			held, err := s.AcquireAll(ctx, client,
				gen.AcquireAllParams{Keys: []string{"b"}, Token: "other", TTL: time.Second, Locks: 1})
			require.NoError(t, err)
			require.Equal(t, gen.AcquireAllResult{Remaining: -time.Millisecond, Held: 1}, held)
		})
		t.Run("a fence stands above all its counters and the clock", func(t *testing.T) {
			set()
			clock, err := env.Do(t, client, "TIME").AsStrSlice()
			require.NoError(t, err)
			require.NotEmpty(t, clock)
			far := int64(4_000_000_000_000_000) // beyond the clock for a while
			require.NoError(t, env.Do(t, client, "SET", "x", "4000000000000000").Error())
			require.NoError(t, env.Do(t, client, "SET", "y", "7").Error())
			all, err := s.AcquireAll(ctx, client,
				gen.AcquireAllParams{Keys: []string{"a", "x", "y"}, Token: "mine", TTL: time.Second, Locks: 1})
			require.NoError(t, err)
			require.Equal(t, far+1, all.Fence)
			require.Equal(t, "4000000000000001", env.Get(t, client, "x"))
			require.Equal(t, "4000000000000001", env.Get(t, client, "y"))

			// A counter that lags behind the clock is raised to it.
			require.NoError(t, env.Do(t, client, "SET", "y", "7").Error())
			one, err := s.Acquire(
				ctx, client,
				gen.AcquireParams{Lock: "b", Queue: "b", Counter: []string{"y"}, Token: "mine", TTL: time.Second},
			)
			require.NoError(t, err)
			require.InDelta(t, time.Now().UnixMicro(), one.Value, 1e8)
			require.NoError(t, env.Do(t, client, "SET", "y", "7").Error())
			all, err = s.AcquireAll(ctx, client,
				gen.AcquireAllParams{Keys: []string{"c", "y"}, Token: "mine", TTL: time.Second, Locks: 1})
			require.NoError(t, err)
			require.InDelta(t, time.Now().UnixMicro(), all.Fence, 1e8)
		})
		t.Run("a number of locks that cannot be is refused", func(t *testing.T) {
			set()
			for _, locks := range []int64{0, -1, 3} {
				_, err := s.AcquireAll(ctx, client,
					gen.AcquireAllParams{Keys: []string{"a", "b"}, Token: "mine", TTL: time.Second, Locks: locks})
				require.ErrorContains(t, err, "the number of locks is not between 1 and the number of keys")
			}
			require.Empty(t, env.Get(t, client, "a"))
		})
		t.Run("counters are raised, by the holder of all locks", func(t *testing.T) {
			set("a", "mine", "b", "mine", "low", "7", "high", "5000000000000000")
			params := gen.RaiseFenceParams{Keys: []string{"a", "b", "low", "high", "none"}, Token: "mine",
				Fence: 4_000_000_000_000_001, Locks: 2}
			for range 2 {
				position, err := s.RaiseFence(ctx, client, params)
				require.NoError(t, err)
				require.Zero(t, position)
				require.Equal(t, "4000000000000001", env.Get(t, client, "low"))
				require.Equal(t, "4000000000000001", env.Get(t, client, "none"))
				require.Equal(t, "5000000000000000", env.Get(t, client, "high"))
			}
			set("a", "mine", "b", "other", "low", "7")
			position, err := s.RaiseFence(ctx, client, params)
			require.NoError(t, err)
			require.Equal(t, int64(2), position)
			require.Equal(t, "7", env.Get(t, client, "low"))
		})
		t.Run("batches answer each call", func(t *testing.T) {
			set("held", "other")
			require.NoError(t, env.Do(t, client, "SCRIPT", "FLUSH").Error())
			for range 2 { // unknown to the server, then known
				replies := s.AcquireBatch(ctx, client, []gen.AcquireParams{
					{Lock: "a", Queue: "a", Token: "mine", TTL: time.Minute},
					{Lock: "held", Queue: "held", Token: "mine", TTL: time.Minute},
					{Lock: "b", Queue: "b", Token: "mine", TTL: time.Microsecond},
				})
				require.Len(t, replies, 3)
				require.Equal(t, redislua.Reply[gen.AcquireResult]{Value: gen.AcquireResult{Outcome: 1}}, replies[0])
				require.NoError(t, replies[1].Err)
				require.EqualValues(t, 2, replies[1].Value.Outcome)
				var wrong *redislua.ParamError
				require.ErrorAs(t, replies[2].Err, &wrong)
				require.Empty(t, env.Get(t, client, "b"))
			}
		})
	})
}
