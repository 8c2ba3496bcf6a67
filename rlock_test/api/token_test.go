package api

import (
	"testing"

	"github.com/redis/rueidis"
	"github.com/stretchr/testify/require"

	"github.com/rlock-go/toolkit/rlock"
	"github.com/rlock-go/toolkit/rlock_test/env"
)

// A token that is the beginning of another, or has another as its beginning, is
// another's in every operation.
func TestTokensAreComparedWhole(t *testing.T) {
	t.Parallel()
	env.OnEvery(t, func(t *testing.T, client rueidis.Client) {
		for _, mine := range []string{"job-1", "job-123", "JOB-12", "job-12 ", "", "job-12\x00"} {
			locker := env.NewLocker(t, client)
			lock, err := locker.Acquire(t.Context(), "job", rlock.WithToken("job-12"), rlock.WithTTL(rlock.NoExpiry))
			require.NoError(t, err)
			if mine == "" {
				require.ErrorIs(t, env.Admin(locker).ForceRelease(t.Context(), "job", mine), rlock.ErrInvalid)
				require.NoError(t, lock.Release(t.Context()))
				continue
			}
			other := env.NewLocker(t, client)
			_, err = other.TryAcquire(t.Context(), "job", rlock.WithToken(mine))
			require.ErrorIs(t, err, rlock.ErrHeld)
			_, err = other.TryAcquireAll(t.Context(), []string{"free", "job"}, rlock.WithToken(mine))
			require.ErrorIs(t, err, rlock.ErrHeld)
			_, err = other.Attach(t.Context(), env.NewHandoff(t, mine, lock.Fence(), "job"))
			require.ErrorIs(t, err, rlock.ErrLost)
			require.ErrorIs(t, env.Admin(other).ForceRelease(t.Context(), "job", mine), rlock.ErrLost)
			state := env.HolderOf(t, other, "job")
			require.NotEqual(t, mine, state.Token())

			// A holder whose key has come to another with such a token.
			require.NoError(t, env.Do(t, client, "SET", "job", mine).Error())
			require.ErrorIs(t, lock.Extend(t.Context(), rlock.NoExpiry), rlock.ErrLost)
			require.ErrorIs(t, lock.Release(t.Context()), rlock.ErrLost)
			require.Equal(t, mine, env.Get(t, client, "job"))
			require.NoError(t, env.Admin(other).ForceRelease(t.Context(), "job", mine))
		}
	})
}
