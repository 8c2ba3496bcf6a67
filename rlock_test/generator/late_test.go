package generator

import (
	"context"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/gen"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// taking are the calls that take, join or shorten. Each names the last moment at which it may do anything.
var taking = map[string]func(ctx context.Context, c rueidis.Client, token string, notAfter time.Time) error{
	"Acquire": func(ctx context.Context, c rueidis.Client, token string, notAfter time.Time) error {
		_, err := gen.New().Acquire(ctx, c, gen.AcquireParams{
			Lock: contested, Queue: queued, Counter: []string{fences}, Token: token, TTL: time.Hour,
			NotAfter: notAfter,
		})
		return err
	},
	"AcquireAll": func(ctx context.Context, c rueidis.Client, token string, notAfter time.Time) error {
		_, err := gen.New().AcquireAll(ctx, c, gen.AcquireAllParams{
			Keys: []string{contested, "{1}other", fences}, Token: token, TTL: time.Hour, Locks: 2, NotAfter: notAfter,
		})
		return err
	},
	"AcquireMany": func(ctx context.Context, c rueidis.Client, token string, notAfter time.Time) error {
		_, err := gen.New().AcquireMany(ctx, c, gen.AcquireManyParams{
			Keys: []string{contested, queued, fences}, Words: []string{token, "60000"}, NotAfter: notAfter,
		})
		return err
	},
	"Attach": func(ctx context.Context, c rueidis.Client, token string, notAfter time.Time) error {
		_, err := gen.New().Attach(ctx, c, gen.AttachParams{
			Keys: []string{contested}, Token: token, TTL: time.Second, Former: []string{"mine"}, NotAfter: notAfter,
		})
		return err
	},
	"HandOver": func(ctx context.Context, c rueidis.Client, token string, notAfter time.Time) error {
		_, err := gen.New().HandOver(ctx, c, gen.HandOverParams{
			Lock: contested, Queue: queued, Counter: []string{fences}, Token: "mine", Next: token, TTL: time.Hour,
			Fences:   1,
			NotAfter: notAfter,
		})
		return err
	},
	"Requeue": func(ctx context.Context, c rueidis.Client, token string, notAfter time.Time) error {
		_, err := gen.New().Requeue(ctx, c, gen.RequeueParams{
			Lock: contested, Queue: queued, Waiters: waiters, Holders: holders, Grants: grants,
			Counter: []string{fences},
			Token:   "mine", Again: token, TTL: time.Hour, Process: "p", NotAfter: notAfter,
		})
		return err
	},
	"Wait": func(ctx context.Context, c rueidis.Client, token string, notAfter time.Time) error {
		_, err := gen.New().Wait(ctx, c, gen.WaitParams{
			Lock: contested, Queue: queued, Waiters: waiters, Holders: holders, Grants: grants,
			Counter: []string{fences},
			Token:   token, TTL: time.Hour, Process: "p", How: gen.WaitHowJoin, NotAfter: notAfter,
		})
		return err
	},
}

// A call that comes after its last moment, by the server's clock, changes nothing and confirms nothing. Its
// error has the clock. Before that moment it does what it does without one.
func TestLateCalls(t *testing.T) {
	t.Parallel()
	states := map[string][]string{
		"free":   nil,
		"mine":   {"SET", contested, "mine", "PX", "3600000"},
		"other":  {"SET", contested, "other", "PX", "3600000"},
		"shared": {"SET", contested, "rlock:readers 7", "PX", "3600000"},
	}
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		sets := func(words []string) {
			require.NoError(t, env.Do(t, client, "FLUSHALL").Error())
			if words != nil {
				require.NoError(t, env.Do(t, client, words...).Error())
			}
		}
		for name, call := range taking {
			for state, words := range states {
				for _, token := range []string{"mine", "next"} {
					sets(words)
					before := valuesOf(t, client)
					err := call(t.Context(), client, token, time.Now().Add(-time.Minute))
					require.ErrorIs(t, err, gen.ErrLate, "%s %s %s", name, state, token)
					require.Regexp(t, `LATE \d{13}$`, err.Error())
					require.Equal(t, before, valuesOf(t, client), "%s %s %s", name, state, token)

					sets(words)
					errWithout := call(t.Context(), client, token, time.Time{})
					without := valuesOf(t, client)
					sets(words)
					require.Equal(t, errWithout, call(t.Context(), client, token, time.Now().Add(time.Minute)))
					require.Equal(t, without, valuesOf(t, client), "%s %s %s", name, state, token)
				}
			}
		}
	})
}

// valuesOf returns the types of all keys, and the values of texts but for those of fence counters.
func valuesOf(t *testing.T, client rueidis.Client) map[string]string {
	t.Helper()
	keys, err := env.Do(t, client, "KEYS", "*").AsStrSlice()
	require.NoError(t, err)
	all := map[string]string{}
	for _, key := range keys {
		kind, err := env.Do(t, client, "TYPE", key).ToString()
		require.NoError(t, err)
		if all[key] = kind; kind == "string" && key != fences {
			all[key] = env.Get(t, client, key)
		}
	}
	return all
}
